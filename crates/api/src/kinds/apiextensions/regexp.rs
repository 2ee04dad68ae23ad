//! Validation of regular expressions as Go's `regexp/syntax` parses them, with its error messages. There is no file in
//! kubernetes/kubernetes for it; the messages reach clients through the check of `pattern`.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go validateValueValidation

use std::collections::{HashMap, HashSet};

/// What precedes a repetition operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrecedingToken {
    /// Nothing.
    Nothing,
    /// Something that can be repeated.
    Something,
    /// A repetition that starts at this byte.
    Repetition(usize),
}

/// Where an escape is: in a class it may stand for a set of characters, but for no position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EscapeLocation {
    Outside,
    InClass,
}

/// Nested repeat counts of a group.
#[derive(Clone, Copy)]
struct RepeatCounts {
    /// The largest of any part.
    max: u32,
    /// That of the last part.
    last: u32,
}

impl RepeatCounts {
    const ONE: RepeatCounts = RepeatCounts { max: 1, last: 1 };
}

const MAX_REPEAT: u32 = 1000;

/// What Go reports of an invalid expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {what}: `{part}`")]
pub(crate) struct GoRegexpError {
    what: &'static str,
    part: String,
}

/// Go's error of an invalid expression.
pub(crate) fn go_regexp_error(pattern: &str) -> Option<GoRegexpError> {
    compiled_size(pattern).err()
}

/// The approximate size of the compiled expression, or Go's error.
pub(super) fn compiled_size(pattern: &str) -> Result<usize, GoRegexpError> {
    let mut parser = Parser {
        text: pattern,
        at: 0,
        names: HashSet::new(),
        classes: HashMap::new(),
        levels: Vec::new(),
        repeats: RepeatCounts::ONE,
        weight: 0,
        no_more_names: false,
    };
    match parser.parse() {
        Ok(()) => Ok(parser.weight),
        Err((what, part)) => Err(GoRegexpError {
            what,
            part: part.to_owned(),
        }),
    }
}

type SyntaxError<'p> = (&'static str, &'p str);

struct Parser<'p> {
    text: &'p str,
    /// Bytes that are parsed.
    at: usize,
    names: HashSet<&'p str>,
    /// The Unicode classes by name, and whether they exist.
    classes: HashMap<&'p str, bool>,
    /// Repeats of the open groups, outermost first.
    levels: Vec<RepeatCounts>,
    /// Repeats of the current group.
    repeats: RepeatCounts,
    /// Approximate size of the compiled expression.
    weight: usize,
    /// Whether no `:]` follows.
    no_more_names: bool,
}

