//! Limits the size of error messages in responses.
//!
//! Upstream prints whole values into errors. A request may hold megabytes and thousands of errors, so texts beyond these
//! limits are cut; what is within them reads as upstream prints it.

use std::{borrow::Cow, fmt};

use serde_json::Value;

use crate::go;

/// Bytes of the path of a field in an error.
pub const MAX_PATH_BYTES: usize = 4 * 1024;

/// Bytes of a value, or of an explanation, in an error.
pub const MAX_VALUE_BYTES: usize = 16 * 1024;

/// Bytes of the name of an object in an answer. Valid names are far shorter.
pub const MAX_NAME_BYTES: usize = 1024;

/// Bytes of the message of a status, encoded as JSON.
pub const MAX_MESSAGE_BYTES: usize = 96 * 1024;

/// Bytes of all causes of a status together, encoded as JSON.
pub const MAX_CAUSES_BYTES: usize = 128 * 1024;

/// Bytes of errors, or of conflicts, that are collected for one answer. The answer shows fewer.
pub const MAX_COLLECTED_BYTES: usize = 512 * 1024;

/// The text, or its beginning and how much was left out.
pub(crate) fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(max);
    Cow::Owned(format!("{}... ({} more bytes)", &text[..end], text.len() - end))
}

/// The same for a text that is owned already.
pub(crate) fn cut_owned(text: String, max: usize) -> String {
    if text.len() <= max {
        text
    } else {
        cut(&text, max).into_owned()
    }
}

/// The text, cut so that it takes at most so many bytes as a JSON string.
pub(crate) fn cut_encoded(text: &str, max: usize) -> Cow<'_, str> {
    let mut encoded = 0;
    for (at, c) in text.char_indices() {
        encoded += encoded_char(c);
        if encoded > max {
            return Cow::Owned(format!("{}... ({} more bytes)", &text[..at], text.len() - at));
        }
    }
    Cow::Borrowed(text)
}

/// How many bytes a text takes as a JSON string, without the quotes.
pub(crate) fn encoded_length(text: &str) -> usize {
    text.chars().map(encoded_char).sum()
}

fn encoded_char(c: char) -> usize {
    match c {
        '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
        '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
        _ => c.len_utf8(),
    }
}

/// What is displayed, up to so many bytes. No more than that is formatted.
pub(crate) fn display(shown: &dyn fmt::Display, max: usize) -> String {
    let mut out = BoundedText {
        text: String::new(),
        max,
    };
    let whole = fmt::Write::write_fmt(&mut out, format_args!("{shown}")).is_ok();
    if !whole {
        out.text.push_str("...");
    }
    out.text
}

/// A value as JSON, or as much of it as fits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BoundedJson {
    Whole(String),
    /// Its beginning, with dots.
    Cut(String),
}

impl BoundedJson {
    pub(crate) fn into_text(self) -> String {
        match self {
            BoundedJson::Whole(text) | BoundedJson::Cut(text) => text,
        }
    }
}

/// A value as JSON with sorted keys, if it takes at most so many bytes; else its beginning. No more than that is
/// looked at.
pub(crate) fn json(value: &Value, max: usize) -> BoundedJson {
    let mut out = String::new();
    if push_json(&mut out, value, max) {
        return BoundedJson::Whole(out);
    }
    let end = out.floor_char_boundary(max);
    out.truncate(end);
    out.push_str("...");
    BoundedJson::Cut(out)
}

/// Appends a value until the text has so many bytes; whether all of it was appended.
fn push_json(out: &mut String, value: &Value, max: usize) -> bool {
    match value {
        Value::String(text) => {
            let rest = max.saturating_sub(out.len());
            let shown = &text[..text.floor_char_boundary(rest)];
            go::push_json_string(out, shown);
            shown.len() == text.len() && out.len() <= max
        }
        Value::Array(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                if !push_json(out, item, max) {
                    return false;
                }
            }
            out.push(']');
            out.len() <= max
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                let rest = max.saturating_sub(out.len());
                let shown = &key[..key.floor_char_boundary(rest)];
                go::push_json_string(out, shown);
                out.push(':');
                if shown.len() < key.len() || !push_json(out, item, max) {
                    return false;
                }
            }
            out.push('}');
            out.len() <= max
        }
        scalar => {
            go::push_json(out, scalar);
            out.len() <= max
        }
    }
}

/// A text that takes no more than so many bytes.
struct BoundedText {
    text: String,
    max: usize,
}

// --- BoundedText ---

impl fmt::Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let remaining = self.max - self.text.len();
        if part.len() <= remaining {
            self.text.push_str(part);
            return Ok(());
        }
        self.text.push_str(&part[..part.floor_char_boundary(remaining)]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_texts_stay_as_they_are() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut_encoded("a\nb", 4), "a\nb");
        assert_eq!(display(&"abc", 3), "abc");
        assert_eq!(
            super::json(&json!({"a": [1, "x"]}), 13),
            BoundedJson::Whole(r#"{"a":[1,"x"]}"#.to_owned())
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("ab\u{fc}d", 3), "ab... (3 more bytes)");
        assert_eq!(cut_encoded("a\n<b", 3), "a\n... (2 more bytes)");
        assert_eq!(display(&"ab\u{fc}d", 3), "ab...");
        assert_eq!(
            super::json(&json!({"a": [1, "xyz"]}), 10),
            BoundedJson::Cut(r#"{"a":[1,"x..."#.to_owned())
        );
    }

    #[test]
    fn lengths_are_those_of_the_encoder() {
        for text in ["", "plain", "q\"\\\n\u{1}<>&\u{2028}\u{fc}\u{1f980}"] {
            assert_eq!(encoded_length(text) + 2, go::json_string(text).len(), "{text}");
        }
    }
}
