//! One error type per operation: a text as error has no source, and its reader cannot distinguish one failure from another.

use super::{SignatureRule, Violation, function::split_list};

/// Finds `Result<_, String>` in code.
pub(super) fn find(code: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("Result<") {
        let is_word = code[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_ascii_alphanumeric() && before != '_');
        if !is_word {
            continue;
        }
        let arguments = split_list(&code[at + "Result<".len()..], '>');
        if let Some(([_, error], _)) = arguments.as_ref().map(|(list, rest)| (list.as_slice(), rest))
            && error.trim() == "String"
        {
            found.push(Violation {
                line: code[..at].matches('\n').count() + 1,
                rule: SignatureRule::TextError,
                complaint: "the error is a `String`; write an enum for the operation (thiserror)".to_owned(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(code: &str) -> Vec<usize> {
        find(code).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn finds_text_as_error() {
        assert_eq!(lines("fn a() -> Result<(), String> {}"), [1]);
        assert_eq!(
            lines("\nfn a(\n) -> std::result::Result<HashMap<String, (u8, u8)>, String> {}"),
            [3]
        );
        assert_eq!(lines("type A = Result<Vec<String>,\n    String>;"), [1]);
        assert_eq!(lines("set: impl Fn(&str) -> Result<String, String>,"), [1]);
    }

    #[test]
    fn allows_text_as_value() {
        for code in [
            "fn a() -> Result<String, ReadError> {}",
            "fn a() -> Result<String> {}",
            "fn a() -> TextResult<(), String> {}",
            "fn a() -> Result<(), Vec<String>> {}",
        ] {
            assert!(lines(code).is_empty(), "{code}");
        }
    }
}
