//! What functions may take and return: errors are types and no texts, and choices are enums and no booleans.
//!
//! The rules are for `src`, outside of tests. `backlog.rs` lists what is left of crates that do not keep them yet: how many there may
//! still be.

mod backlog;
mod boolean_parameters;
mod function;
mod text_errors;

use std::{collections::BTreeMap, io, path::Path};

use self::backlog::{BACKLOG, BacklogEntry};
use crate::{source_files, vocabulary::code_only};

/// A rule about signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SignatureRule {
    TextError,
    BooleanParameter,
}

/// A place where a rule is broken.
struct Violation {
    line: usize,
    rule: SignatureRule,
    complaint: String,
}

/// Returns one line for each broken rule in the files below `paths` (all files when it is empty).
pub(crate) fn complaints(root: &Path, paths: &[String]) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for (name, text) in source_files::read_all(root, paths)? {
        if is_subject(&name) {
            found.extend(
                violations(&text)
                    .into_iter()
                    .map(|violation| (name.clone(), violation)),
            );
        }
    }
    if paths.is_empty() {
        for note in unused(BACKLOG, &source_files::read_all(root, paths)?) {
            // No complaint: who changes the last function of a crate need not know the list.
            eprintln!("tidy: note: {note}");
        }
    }
    Ok(without_backlog(found, BACKLOG))
}

/// Whether a file is source of a program or library, and no test.
fn is_subject(name: &str) -> bool {
    let is_test = name.contains("/tests/")
        || ["/tests.rs", "_tests.rs", "/testing.rs"]
            .iter()
            .any(|ending| name.ends_with(ending));
    source_files::is_rust(name) && name.contains("/src/") && !is_test
}

/// What breaks a rule in one file.
fn violations(text: &str) -> Vec<Violation> {
    let code = code_only(without_tests(text));
    let mut found = text_errors::find(&code);
    found.extend(boolean_parameters::find(&code));
    found
}

/// The part before the module with unit tests.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {")
        .map_or(text, |(code, _)| code)
}

/// The complaints about what is more than a backlog allows.
fn without_backlog(found: Vec<(String, Violation)>, backlog: &[BacklogEntry]) -> Vec<String> {
    let mut allowed = Vec::new();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut complaints = Vec::new();
    for (name, violation) in found {
        let complaint = format!("{name}:{}: {}", violation.line, violation.complaint);
        match position(backlog, &name, violation.rule) {
            Some(entry) => {
                *counts.entry(entry).or_default() += 1;
                allowed.push((entry, complaint));
            }
            None => complaints.push(complaint),
        }
    }
    for (entry, complaint) in allowed {
        let left = backlog[entry].left;
        let count = counts[&entry];
        if count > left {
            complaints.push(format!(
                "{complaint} (there are {count}, and {left} are left to be changed)"
            ));
        }
    }
    complaints
}

fn position(backlog: &[BacklogEntry], name: &str, rule: SignatureRule) -> Option<usize> {
    backlog
        .iter()
        .position(|entry| entry.rule == rule && name.starts_with(entry.path))
}

/// Entries that nothing needs any more.
fn unused(backlog: &[BacklogEntry], files: &[(String, String)]) -> Vec<String> {
    let is_needed = |index: usize| {
        files.iter().any(|(name, text)| {
            is_subject(name)
                && violations(text)
                    .iter()
                    .any(|violation| position(backlog, name, violation.rule) == Some(index))
        })
    };
    backlog
        .iter()
        .enumerate()
        .filter(|(index, _)| !is_needed(*index))
        .map(|(_, entry)| {
            format!(
                "nothing needs the entry `{}` ({:?}: {}) any more; delete it from xtask/src/signatures/backlog.rs",
                entry.path, entry.rule, entry.reason
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: &[BacklogEntry] = &[BacklogEntry {
        path: "crates/old/src/",
        rule: SignatureRule::TextError,
        left: 1,
        reason: "not changed yet",
    }];

    fn found(name: &str, text: &str) -> Vec<(String, Violation)> {
        let found = violations(text).into_iter();
        found.map(|violation| (name.to_owned(), violation)).collect()
    }

    #[test]
    fn tests_may_be_plain() {
        assert!(is_subject("crates/a/src/b.rs"));
        for name in [
            "crates/a/tests/b.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/src/tests/b.rs",
            "crates/a/src/testing.rs",
            "crates/a/src/b.md",
        ] {
            assert!(!is_subject(name), "{name}");
        }
        let tested = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b(c: bool) -> Result<(), String> {}\n}\n";
        assert!(violations(tested).is_empty());
    }

    #[test]
    fn comments_and_texts_are_no_code() {
        let text = "// fn a(b: bool)\nconst C: &str = \"fn a(b: bool) -> Result<(), String>\";\n";
        assert!(violations(text).is_empty());
    }

    #[test]
    fn backlog_may_shrink_and_not_grow() {
        let one = "fn a() -> Result<(), String> {}\n";
        let two = one.repeat(2);
        assert!(without_backlog(found("crates/old/src/a.rs", one), LEFT).is_empty());
        assert_eq!(without_backlog(found("crates/old/src/a.rs", &two), LEFT).len(), 2);
        assert_eq!(without_backlog(found("crates/new/src/a.rs", one), LEFT).len(), 1);
    }

    #[test]
    fn backlog_entry_that_nothing_needs_is_found() {
        let file = |text: &str| [("crates/old/src/a.rs".to_owned(), text.to_owned())];
        assert_eq!(unused(LEFT, &file("fn a() {}")).len(), 1);
        assert!(unused(LEFT, &file("fn a() -> Result<(), String> {}")).is_empty());
    }
}
