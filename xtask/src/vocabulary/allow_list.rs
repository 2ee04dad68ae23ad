//! The exceptions to the vocabulary: a path prefix, a word, and the reason, separated by tabs.

use std::{collections::BTreeSet, io};

use crate::vocabulary::RULES;

/// The exceptions, in the order of the file.
#[derive(Default)]
pub(crate) struct AllowList {
    entries: Vec<AllowEntry>,
}

struct AllowEntry {
    path_prefix: String,
    word: String,
}

impl AllowList {
    pub(crate) fn parse(text: &str) -> io::Result<Self> {
        let mut entries = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut columns = line.split('\t');
            let path_prefix = columns.next().unwrap_or_default();
            let word = columns.next().unwrap_or_default();
            let reason = columns.next().unwrap_or_default();
            if path_prefix.is_empty() || reason.trim().is_empty() {
                return Err(invalid(
                    number,
                    "expected path prefix, word and reason, separated by tabs",
                ));
            }
            if !RULES.iter().any(|rule| rule.phrase == word) {
                return Err(invalid(number, "the word is not retired; delete the entry"));
            }
            entries.push(AllowEntry {
                path_prefix: path_prefix.to_owned(),
                word: word.to_owned(),
            });
        }
        Ok(Self { entries })
    }

    /// Returns the number of the entry that allows `word` in the file `name`.
    pub(crate) fn find(&self, name: &str, word: &str) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| entry.word == word && name.starts_with(&entry.path_prefix))
    }

    pub(crate) fn unused(&self, used: &BTreeSet<usize>) -> impl Iterator<Item = String> {
        self.entries
            .iter()
            .enumerate()
            .filter(|(number, _)| !used.contains(number))
            .map(|(_, entry)| format!("{} {}", entry.path_prefix, entry.word))
    }
}

fn invalid(line: usize, problem: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{}:{line}: {problem}", super::ALLOW_LIST),
    )
}
