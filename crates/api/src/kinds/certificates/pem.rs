//! Bytes between `BEGIN` and `END` lines.
//!
//! Lenient: what is no block is passed over, and a block that is begun again begins there.

use crate::base64;

/// A block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// What it says it is, as in `CERTIFICATE`.
    pub(super) kind: String,
    /// Whether lines like `Name: value` stand before the bytes.
    pub(super) has_headers: bool,
    /// What it holds.
    pub(super) bytes: Vec<u8>,
}

/// The blocks of a text.
pub(super) fn blocks(text: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(text);
    let mut blocks = Vec::new();
    let mut open: Option<Open<'_>> = None;
    for line in text.split('\n').map(str::trim_end) {
        if let Some(kind) = between(line, "-----BEGIN ") {
            open = Some(Open {
                kind,
                has_headers: false,
                body: String::new(),
            });
        } else if line.starts_with("-----END ") {
            let begun = open.take();
            let ended = between(line, "-----END ");
            blocks.extend(
                begun
                    .filter(|begun| Some(begun.kind) == ended)
                    .and_then(Open::close),
            );
        } else if let Some(open) = &mut open {
            if open.body.is_empty() && line.contains(':') {
                open.has_headers = true;
            } else {
                open.body
                    .extend(line.chars().filter(|c| !matches!(c, ' ' | '\t')));
            }
        }
    }
    blocks
}

/// A block whose end is still to come.
struct Open<'t> {
    kind: &'t str,
    has_headers: bool,
    body: String,
}

// --- Open ---

impl Open<'_> {
    fn close(self) -> Option<Block> {
        Some(Block {
            kind: self.kind.to_owned(),
            has_headers: self.has_headers,
            bytes: base64::decode(&self.body).ok()?,
        })
    }
}

fn between<'l>(line: &'l str, begin: &str) -> Option<&'l str> {
    line.strip_prefix(begin)?.strip_suffix("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stand_in_any_text() {
        let text = "x\n-----BEGIN A-----\nLost\n-----BEGIN A-----\r\nK: v\n\nYWJj\n  ZGVm\n-----END A-----\ny\n-----BEGIN B-----\n-----END B-----";
        let found = blocks(text.as_bytes());
        assert_eq!(
            found,
            [
                Block {
                    kind: "A".into(),
                    has_headers: true,
                    bytes: b"abcdef".to_vec()
                },
                Block {
                    kind: "B".into(),
                    has_headers: false,
                    bytes: Vec::new()
                },
            ]
        );
    }

    #[test]
    fn what_does_not_end_as_it_began_is_no_block() {
        for bad in [
            "-----BEGIN A-----\nYWJj\n-----END B-----",
            "-----BEGIN A-----\nYWJj",
            "-----BEGIN A-----\nY*Jj\n-----END A-----",
            "x-----BEGIN A-----\nYWJj\n-----END A-----",
        ] {
            assert_eq!(blocks(bad.as_bytes()), []);
        }
    }
}
