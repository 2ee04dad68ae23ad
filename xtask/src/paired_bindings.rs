//! One statement per line: a `let` binds one thing.

use std::{io, path::Path};

use crate::source_files;

/// Returns one line for each `let (a, b) = (x, y);` below `paths`.
pub(crate) fn complaints(root: &Path, paths: &[String]) -> io::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for (name, text) in source_files::read_all(root, paths)? {
        if !source_files::is_rust(&name) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            if is_paired_binding(line) {
                complaints.push(format!(
                    "{name}:{number}: binds several things in one `let`; write one statement per line"
                ));
            }
        }
    }
    Ok(complaints)
}

/// Whether the line is `let (a, b) = (x, y)` or starts one. `let (a, b) = if ...` takes a pair apart and is fine.
fn is_paired_binding(line: &str) -> bool {
    let Some(pattern) = line.trim_start().strip_prefix("let (") else {
        return false;
    };
    let Some((names, value)) = pattern.split_once(") = (") else {
        return false;
    };
    let is_simple = |name: &str| {
        let name = name.trim().trim_start_matches("mut ");
        !name.is_empty()
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    // `let (a, b) = (x, y) else` and `(x, y).method()` do not bind each name to one value.
    let is_tuple = value.is_empty() || value.trim_end().ends_with(");");
    names.split(',').all(is_simple) && is_tuple
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_let_that_binds_two_things() {
        assert!(is_paired_binding("    let (name, age) = (\"a\", 3);"));
        assert!(is_paired_binding("let (mut a, b) = ("));
    }

    #[test]
    fn allows_taking_a_pair_apart() {
        assert!(!is_paired_binding("let (a, b) = split(text);"));
        assert!(!is_paired_binding("let (Some(a), Some(b)) = (x, y) else {"));
        assert!(!is_paired_binding(
            "let (a, b) = if c { (x, y) } else { (y, x) };"
        ));
    }
}
