//! JSONPath of printer columns, scale and selectable fields: `.status.conditions[?(@.type=="Ready")].status`.

// upstream: staging/src/k8s.io/client-go/util/jsonpath/jsonpath.go FindResults, evalField, evalArray, evalFilter
// upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go Parse

use std::borrow::Cow;

use serde_json::Value;

/// A path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// `[*]`, `.*`
    All,
    /// `..`
    Descend,
    /// `[1]`, `[0:2]`, `[::2]`
    Range(Option<i64>, Option<i64>, Option<i64>),
    /// `[0]`, which must be there.
    Index(i64),
    /// `[a,b]`
    Union(Vec<JsonPath>),
    /// `[?(@.a == 1)]`
    Filter(Operand, Comparison, Operand),
    /// The object itself.
    Root,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Constant(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The signs of comparisons; longer ones first.
const SIGNS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// The path does not lead there, in a way that is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathNotFound;

// --- JsonPath ---

impl JsonPath {
    /// Reads a path; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<JsonPath> {
        let mut parser = Parser { rest: text };
        let path = parser.path(&[])?;
        parser.rest.is_empty().then_some(path)
    }

    /// What is found at its end. Fields that are not there are passed over.
    pub(super) fn find<'v>(&self, object: &'v Value) -> Result<Vec<&'v Value>, PathNotFound> {
        let mut found = vec![object];
        for step in &self.0 {
            found = step.take(&found)?;
        }
        Ok(found)
    }
}

/// Values that a step may find. Steps that descend, or name several paths, find values more than once.
const MAX_FOUND: usize = 1_000_000;

// --- Step ---

impl Step {
    fn take<'v>(&self, from: &[&'v Value]) -> Result<Vec<&'v Value>, PathNotFound> {
        let mut found = Vec::new();
        match self {
            Step::Root => found.extend(from),
            Step::Field(name) => found.extend(from.iter().filter_map(|value| value.get(name))),
            Step::All => {
                for value in from {
                    match value {
                        Value::Array(items) => found.extend(items),
                        Value::Object(fields) => found.extend(fields.values()),
                        _ => {}
                    }
                }
            }
            Step::Descend => from.iter().for_each(|value| descend(value, &mut found)),
            Step::Union(paths) => {
                for path in paths {
                    let mut ends = from.to_vec();
                    for step in &path.0 {
                        ends = step.take(&ends)?;
                    }
                    found.extend(ends);
                    if found.len() > MAX_FOUND {
                        return Err(PathNotFound);
                    }
                }
            }
            Step::Index(_) | Step::Range(..) => {
                for value in from.iter().filter(|value| !value.is_null()) {
                    let Value::Array(items) = value else {
                        return Err(PathNotFound);
                    };
                    self.slice(items, &mut found)?;
                }
            }
            Step::Filter(left, comparison, right) => {
                for value in from.iter().filter(|value| !value.is_null()) {
                    let Value::Array(items) = value else {
                        return Err(PathNotFound);
                    };
                    for item in items {
                        if comparison.holds(&left.values(item)?, &right.values(item)?)? {
                            found.push(item);
                        }
                    }
                }
            }
        }
        if found.len() > MAX_FOUND {
            return Err(PathNotFound);
        }
        Ok(found)
    }

    fn slice<'v>(&self, items: &'v [Value], found: &mut Vec<&'v Value>) -> Result<(), PathNotFound> {
        let count = i64::try_from(items.len()).map_err(|_| PathNotFound)?;
        let from_end = |index: i64| if index < 0 { index + count } else { index };
        let get = |index: i64| usize::try_from(index).ok().and_then(|index| items.get(index));
        match *self {
            Step::Index(index) => found.push(get(from_end(index)).ok_or(PathNotFound)?),
            Step::Range(start, end, step) => {
                let step = step.unwrap_or(1);
                if step <= 0 {
                    return Err(PathNotFound);
                }
                let end = from_end(end.unwrap_or(count)).min(count);
                let mut index = from_end(start.unwrap_or(0));
                if index < 0 || (index >= count && count > 0) {
                    return Err(PathNotFound);
                }
                while index < end {
                    found.extend(get(index));
                    index += step;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A value and all below it.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    if found.len() > MAX_FOUND {
        return;
    }
    found.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| descend(field, found)),
        _ => {}
    }
}

