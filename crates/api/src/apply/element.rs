//! One element of a field path (`fieldpath.PathElement`).

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/element.go PathElement, Compare
// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize-pe.go SerializePathElement, DeserializePathElement

use std::{borrow::Cow, cmp::Ordering, fmt};

use serde_json::{Map, Value};

use super::order;
use crate::go;

/// One step from a value to a part of it.
///
/// Steps borrow from the objects they were found in, so that comparing two objects copies no names.
#[derive(Clone, Debug)]
pub enum PathElement<'a> {
    /// A field of an object.
    Field(Cow<'a, str>),
    /// The item of a list whose fields have these values; sorted by name.
    Key(Box<[KeyField<'a>]>),
    /// The item of a set that is this value.
    Item(Cow<'a, Value>),
    /// The item at a position.
    Index(i64),
}

/// A field that identifies list items, and its value.
pub type KeyField<'a> = (Cow<'a, str>, Cow<'a, Value>);

/// Why a string is no step of a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadElement {
    /// Steps have a letter and a colon in front.
    #[error("key must be 2 characters long:")]
    Short,
    /// The second character is not a colon.
    #[error("missing colon: {0}")]
    NoColon(String),
    /// A letter that means nothing today. Records may hold such steps; they are passed over.
    #[error("unknown path element type")]
    UnknownKind,
    /// What follows the colon is not JSON of the right form.
    #[error("invalid value in {element}: {reason}")]
    Value {
        /// The step.
        element: String,
        /// What is wrong with it.
        reason: String,
    },
}

// --- PathElement ---

impl<'a> PathElement<'a> {
    /// The step to a field.
    pub fn field(name: impl Into<Cow<'a, str>>) -> Self {
        Self::Field(name.into())
    }

    /// The step to the list item with these values.
    pub fn key<N, V>(fields: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<Cow<'a, str>>,
        V: Into<Value>,
    {
        let mut fields: Box<[_]> = fields
            .into_iter()
            .map(|(name, value)| (name.into(), Cow::Owned(value.into())))
            .collect();
        sort_fields(&mut fields);
        Self::Key(fields)
    }

    /// The step to the item of a set.
    pub fn item(value: impl Into<Value>) -> Self {
        Self::Item(Cow::Owned(value.into()))
    }

    /// Reads a step as records hold it: `f:name`, `k:{"name":"a"}`, `v:"a"`, `i:0`.
    pub fn decode(text: &'a str) -> Result<Self, BadElement> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 {
            return Err(BadElement::Short);
        }
        if bytes[1] != b':' {
            return Err(BadElement::NoColon(text.to_owned()));
        }
        let bad = |reason: String| BadElement::Value {
            element: text.to_owned(),
            reason,
        };
        match bytes[0] {
            b'f' => Ok(Self::Field(Cow::Borrowed(&text[2..]))),
            b'v' => {
                let value = serde_json::from_str(&text[2..]).map_err(|error| bad(error.to_string()))?;
                Ok(Self::Item(Cow::Owned(value)))
            }
            b'k' => {
                if let Some(fields) = plain_key(&text[2..]) {
                    return Ok(Self::Key(fields));
                }
                let fields: Map<String, Value> =
                    serde_json::from_str(&text[2..]).map_err(|error| bad(error.to_string()))?;
                let mut fields: Box<[_]> = fields
                    .into_iter()
                    .map(|(name, value)| (Cow::Owned(name), Cow::Owned(value)))
                    .collect();
                sort_fields(&mut fields);
                Ok(Self::Key(fields))
            }
            b'i' => text[2..]
                .parse()
                .map(Self::Index)
                .map_err(|_| bad("not an integer".to_owned())),
            _ => Err(BadElement::UnknownKind),
        }
    }

    /// Appends the step as records hold it.
    pub fn encode(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    go::push_json_string(out, name);
                    out.push(':');
                    go::push_json(out, value);
                }
                out.push('}');
            }
            Self::Item(value) => {
                out.push_str("v:");
                go::push_json(out, value);
            }
            Self::Index(index) => {
                out.push_str("i:");
                out.push_str(&index.to_string());
            }
        }
    }

    /// The same step, holding copies of what it borrowed.
    pub fn into_owned(self) -> PathElement<'static> {
        match self {
            Self::Field(name) => PathElement::Field(Cow::Owned(name.into_owned())),
            Self::Key(fields) => PathElement::Key(
                fields
                    .into_iter()
                    .map(|(name, value)| (Cow::Owned(name.into_owned()), Cow::Owned(value.into_owned())))
                    .collect(),
            ),
            Self::Item(value) => PathElement::Item(Cow::Owned(value.into_owned())),
            Self::Index(index) => PathElement::Index(index),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Item(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// Reads a key as it is usually written: names and values without escapes, sorted, no spaces.
fn plain_key(text: &str) -> Option<Box<[KeyField<'_>]>> {
    let mut rest = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut fields: Vec<KeyField<'_>> = Vec::with_capacity(2);
    loop {
        let name = plain_string(&mut rest)?;
        rest = rest.strip_prefix(':')?;
        let value = if rest.starts_with('"') {
            Value::String(plain_string(&mut rest)?.to_owned())
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let number: u32 = rest[..end].parse().ok()?;
            if rest.starts_with('+') || (rest.starts_with('0') && end > 1) {
                return None;
            }
            rest = &rest[end..];
            Value::from(number)
        };
        if fields.last().is_some_and(|last| *last.0 >= *name) {
            return None;
        }
        fields.push((Cow::Borrowed(name), Cow::Owned(value)));
        if rest.is_empty() {
            return Some(fields.into_boxed_slice());
        }
        rest = rest.strip_prefix(',')?;
    }
}

fn plain_string<'t>(rest: &mut &'t str) -> Option<&'t str> {
    let inner = rest.strip_prefix('"')?;
    let end = inner.find(|letter: char| matches!(letter, '"' | '\\') || letter < ' ')?;
    if !inner[end..].starts_with('"') {
        return None;
    }
    *rest = &inner[end + 1..];
    Some(&inner[..end])
}

