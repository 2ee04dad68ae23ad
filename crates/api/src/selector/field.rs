//! Field selectors: `metadata.name=a,spec.nodeName!=b`.
//!
//! Promises: texts are read, refused and written as clients of the API know it; matching allocates nothing.
//! Which fields a kind can be selected by is for the kind to say.

// upstream: staging/src/k8s.io/apimachinery/pkg/fields/selector.go ParseSelector, EscapeValue, RequiresExactMatch

use std::{collections::HashSet, fmt};

use crate::go;

/// What fields must be like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    terms: Vec<Term>,
}

/// What one field must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The field.
    pub field: String,
    /// The value it must have, or not have.
    pub value: String,
    /// How they are compared.
    pub operator: Operator,
}

/// What one field must be like, of all terms together: to match a value costs one look-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldCondition {
    equal: Option<String>,
    is_contradictory: bool,
    not_equal: HashSet<String>,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=` or `==`
    Equals,
    /// `!=`
    NotEquals,
}

/// A text that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A part without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole text.
        selector: String,
        /// The part.
        term: String,
    },
    /// A backslash before something that needs none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A sign of the syntax inside a value, with no backslash before it. It is named by its number.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

/// The error for a kind that knows no such field to select by.
pub fn not_supported(field: &str) -> String {
    format!("field label not supported: {field}")
}

/// The error for a kind that can only be selected by its name and namespace, which a field is not.
pub fn not_known(field: &str) -> String {
    format!(
        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        go::quote(field)
    )
}

// --- Selector ---

impl Selector {
    /// All objects.
    pub const EVERYTHING: Selector = Selector { terms: Vec::new() };

    /// All of these at once.
    pub fn new(terms: Vec<Term>) -> Self {
        Selector { terms }
    }

    /// Reads a selector.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parts = split(text);
        parts.sort_unstable();
        let terms = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(|part| Term::parse(text, part));
        Ok(Selector {
            terms: terms.collect::<Result<_, _>>()?,
        })
    }

    /// Whether fields are as they must be. A field that is not there is empty.
    pub fn matches<'f>(&self, get: impl Fn(&str) -> Option<&'f str>) -> bool {
        self.terms
            .iter()
            .all(|term| term.matches(get(&term.field).unwrap_or_default()))
    }

    /// Whether every object is meant.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// What is asked for.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The one value a field must have, if it must have one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let term = self
            .terms
            .iter()
            .find(|t| t.operator == Operator::Equals && t.field == field)?;
        Some(&term.value)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            term.fmt(f)?;
        }
        Ok(())
    }
}

// --- FieldCondition ---

impl FieldCondition {
    /// Adds a term of the same field.
    pub fn add(&mut self, term: &Term) {
        match term.operator {
            Operator::NotEquals => drop(self.not_equal.insert(term.value.clone())),
            Operator::Equals => {
                let equal = self.equal.get_or_insert_with(|| term.value.clone());
                self.is_contradictory |= *equal != term.value;
            }
        }
    }

    /// Whether a value is as it must be.
    pub fn matches(&self, value: &str) -> bool {
        !self.is_contradictory
            && self.equal.as_ref().is_none_or(|equal| equal == value)
            && (self.not_equal.is_empty() || !self.not_equal.contains(value))
    }

    /// Whether every value is as it must be.
    pub fn is_everything(&self) -> bool {
        self.equal.is_none() && self.not_equal.is_empty()
    }

    /// The one value the field must have, if it must have one.
    pub fn exact(&self) -> Option<&str> {
        self.equal.as_deref()
    }
}

// --- Term ---

impl Term {
    /// The one value the field must have, if it must have one.
    pub fn exact(&self) -> Option<&str> {
        (self.operator == Operator::Equals).then_some(self.value.as_str())
    }

    /// Whether a value is as it must be.
    pub fn matches(&self, value: &str) -> bool {
        (value == self.value) == (self.operator == Operator::Equals)
    }

    fn parse(selector: &str, part: &str) -> Result<Self, ParseError> {
        // The first operator counts: a field has no escapes.
        let (operator, at, length) = part
            .char_indices()
            .find_map(|(at, _)| {
                let rest = &part[at..];
                if rest.starts_with("!=") {
                    Some((Operator::NotEquals, at, 2))
                } else if rest.starts_with("==") {
                    Some((Operator::Equals, at, 2))
                } else {
                    rest.starts_with('=').then_some((Operator::Equals, at, 1))
                }
            })
            .ok_or_else(|| ParseError::Term {
                selector: selector.to_owned(),
                term: part.to_owned(),
            })?;
        Ok(Term {
            field: part[..at].to_owned(),
            value: unescape(&part[at + length..])?,
            operator,
        })
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::Equals => "=",
            Operator::NotEquals => "!=",
        };
        write!(f, "{}{operator}{}", self.field, escape(&self.value))
    }
}

/// A value with backslashes before the signs of the syntax.
pub fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn unescape(text: &str) -> Result<String, ParseError> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(ParseError::Escape(format!("\\{other}"))),
                None => return Err(ParseError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(ParseError::Unescaped(c)),
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// The parts between commas, except those with a backslash before them.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn selectors_have_one_text() {
        for (text, canonical) in [
            ("", ""),
            (",,", ""),
            ("b!=2,a==1", "a=1,b!=2"),
            ("a=x\\,y\\=\\\\", "a=x\\,y\\=\\\\"),
            ("=v", "=v"),
            ("a=", "a="),
            ("a =b", "a =b"),
        ] {
            assert_eq!(Selector::parse(text).unwrap().to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, error) in [
            ("a=1,b", "invalid selector: 'a=1,b'; can't understand 'b'"),
            (
                "a=b=c",
                "invalid field selector: unescaped character in value: 61",
            ),
            ("a=\\n", "invalid field selector: invalid escape sequence: \\n"),
            ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), error);
        }
        assert_eq!(not_supported("spec.x"), "field label not supported: spec.x");
        assert_eq!(
            not_known("spec.x"),
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }

    #[test]
    fn a_missing_field_is_empty() {
        let get = |field: &str| (field == "a").then_some("1");
        for (text, expected) in [
            ("", true),
            ("a=1", true),
            ("a!=1", false),
            ("b=", true),
            ("b!=", false),
            ("a=1,b=2", false),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(get), expected, "{text}");
        }
    }

    #[test]
    fn an_exact_value_is_known() {
        let selector = Selector::parse("a=1,b!=2").unwrap();
        assert_eq!((selector.exact("a"), selector.exact("b")), (Some("1"), None));
    }

    proptest! {
        #[test]
        fn any_value_survives_its_escape(value in "\\PC{0,20}") {
            let text = format!("f={}", escape(&value));
            let selector = Selector::parse(&text).unwrap();
            prop_assert_eq!(selector.exact("f"), Some(value.as_str()));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[ab=!,\\\\\u{e9}]{0,20}") {
            if let Ok(selector) = Selector::parse(&text) {
                let sorted = |selector: Selector| {
                    let mut terms: Vec<_> = selector.terms.iter().map(ToString::to_string).collect();
                    terms.sort();
                    terms
                };
                let again = Selector::parse(&selector.to_string()).unwrap();
                prop_assert_eq!(sorted(again), sorted(selector));
            }
        }
    }
}