// --- Operand ---

impl Operand {
    fn values<'v>(&'v self, item: &'v Value) -> Result<Cow<'v, [&'v Value]>, PathNotFound> {
        match self {
            Operand::Path(path) => path.find(item).map(Cow::Owned),
            Operand::Constant(value) => Ok(Cow::Owned(vec![value])),
        }
    }
}

// --- Comparison ---

impl Comparison {
    fn holds(self, left: &[&Value], right: &[&Value]) -> Result<bool, PathNotFound> {
        if self == Comparison::Exists {
            return Ok(!left.is_empty());
        }
        if left.len() > 1 || right.len() > 1 {
            return Err(PathNotFound);
        }
        let (Some(left), Some(right)) = (left.first(), right.first()) else {
            return Ok(false);
        };
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
                left.as_f64().partial_cmp(&right.as_f64()).ok_or(PathNotFound)?
            }
            _ => return Err(PathNotFound),
        };
        Ok(match self {
            Comparison::Exists | Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        })
    }
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn skip(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads steps to the end, or to one of these signs.
    fn path(&mut self, ends: &[&str]) -> Option<JsonPath> {
        let mut steps = Vec::new();
        loop {
            self.rest = self.rest.trim_start_matches(' ');
            if self.rest.is_empty() || ends.iter().any(|end| self.rest.starts_with(end)) {
                return Some(JsonPath(steps));
            }
            if self.skip("@") || self.skip("$") {
                steps.push(Step::Root);
            } else if self.rest.starts_with('[') {
                steps.push(self.bracket()?);
            } else if self.skip("..") {
                steps.push(Step::Descend);
                if !self.rest.starts_with(['.', '[']) {
                    steps.push(self.field()?);
                }
            } else if self.skip(".") {
                if !self.rest.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if steps.is_empty() {
                steps.push(self.field()?);
            } else {
                return None;
            }
        }
    }

    /// A name; a backslash takes the next character as it is.
    fn field(&mut self) -> Option<Step> {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((index, c)) = chars.next() {
            match c {
                '\\' => name.push(chars.next()?.1),
                '.' | '[' | ']' | ')' | ' ' | '}' | '{' | '=' | '<' | '>' | '!' => {
                    end = index;
                    break;
                }
                c => name.push(c),
            }
        }
        self.rest = &self.rest[end..];
        match name.as_str() {
            "" => Some(Step::Root),
            "*" => Some(Step::All),
            _ => Some(Step::Field(name)),
        }
    }

    fn bracket(&mut self) -> Option<Step> {
        if self.skip("[?(") {
            return self.filter();
        }
        let inner = self.until_bracket()?;
        let inner = inner.trim();
        if inner == "*" {
            return Some(Step::All);
        }
        let parts = split_list(inner);
        if parts.len() > 1 {
            let paths: Option<Vec<_>> = parts.iter().map(|part| one_of(part)).collect();
            return Some(Step::Union(paths?));
        }
        single(inner)
    }

    /// What stands between brackets; quotes may hide one.
    fn until_bracket(&mut self) -> Option<&'t str> {
        let text = self.rest.strip_prefix('[')?;
        let mut quote = None;
        let mut escaped = false;
        for (index, c) in text.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if quote == Some(c) => quote = None,
                '\'' | '"' if quote.is_none() => quote = Some(c),
                ']' if quote.is_none() => {
                    self.rest = &text[index + 1..];
                    return Some(&text[..index]);
                }
                _ => {}
            }
        }
        None
    }

    fn filter(&mut self) -> Option<Step> {
        let left = self.operand()?;
        self.rest = self.rest.trim_start();
        let comparison = SIGNS
            .iter()
            .find(|(sign, _)| self.skip(sign))
            .map_or(Comparison::Exists, |(_, comparison)| *comparison);
        let right = match comparison {
            Comparison::Exists => Operand::Constant(Value::Null),
            _ => self.operand()?,
        };
        self.rest = self.rest.trim_start();
        self.skip(")]").then_some(Step::Filter(left, comparison, right))
    }

    fn operand(&mut self) -> Option<Operand> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next()?;
        if first == '"' || first == '\'' {
            let mut text = String::new();
            let mut chars = self.rest[1..].char_indices();
            while let Some((index, c)) = chars.next() {
                match c {
                    '\\' => text.push(chars.next()?.1),
                    c if c == first => {
                        self.rest = &self.rest[1 + index + 1..];
                        return Some(Operand::Constant(Value::String(text)));
                    }
                    c => text.push(c),
                }
            }
            return None;
        }
        if first == '@' || first == '$' || first == '.' {
            return self.path(&[")", "=", "!", "<", ">"]).map(Operand::Path);
        }
        let end = self
            .rest
            .find([')', '=', '!', '<', '>', ' '])
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        serde_json::from_str(word).ok().map(Operand::Constant)
    }
}