impl<'p> Parser<'p> {
    fn rest(&self) -> &'p str {
        &self.text[self.at..]
    }

    fn parse(&mut self) -> Result<(), SyntaxError<'p>> {
        // What preceded each open group; the group itself can be repeated.
        let mut open = 0usize;
        let mut before = PrecedingToken::Nothing;
        while let Some(c) = self.rest().chars().next() {
            let start = self.at;
            self.at += c.len_utf8();
            self.weight += 1;
            if !matches!(c, '*' | '+' | '?' | '{' | ')') {
                self.repeats.last = 1;
            }
            match c {
                '(' => {
                    self.parse_group(start)?;
                    open += 1;
                    before = PrecedingToken::Nothing;
                    // Flags that apply from here on open no group.
                    if self.text[start..self.at].ends_with(')') {
                        open -= 1;
                    } else {
                        self.levels.push(self.repeats);
                        self.repeats = RepeatCounts::ONE;
                    }
                }
                ')' => {
                    open = open.checked_sub(1).ok_or(("unexpected )", self.text))?;
                    let inner_repeats = self.repeats.max;
                    self.repeats = self.levels.pop().unwrap_or(RepeatCounts::ONE);
                    self.repeats.last = inner_repeats;
                    self.repeats.max = self.repeats.max.max(inner_repeats);
                    before = PrecedingToken::Something;
                }
                '|' => before = PrecedingToken::Nothing,
                '*' | '+' | '?' => before = self.parse_repetition(start, before)?,
                '{' if self.parse_counts(start)? => before = self.parse_repetition(start, before)?,
                '[' => {
                    self.parse_class(start)?;
                    before = PrecedingToken::Something;
                }
                '\\' => {
                    self.parse_escape(start, EscapeLocation::Outside)?;
                    before = PrecedingToken::Something;
                }
                _ => before = PrecedingToken::Something,
            }
        }
        if open > 0 {
            return Err(("missing closing )", self.text));
        }
        Ok(())
    }

    /// A `*`, `+`, `?` or `{...}` that starts at `start` and is consumed; a following `?` makes it lazy.
    fn parse_repetition(
        &mut self,
        start: usize,
        before: PrecedingToken,
    ) -> Result<PrecedingToken, SyntaxError<'p>> {
        if self.rest().starts_with('?') {
            self.at += 1;
        }
        match before {
            PrecedingToken::Nothing => {
                let operator = &self.text[start..self.at];
                Err(("missing argument to repetition operator", operator))
            }
            PrecedingToken::Repetition(first) => {
                Err(("invalid nested repetition operator", &self.text[first..self.at]))
            }
            PrecedingToken::Something => Ok(PrecedingToken::Repetition(start)),
        }
    }

    /// Parses counts if there are some; braces without counts are literals.
    fn parse_counts(&mut self, start: usize) -> Result<bool, SyntaxError<'p>> {
        // Counts are short: nothing far behind is searched.
        let count = |b: &u8| b.is_ascii_digit() || *b == b',';
        let digits = self.rest().bytes().take_while(count).count();
        let Some(inner) = self.rest()[digits..]
            .starts_with('}')
            .then(|| &self.rest()[..digits])
        else {
            return Ok(false);
        };
        let (low, high) = inner.split_once(',').unwrap_or((inner, inner));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(low) || !(high.is_empty() || is_number(high)) {
            return Ok(false);
        }
        self.at += inner.len() + 1;
        let number = |text: &str| text.parse().unwrap_or(u32::MAX);
        let min = number(low);
        let max = if high.is_empty() {
            number(low)
        } else {
            number(high)
        };
        if min > MAX_REPEAT || max > MAX_REPEAT || min > max {
            return Err(("invalid repeat count", &self.text[start..self.at]));
        }
        // Nested repeats multiply, as in repeatIsValid of regexp/syntax.
        let repeats = self.repeats.last.saturating_mul(max.max(1));
        if repeats > MAX_REPEAT {
            return Err(("invalid repeat count", &self.text[start..self.at]));
        }
        self.repeats.last = repeats;
        self.repeats.max = self.repeats.max.max(repeats);
        self.weight = self
            .weight
            .saturating_add(usize::try_from(repeats).unwrap_or(usize::MAX));
        Ok(true)
    }

    /// Parses what may follow the `(` at `start`.
    fn parse_group(&mut self, start: usize) -> Result<(), SyntaxError<'p>> {
        let Some(rest) = self.rest().strip_prefix('?') else {
            return Ok(());
        };
        if let Some(name) = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<')) {
            if name.starts_with(['=', '!']) && rest.starts_with('<') {
                return Err(("invalid or unsupported Perl syntax", &self.text[start..start + 4]));
            }
            let Some((group_name, _)) = name.split_once('>') else {
                return Err(("invalid named capture", &self.text[start..]));
            };
            let end = self.text.len() - name.len() + group_name.len() + 1;
            let capture = &self.text[start..end];
            let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if group_name.is_empty() || !group_name.chars().all(fine) {
                return Err(("invalid named capture", capture));
            }
            if !self.names.insert(group_name) {
                return Err(("duplicate capture group name", group_name));
            }
            self.at = end;
            return Ok(());
        }
        self.at += 1;
        let mut negated = false;
        let mut has_flag = false;
        while let Some(c) = self.rest().chars().next() {
            self.at += c.len_utf8();
            match c {
                'i' | 'm' | 's' | 'U' => has_flag = true,
                '-' if !negated => {
                    negated = true;
                    has_flag = false;
                }
                ':' | ')' if !negated || has_flag => return Ok(()),
                _ => return Err(("invalid or unsupported Perl syntax", &self.text[start..self.at])),
            }
        }
        Err(("missing closing )", self.text))
    }

    /// Parses a class in brackets, whose `[` is at `start` and consumed.
    fn parse_class(&mut self, start: usize) -> Result<(), SyntaxError<'p>> {
        if self.rest().starts_with('^') {
            self.at += 1;
        }
        let mut first = true;
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return Err(("missing closing ]", &self.text[start..]));
            };
            if c == ']' && !first {
                self.at += 1;
                return Ok(());
            }
            // A dash is a literal only at the ends.
            if c == '-' && !first && !rest.starts_with("-]") && rest.len() > 1 {
                let next = rest[1..].chars().next().map_or(0, char::len_utf8);
                return Err(("invalid character class range", &rest[..=next]));
            }
            first = false;
            if let Some(inner) = rest.strip_prefix("[:")
                && let Some(end) = self.find_class_name_end(inner)
            {
                let whole = &rest[..end + 4];
                if !is_named_class(&inner[..end]) {
                    return Err(("invalid character class range", whole));
                }
                self.at += whole.len();
                continue;
            }
            let range = self.at;
            let Some(low) = self.parse_class_character()? else {
                continue;
            };
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") && self.rest().len() > 1 {
                self.at += 1;
                let high = self.parse_class_character()?;
                if high.is_none_or(|high| high < low) {
                    return Err(("invalid character class range", &self.text[range..self.at]));
                }
            }
        }
    }

    /// The index of the `:]` that ends a class name. An expression without one is searched once.
    fn find_class_name_end(&mut self, inner: &str) -> Option<usize> {
        if self.no_more_names {
            return None;
        }
        let end = inner.find(":]");
        self.no_more_names = end.is_none();
        end
    }

    /// A character of a class; `None` if it is a class itself.
    fn parse_class_character(&mut self) -> Result<Option<char>, SyntaxError<'p>> {
        let start = self.at;
        let Some(c) = self.rest().chars().next() else {
            return Ok(None);
        };
        self.at += c.len_utf8();
        if c == '\\' {
            self.parse_escape(start, EscapeLocation::InClass)
        } else {
            Ok(Some(c))
        }
    }

    /// Parses an escape whose `\` is at `start` and consumed: the character it denotes, if it is one.
    fn parse_escape(
        &mut self,
        start: usize,
        location: EscapeLocation,
    ) -> Result<Option<char>, SyntaxError<'p>> {
        let Some(c) = self.rest().chars().next() else {
            return Err(("trailing backslash at end of expression", ""));
        };
        self.at += c.len_utf8();
        let invalid = ("invalid escape sequence", &self.text[start..self.at]);
        match c {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Ok(None),
            'A' | 'b' | 'B' | 'z' | 'C' if location == EscapeLocation::Outside => Ok(None),
            'Q' if location == EscapeLocation::Outside => {
                let end = self
                    .rest()
                    .find("\\E")
                    .map_or(self.text.len(), |end| self.at + end + 2);
                self.at = end;
                Ok(None)
            }
            'p' | 'P' => self.parse_unicode_class(start).map(|()| None),
            'a' | 'f' | 't' | 'n' | 'r' | 'v' => Ok(Some(c)),
            'x' => self.parse_hex(start).map(Some),
            '0' => Ok(Some('\0')),
            '1'..='7' if self.rest().starts_with(|c: char| matches!(c, '0'..='7')) => Ok(Some(c)),
            _ if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(Some(c)),
            _ => Err(invalid),
        }
    }

    fn parse_hex(&mut self, start: usize) -> Result<char, SyntaxError<'p>> {
        let rest = self.rest();
        let digits = match rest.strip_prefix('{') {
            Some(inner) => inner
                .split_once('}')
                .map(|(digits, _)| (digits, digits.len() + 2)),
            None => rest.get(..2).map(|digits| (digits, 2)),
        };
        let next = rest.chars().next().map_or(0, char::len_utf8);
        let invalid = ("invalid escape sequence", &self.text[start..self.at + next]);
        let Some((digits, length)) = digits else {
            return Err(invalid);
        };
        match u32::from_str_radix(digits, 16).ok().and_then(char::from_u32) {
            Some(c) => {
                self.at += length;
                Ok(c)
            }
            None => Err(invalid),
        }
    }

    fn parse_unicode_class(&mut self, start: usize) -> Result<(), SyntaxError<'p>> {
        let rest = self.rest();
        let length = match rest.strip_prefix('{') {
            Some(inner) => inner.find('}').map(|end| end + 2),
            None => rest.chars().next().map(char::len_utf8),
        };
        let Some(length) = length else {
            return Err(("invalid character class range", &self.text[start..]));
        };
        self.at += length;
        let class = &self.text[start..self.at];
        let exists = *self
            .classes
            .entry(class)
            .or_insert_with(|| k3_cel::regular_expression(class).is_ok());
        // A class of letters has many ranges.
        self.weight += 64;
        if !exists {
            return Err(("invalid character class range", class));
        }
        Ok(())
    }
}

