//! Splits the response of a watch into events: one JSON object per line.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::chunk_buffer::ChunkBuffer;

/// Splits bytes into lines.
#[derive(Debug, Default)]
pub(super) struct WatchLineSplitter {
    complete: ChunkBuffer,
}

/// An event of a watch whose object is not decoded yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WatchLine<'text> {
    pub(super) event_type: WatchEventType,
    pub(super) object: &'text [u8],
}

/// The type of a `metav1.WatchEvent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum WatchEventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// A `metav1.WatchEvent` with fields in any order.
#[derive(Deserialize)]
struct RawWatchEvent<'text> {
    #[serde(rename = "type")]
    event_type: WatchEventType,
    #[serde(borrow)]
    object: &'text RawValue,
}

/// How API servers write events. An event with such a prefix needs no parsing to find its object.
const USUAL_PREFIXES: [(&[u8], WatchEventType); 5] = [
    (br#"{"type":"MODIFIED","object":"#, WatchEventType::Modified),
    (br#"{"type":"ADDED","object":"#, WatchEventType::Added),
    (br#"{"type":"DELETED","object":"#, WatchEventType::Deleted),
    (br#"{"type":"BOOKMARK","object":"#, WatchEventType::Bookmark),
    (br#"{"type":"ERROR","object":"#, WatchEventType::Error),
];

// --- WatchLineSplitter ---

impl WatchLineSplitter {
    /// Adds the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.complete.append_until(b'\n', &mut rest) {
            self.complete.finish_chunk();
        }
    }

    /// The complete lines.
    pub(super) fn complete(&self) -> &ChunkBuffer {
        &self.complete
    }

    /// Takes the complete lines.
    pub(super) fn take(&mut self) -> ChunkBuffer {
        self.complete.take()
    }
}

// --- WatchLine ---

impl<'text> WatchLine<'text> {
    /// Finds the type and the object of an event. A line with a usual prefix must end with the closing bracket of the event; if
    /// it does not, the object that is returned is invalid JSON and does not decode.
    pub(super) fn parse(line: &'text [u8]) -> Result<Self, serde_json::Error> {
        let trimmed = line.trim_ascii();
        for (prefix, event_type) in USUAL_PREFIXES {
            if let Some(object) = trimmed.strip_prefix(prefix)
                && let Some(object) = object.strip_suffix(b"}")
            {
                return Ok(WatchLine { event_type, object });
            }
        }
        let event: RawWatchEvent<'text> = serde_json::from_slice(line)?;
        Ok(WatchLine {
            event_type: event.event_type,
            object: event.object.get().as_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{WatchEventType, WatchLine, WatchLineSplitter};

    #[test]
    fn parses_events_with_fields_in_any_order() {
        let expected = WatchLine {
            event_type: WatchEventType::Deleted,
            object: br#"{"a":"}"}"#,
        };
        for line in [
            r#"{"type":"DELETED","object":{"a":"}"}}"#,
            r#" {"type":"DELETED","object":{"a":"}"}} "#,
            r#"{"object":{"a":"}"},"type":"DELETED"}"#,
            r#"{"type": "DELETED", "object": {"a":"}"}}"#,
        ] {
            assert_eq!(WatchLine::parse(line.as_bytes()).unwrap(), expected, "{line}");
        }
        for line in ["", "{", r#"{"type":"NEW","object":{}}"#, r#"{"type":"ADDED"}"#] {
            assert!(WatchLine::parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn splits_the_same_lines_for_any_frame_boundaries(texts in vec("[a-z]{0,9}", 0..9), cuts in vec(1..9_usize, 1..5)) {
            let sent: String = texts.iter().flat_map(|text| [text, "\n"]).collect();
            let mut lines = WatchLineSplitter::default();
            let mut found = Vec::new();
            let mut rest = sent.as_bytes();
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