/// The parts of a list between commas that no quotes hide.
fn split_list(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut quote = None;
    for (index, c) in text.char_indices() {
        match c {
            c if quote == Some(c) => quote = None,
            '\'' | '"' if quote.is_none() => quote = Some(c),
            ',' if quote.is_none() => {
                parts.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn one_of(part: &str) -> Option<JsonPath> {
    match single(part) {
        Some(step) => Some(JsonPath(vec![step])),
        None => JsonPath::parse(part),
    }
}

/// A name in quotes, an index, or a range.
fn single(text: &str) -> Option<Step> {
    for quote in ['\'', '"'] {
        if let Some(name) = text.strip_prefix(quote) {
            let name = name.strip_suffix(quote)?;
            return Some(Step::Field(name.replace("\\'", "'").replace("\\\"", "\"")));
        }
    }
    let number = |text: &str| text.trim().parse::<i64>().ok();
    if let Some(index) = number(text) {
        return Some(Step::Index(index));
    }
    let parts: Vec<_> = text.split(':').collect();
    let bound = |index: usize| match parts.get(index).map(|part| part.trim()) {
        None | Some("") => Some(None),
        Some(text) => number(text).map(Some),
    };
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    Some(Step::Range(bound(0)?, bound(1)?, bound(2)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(path: &str) -> Vec<Value> {
        let object = json!({"a": {"b": 1, "c.d": 2}, "l": ["x", "y", "z"], "n": null,
            "conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True", "n": 3}]});
        let path = JsonPath::parse(path).unwrap();
        path.find(&object)
            .unwrap_or_default()
            .into_iter()
            .cloned()
            .collect()
    }

    #[test]
    fn a_path_finds_what_it_names() {
        assert_eq!(found(".a.b"), [json!(1)]);
        assert_eq!(found(".a['c.d']"), [json!(2)]);
        assert_eq!(found(r".a.c\.d"), [json!(2)]);
        assert_eq!(found(".l[0]"), [json!("x")]);
        assert_eq!(found(".l[-1]"), [json!("z")]);
        assert_eq!(found(".l[0:2]"), [json!("x"), json!("y")]);
        assert_eq!(found(".l[*]").len(), 3);
        assert_eq!(found(".l[0,2]"), [json!("x"), json!("z")]);
        assert_eq!(
            found(r#".conditions[?(@.type=="Ready")].status"#),
            [json!("True")]
        );
        assert_eq!(found(".conditions[?(@.n > 2)].type"), [json!("Ready")]);
        assert_eq!(found(".conditions[?(@.n)].type"), [json!("Ready")]);
        assert_eq!(found("..status"), [json!("False"), json!("True")]);
        assert!(found(".a.z.y").is_empty() && found(".l[7]").is_empty() && found(".a[0]").is_empty());
    }

    #[test]
    fn what_is_no_path_is_none() {
        for text in [".a[", ".a[?(@.b==]", ".a[x]", ".a[1:2:3:4]"] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[.a\\[\\]'\"?@()=<>*:,0-9 \\\\-]{0,16}") {
            if let Some(path) = JsonPath::parse(&text) {
                let _ = path.find(&json!({"a": [1, {"a": 2}]}));
            }
        }
    }
}
