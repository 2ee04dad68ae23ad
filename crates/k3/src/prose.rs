//! Lists in sentences.

/// `a, b and c`.
pub(crate) fn and(parts: impl IntoIterator<Item = impl Into<String>>) -> String {
    joined(parts, " and ")
}

/// `a, b or c`.
pub(crate) fn or(parts: impl IntoIterator<Item = impl Into<String>>) -> String {
    joined(parts, " or ")
}

/// The word between backticks.
pub(crate) fn backticked(word: &str) -> String {
    format!("`{word}`")
}

fn joined(parts: impl IntoIterator<Item = impl Into<String>>, last_separator: &str) -> String {
    let mut parts: Vec<String> = parts.into_iter().map(Into::into).collect();
    match parts.pop() {
        Some(last) if !parts.is_empty() => format!("{}{last_separator}{last}", parts.join(", ")),
        Some(only) => only,
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_the_last_part_by_a_word() {
        assert_eq!(and([""; 0]), "");
        assert_eq!(and(["a"]), "a");
        assert_eq!(or(["a", "b"]), "a or b");
        assert_eq!(and(["a", "b", "c"]), "a, b and c");
    }
}