fn is_named_class(name: &str) -> bool {
    let name = name.strip_prefix('^').unwrap_or(name);
    matches!(
        name,
        "alnum"
            | "alpha"
            | "ascii"
            | "blank"
            | "cntrl"
            | "digit"
            | "graph"
            | "lower"
            | "print"
            | "punct"
            | "space"
            | "upper"
            | "word"
            | "xdigit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn parses_any_text_without_panic(text in "[\\[\\](){}?*+|^$\\\\:<=!P,a0x-\u{e9}]{0,12}") {
            let _ = go_regexp_error(&text);
        }
    }

    #[test]
    fn accepts_valid_expressions() {
        for pattern in [
            "",
            "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            r"^\d{1,3}(\.\d+)*$",
            "(?i)a|b{x}|(?:c)+?",
            "(?P<n>a)[[:alpha:]]",
            "[]a-]",
            r"\p{Greek}\x{10FFFF}\Q(\E",
            "a{,2}",
        ] {
            assert_eq!(go_regexp_error(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn fails_with_the_messages_of_go() {
        for (pattern, messages) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            (r"\q", r"invalid escape sequence: `\q`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}b{20}){11}", "invalid repeat count: `{11}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?P<a", "invalid named capture: `(?P<a`"),
        ] {
            assert_eq!(
                go_regexp_error(pattern).map(|error| error.to_string()),
                Some(format!("error parsing regexp: {messages}")),
                "{pattern}"
            );
        }
    }
}
