//! Names of properties as names of fields.
//!
//! A property may be called anything; a field is a word that is not one of the language's own.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/escaping.go Escape, Unescape

use std::borrow::Cow;

/// The keywords of the language itself, and those it keeps for later.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const MARKS: [(&str, &str); 4] = [("__", "underscores"), (".", "dot"), ("-", "dash"), ("/", "slash")];

/// Whether a word belongs to the language, so that nothing can be called so.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The field of a property, if it can have one.
pub fn escape(property: &str) -> Option<Cow<'_, str>> {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    if property.is_empty()
        || property.starts_with(|c: char| c.is_ascii_digit())
        || !property.chars().all(letter)
    {
        return None;
    }
    if is_reserved(property) {
        return Some(format!("__{property}__").into());
    }
    if !property.contains("__") && !property.contains(['.', '-', '/']) {
        return Some(property.into());
    }
    let mut escaped = String::new();
    let mut rest = property;
    while let Some(c) = rest.chars().next() {
        let mark = MARKS.iter().find(|(text, _)| rest.starts_with(text));
        if let Some((text, name)) = mark {
            escaped.extend(["__", name, "__"]);
            rest = &rest[text.len()..];
        } else {
            escaped.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Some(escaped.into())
}

/// The property of a field, if the field can be one's.
pub fn unescape(field: &str) -> Option<Cow<'_, str>> {
    if !field.contains("__") {
        return Some(field.into());
    }
    let mut property = String::new();
    let mut rest = field;
    while let Some(at) = rest.find("__") {
        let inner = &rest[at + 2..];
        // A mark is two underscores, something without any, and two underscores.
        let length = inner.find('_').unwrap_or(inner.len());
        if length == 0 || !inner[length..].starts_with("__") {
            property.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
            continue;
        }
        let name = &inner[..length];
        property.push_str(&rest[..at]);
        match MARKS.iter().find(|(_, mark)| *mark == name) {
            Some((text, _)) => property.push_str(text),
            None if is_reserved(name) && name.len() + 4 == field.len() => property.push_str(name),
            None => return None,
        }
        rest = &inner[length + 2..];
    }
    property.push_str(rest);
    Some(property.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_and_unescape_round_trip() {
        for (property, field) in [
            ("a", "a"),
            ("a_b", "a_b"),
            ("a.b", "a__dot__b"),
            ("a-b/c", "a__dash__b__slash__c"),
            ("__a", "__underscores__a"),
            ("a___b", "a__underscores___b"),
            ("namespace", "__namespace__"),
            ("x-in", "x__dash__in"),
        ] {
            assert_eq!(escape(property).as_deref(), Some(field), "{property}");
            assert_eq!(unescape(field).as_deref(), Some(property), "{field}");
        }
        for property in ["", "1a", "a b", "$ref", "\u{e9}"] {
            assert_eq!(escape(property), None, "{property}");
        }
        for field in ["a__in__", "a__what__b", "__in__b"] {
            assert_eq!(unescape(field), None, "{field}");
        }
    }
}
