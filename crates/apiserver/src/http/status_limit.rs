//! Limits the size of error responses: a request of a few bytes must not make the server send many.
//!
//! Promise: a `Status` is at most 256 KiB in every format. A longer one has its texts and causes truncated, and is marked as
//! such.

use k3_api::status::{Status, StatusCause, StatusDetails};

/// The maximum size of the messages and causes of a `Status`. The other fields fit into the rest of 256 KiB.
const MAX_STATUS_BYTES: usize = 240 * 1024;
/// What is left of the message of a status that is too long, as JSON; and of its other texts.
const MESSAGE: usize = 32 * 1024;
const TEXT: usize = 1024;
/// What the causes of such a status take.
const CAUSES: usize = 64 * 1024;
/// What a cause takes beside its texts, indented.
const CAUSE: usize = 120;

/// A status that fits; `None` if this one does.
pub(super) fn bound(status: &Status) -> Option<Status> {
    let mut left = MAX_STATUS_BYTES;
    let mut fits = |text: &str| match escaped_len(text, left) {
        Some(length) => {
            left -= length;
            true
        }
        None => false,
    };
    let mut is_short = fits(&status.message) && fits(&status.word) && fits(&status.continue_token);
    if let Some(details) = &status.details {
        let texts = [&details.name, &details.group, &details.kind, &details.uid];
        is_short = is_short && texts.into_iter().all(|text| fits(text));
        let mut texts = details
            .causes
            .iter()
            .flat_map(|cause| [&cause.reason, &cause.message, &cause.field]);
        is_short = is_short && texts.all(|text| fits(text));
        is_short = is_short && details.causes.len() * CAUSE <= left;
    }
    (!is_short).then(|| shorten(status))
}

fn shorten(status: &Status) -> Status {
    let details = status.details.as_ref().map(|details| {
        Box::new(StatusDetails {
            name: cut(&details.name, TEXT),
            group: cut(&details.group, TEXT),
            kind: cut(&details.kind, TEXT),
            uid: cut(&details.uid, TEXT),
            causes: shorten_causes(&details.causes),
            retry_after_seconds: details.retry_after_seconds,
        })
    });
    Status {
        code: status.code,
        reason: status.reason,
        word: cut(&status.word, TEXT).into(),
        message: cut(&status.message, MESSAGE),
        details,
        success: status.success,
        continue_token: status.continue_token.clone(),
        warnings: status.warnings.clone(),
    }
}

fn shorten_causes(causes: &[StatusCause]) -> Vec<StatusCause> {
    let mut left = CAUSES;
    let mut shortened: Vec<StatusCause> = Vec::new();
    for cause in causes {
        let cut = StatusCause {
            reason: cut(&cause.reason, TEXT),
            message: cut(&cause.message, TEXT),
            field: cut(&cause.field, TEXT),
        };
        let length: usize = [&cut.reason, &cut.message, &cut.field]
            .into_iter()
            .map(|text| escaped_len(text, usize::MAX).unwrap_or_default())
            .sum();
        let Some(rest) = left.checked_sub(length + CAUSE) else {
            shortened.push(StatusCause {
                message: format!("{} more causes are left out", causes.len() - shortened.len()),
                ..StatusCause::default()
            });
            break;
        };
        left = rest;
        shortened.push(cut);
    }
    shortened
}

/// A text of at most this many bytes as JSON; truncation is marked.
fn cut(text: &str, max: usize) -> String {
    if escaped_len(text, max).is_some() {
        return text.to_owned();
    }
    let mut left = max;
    let end = text.char_indices().find_map(|(at, letter)| {
        let length = escaped_char_len(letter);
        match left.checked_sub(length) {
            Some(rest) => {
                left = rest;
                None
            }
            None => Some(at),
        }
    });
    let end = end.unwrap_or(text.len());
    format!(
        "{}... ({} more bytes are left out)",
        &text[..end],
        text.len() - end
    )
}

/// How many bytes a text takes as JSON; `None` if they are more than `max`.
fn escaped_len(text: &str, max: usize) -> Option<usize> {
    let mut length = 0_usize;
    if text.len() > max {
        return None;
    }
    for letter in text.chars() {
        length += escaped_char_len(letter);
        if length > max {
            return None;
        }
    }
    Some(length)
}

fn escaped_char_len(letter: char) -> usize {
    match letter {
        '"' | '\\' => 2,
        // As upstream does, these are written as `\u0026`.
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
        letter if letter.is_control() => 6,
        letter => letter.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use k3_api::status::GroupResource;

    use super::*;
    use crate::http::{Format, JsonLayout, ResponseBody};

    const LIMIT: usize = 256 * 1024;

    fn length(status: &Status, format: Format, layout: JsonLayout) -> usize {
        let answer = super::super::status(status, format, layout);
        match answer.body() {
            ResponseBody::Whole(bytes) => bytes.len(),
            _ => panic!("a status is whole"),
        }
    }

    fn invalid(causes: usize, message: &str) -> Status {
        let mut status = Status::not_found(GroupResource::new("", "pods"), "a");
        message.clone_into(&mut status.message);
        let details = status.details.get_or_insert_default();
        details.causes = (0..causes)
            .map(|number| StatusCause {
                reason: "FieldValueInvalid".to_owned(),
                message: message.to_owned(),
                field: format!("spec.containers[{number}]"),
            })
            .collect();
        status
    }

    #[test]
    fn status_is_at_most_256_kib() {
        let mut named = invalid(0, "short");
        named.details.get_or_insert_default().name = "n".repeat(3 << 20);
        for status in [
            invalid(100_000, "x"),
            invalid(1, &"x".repeat(3 << 20)),
            invalid(3, &"\u{1}".repeat(1 << 20)),
            invalid(20_000, "<&>\n\""),
            invalid(1_000, &"\u{20ac}".repeat(1 << 10)),
            invalid(500, &"\u{1}".repeat(100)),
            invalid(512, &"line\n".repeat(20)),
            named,
        ] {
            for format in [Format::Json, Format::Yaml, Format::Protobuf] {
                for layout in [JsonLayout::Compact, JsonLayout::Indented] {
                    let length = length(&status, format, layout);
                    assert!(length <= LIMIT, "{format:?} {layout:?}: {length}");
                    assert!(length > 0);
                }
            }
        }
    }

    #[test]
    fn short_status_is_unchanged() {
        for status in [
            invalid(0, "short"),
            invalid(500, "a message of some length, & more"),
        ] {
            assert!(bound(&status).is_none());
            assert_eq!(
                length(&status, Format::Json, JsonLayout::Compact),
                status.to_json().len()
            );
        }
    }

    #[test]
    fn truncation_is_marked() {
        let status = bound(&invalid(100_000, &"x".repeat(60_000))).unwrap();
        assert!(
            status.message.ends_with("... (27232 more bytes are left out)"),
            "{}",
            status.message.len()
        );
        let causes = status.details.unwrap().causes;
        let last = causes.last().unwrap();
        assert_eq!(
            last.message,
            format!("{} more causes are left out", 100_000 - (causes.len() - 1))
        );
        // Never within a letter.
        assert!(cut("\u{20ac}\u{20ac}", 4).starts_with("\u{20ac}... (3 more"));
    }
}
