//! The expressions of webhooks and policies.
//!
//! Every expression passes through [`validate`]: a compiler of the expression language has its place there, and needs
//! nothing else to change.

use crate::{
    field::{Error, Path},
    rules::Errors,
};

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

/// What is wrong with an expression. `missing` is told if there is none.
pub(super) fn validate(expression: &str, missing: &str, at: &Path<'_>, errors: &mut Errors) {
    if expression.trim().is_empty() {
        errors.push(Error::required(at, missing));
    }
}

/// Whether a text can be the name of something in an expression.
pub(super) fn is_identifier(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().all(word)
        && !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && !RESERVED.contains(&text)
}

/// Whether a text has more than one line.
pub(super) fn has_lines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_a_word_of_the_users_own() {
        assert!(is_identifier("_a1") && is_identifier("For"));
        assert!(!is_identifier("1a") && !is_identifier("a-b") && !is_identifier("for") && !is_identifier(""));
    }
}