pub(crate) fn sort_fields(fields: &mut [KeyField<'_>]) {
    fields.sort_by(|left, right| left.0.cmp(&right.0));
}

impl Ord for PathElement<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                let differing = left
                    .iter()
                    .zip(right)
                    .map(|(left, right)| {
                        left.0
                            .cmp(&right.0)
                            .then_with(|| order::compare(&left.1, &right.1))
                    })
                    .find(|order| order.is_ne());
                differing.unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (Self::Item(left), Self::Item(right)) => order::compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement<'_> {}

/// As messages show it: `.spec`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", DisplayedValue(value))?;
                }
                f.write_str("]")
            }
            Self::Item(value) => write!(f, "[={}]", DisplayedValue(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value inside a path, as messages show it.
struct DisplayedValue<'v>(&'v Value);

impl fmt::Display for DisplayedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::String(text) => {
                let mut out = String::with_capacity(text.len() + 2);
                go::push_quote(&mut out, text);
                f.write_str(&out)
            }
            Value::Bool(_) | Value::Number(_) => {
                let mut out = String::new();
                go::push_plain(&mut out, self.0);
                f.write_str(&out)
            }
            Value::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{}", DisplayedValue(item))?;
                }
                f.write_str("]")
            }
            Value::Object(object) => object
                .iter()
                .try_for_each(|(key, value)| write!(f, "{key}={}", DisplayedValue(value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encoded(element: &PathElement<'_>) -> String {
        let mut out = String::new();
        element.encode(&mut out);
        out
    }

    #[test]
    fn keys_are_canonical_however_they_were_written() {
        let element = PathElement::decode(r#"k:{ "protocol":"TCP", "containerPort" : 80.0 }"#).unwrap();
        assert_eq!(encoded(&element), r#"k:{"containerPort":80,"protocol":"TCP"}"#);
        assert_eq!(element.to_string(), r#"[containerPort=80,protocol="TCP"]"#);
        assert_eq!(
            element,
            PathElement::key([("protocol", json!("TCP")), ("containerPort", json!(80))])
        );
    }

    #[test]
    fn sorts_fields_before_keys_before_values_before_indexes() {
        let sorted = [
            PathElement::field("z"),
            PathElement::key([("a", json!(9))]),
            PathElement::key([("a", json!(10))]),
            PathElement::key([("a", json!(10)), ("b", json!("x"))]),
            PathElement::key([("a", json!("1"))]),
            PathElement::item(2),
            PathElement::item("a"),
            PathElement::item(true),
            PathElement::Index(3),
        ];
        assert!(sorted.is_sorted_by(|left, right| left < right));
    }

    #[test]
    fn distinguishes_unknown_from_malformed_path_elements() {
        assert!(matches!(PathElement::decode("x:1"), Err(BadElement::UnknownKind)));
        assert!(matches!(PathElement::decode("f"), Err(BadElement::Short)));
        assert!(matches!(PathElement::decode("spec"), Err(BadElement::NoColon(_))));
        assert!(matches!(
            PathElement::decode("k:[1]"),
            Err(BadElement::Value { .. })
        ));
        assert!(matches!(
            PathElement::decode("v:1 2"),
            Err(BadElement::Value { .. })
        ));
        assert!(matches!(
            PathElement::decode("i:x"),
            Err(BadElement::Value { .. })
        ));
    }

    #[test]
    fn items_of_sets_show_their_value() {
        for (text, shown) in [
            (r#"v:"a\u003c\"""#, r#"[="a<\""]"#),
            ("v:1.5", "[=1.5]"),
            ("v:null", "[=null]"),
        ] {
            let element = PathElement::decode(text).unwrap();
            assert_eq!(encoded(&element), text);
            assert_eq!(element.to_string(), shown);
        }
    }
}
