//! The events of a watch, while it goes on: one line each.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::pieces::Pieces;

/// Puts lines together from the pieces that arrive.
#[derive(Debug, Default)]
pub(super) struct Lines {
    complete: Pieces,
}

/// An event of a watch, of which the object has not been read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'text> {
    pub(super) kind: Kind,
    pub(super) object: &'text [u8],
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// An event in whatever form.
#[derive(Deserialize)]
struct WatchEvent<'text> {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(borrow)]
    object: &'text RawValue,
}

/// How servers write events: then the object is found without reading it twice.
const BEGINNINGS: [(&[u8], Kind); 5] = [
    (br#"{"type":"MODIFIED","object":"#, Kind::Modified),
    (br#"{"type":"ADDED","object":"#, Kind::Added),
    (br#"{"type":"DELETED","object":"#, Kind::Deleted),
    (br#"{"type":"BOOKMARK","object":"#, Kind::Bookmark),
    (br#"{"type":"ERROR","object":"#, Kind::Error),
];

// --- Lines ---

impl Lines {
    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.complete.append(&rest[..end]);
            self.complete.close();
            rest = &rest[end + 1..];
        }
        self.complete.append(rest);
    }

    /// The lines that are complete.
    pub(super) fn complete(&self) -> &Pieces {
        &self.complete
    }

    /// Takes the lines that are complete.
    pub(super) fn take(&mut self) -> Pieces {
        self.complete.take()
    }
}

// --- Line ---

impl<'text> Line<'text> {
    /// Reads a line. A line in the usual form is trusted to end with its event's bracket: if it does not, its object is no JSON.
    pub(super) fn read(line: &'text [u8]) -> Result<Self, serde_json::Error> {
        let trimmed = line.trim_ascii();
        for (beginning, kind) in BEGINNINGS {
            if let Some(object) = trimmed.strip_prefix(beginning)
                && let Some(object) = object.strip_suffix(b"}")
            {
                return Ok(Line { kind, object });
            }
        }
        let event: WatchEvent<'text> = serde_json::from_slice(line)?;
        Ok(Line {
            kind: event.kind,
            object: event.object.get().as_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{Kind, Line, Lines};

    #[test]
    fn an_event_is_read_in_any_order() {
        let expected = Line {
            kind: Kind::Deleted,
            object: br#"{"a":"}"}"#,
        };
        for line in [
            r#"{"type":"DELETED","object":{"a":"}"}}"#,
            r#" {"type":"DELETED","object":{"a":"}"}} "#,
            r#"{"object":{"a":"}"},"type":"DELETED"}"#,
            r#"{"type": "DELETED", "object": {"a":"}"}}"#,
        ] {
            assert_eq!(Line::read(line.as_bytes()).unwrap(), expected, "{line}");
        }
        for line in ["", "{", r#"{"type":"NEW","object":{}}"#, r#"{"type":"ADDED"}"#] {
            assert!(Line::read(line.as_bytes()).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_are_cut(texts in vec("[a-z]{0,9}", 0..9), cuts in vec(1..9_usize, 1..5)) {
            let sent: String = texts.iter().flat_map(|text| [text, "\n"]).collect();
            let (mut lines, mut found, mut rest) = (Lines::default(), Vec::new(), sent.as_bytes());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at(*cut.min(&rest.len()));
                rest = after;
                lines.push(piece);
                found.extend(lines.take().iter().map(|line| String::from_utf8(line.to_vec()).unwrap()));
            }
            prop_assert_eq!(found, texts);
        }
    }
}
