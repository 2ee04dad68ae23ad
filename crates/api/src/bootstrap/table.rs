//! Parser of the tables of bootstrap objects.

use serde_json::{Value, json};

/// An object of a table: its own tokens, and the lines below it.
pub(super) struct Entry {
    /// The tokens after the first, which states what kind of object it is.
    pub(super) tokens: Vec<&'static str>,
    /// The lines below it, each as tokens.
    pub(super) lines: Vec<Vec<&'static str>>,
}

/// The objects of a table that begin with this word, in its order.
pub(super) fn entries(table: &'static str, kind: &str) -> impl Iterator<Item = Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut taken = false;
    for line in table.lines() {
        if let Some(line) = line.strip_prefix(' ') {
            if let Some(entry) = entries.last_mut().filter(|_| taken) {
                entry.lines.push(line.split(' ').collect());
            }
        } else {
            let mut tokens = line.split(' ');
            taken = tokens.next() == Some(kind);
            if taken {
                entries.push(Entry {
                    tokens: tokens.collect(),
                    lines: Vec::new(),
                });
            }
        }
    }
    entries.into_iter()
}

/// A list as the tables write it: `a,b`; `-` is an empty word.
pub(super) fn list(tokens: &str) -> Value {
    tokens
        .split(',')
        .map(|word| if word == "-" { "" } else { word })
        .collect()
}

/// The kind of a subject and its name, which for an account is `NAMESPACE/NAME`.
pub(super) fn subject(word: &'static str) -> (&'static str, &'static str) {
    word.split_once(':')
        .unwrap_or_else(|| panic!("table: no subject: {word:?}"))
}

/// A number of a table.
pub(super) fn number(word: &str) -> Value {
    let number: i64 = word
        .parse()
        .unwrap_or_else(|_| panic!("table: no number: {word:?}"));
    json!(number)
}

/// An entry or a line with missing or surplus tokens.
pub(super) fn malformed(tokens: &[&str]) -> ! {
    panic!("table: malformed: {tokens:?}")
}
