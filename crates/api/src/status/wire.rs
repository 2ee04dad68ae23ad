//! Status as JSON.

use serde_json::Value;

use super::{Status, StatusCause, StatusDetails};
use crate::{
    go,
    limits::{self, MAX_CAUSES_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES},
};

// --- Status ---

impl Status {
    /// As JSON text, the fields in the order they are known in: `kind` first, `code` last. At most 256 KiB: longer
    /// messages are cut, and causes are left out.
    pub fn to_json(&self) -> String {
        let mut out = String::from(r#"{"kind":"Status","apiVersion":"v1","metadata":{"#);
        if !self.continue_token.is_empty() {
            push_text(&mut out, "continue", &self.continue_token);
        }
        out.push('}');
        push_text(
            &mut out,
            "status",
            if self.success { "Success" } else { "Failure" },
        );
        push_text(
            &mut out,
            "message",
            &limits::cut_encoded(&self.message, MAX_MESSAGE_BYTES + MAX_NAME_BYTES * 8),
        );
        let reason = if self.word.is_empty() {
            self.reason.word()
        } else {
            &self.word
        };
        push_text(&mut out, "reason", reason);
        if let Some(details) = &self.details {
            push_name(&mut out, "details");
            push_details(&mut out, details);
        }
        push_number(&mut out, "code", self.code.into());
        out.push('}');
        out
    }

    /// As a JSON tree.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.to_json()).expect("a status is written as JSON")
    }
}

fn push_details(out: &mut String, details: &StatusDetails) {
    out.push('{');
    for (name, text) in [
        ("name", &details.name),
        ("group", &details.group),
        ("kind", &details.kind),
        ("uid", &details.uid),
    ] {
        push_text(out, name, &limits::cut_encoded(text, MAX_NAME_BYTES * 2));
    }
    if !details.causes.is_empty() {
        push_name(out, "causes");
        out.push('[');
        let mut bytes = 0;
        for (i, cause) in details.causes.iter().enumerate() {
            bytes += cause.encoded_length();
            if bytes > MAX_CAUSES_BYTES && i > 0 {
                break;
            }
            if i > 0 {
                out.push(',');
            }
            push_cause(out, cause);
        }
        out.push(']');
    }
    push_number(out, "retryAfterSeconds", details.retry_after_seconds);
    out.push('}');
}

fn push_cause(out: &mut String, cause: &StatusCause) {
    out.push('{');
    push_text(out, "reason", &cause.reason);
    push_text(
        out,
        "message",
        &limits::cut_encoded(&cause.message, MAX_CAUSES_BYTES / 2),
    );
    push_text(
        out,
        "field",
        &limits::cut_encoded(&cause.field, MAX_CAUSES_BYTES / 8),
    );
    out.push('}');
}

fn push_text(out: &mut String, name: &str, text: &str) {
    if !text.is_empty() {
        push_name(out, name);
        out.push_str(&go::json_string(text));
    }
}

fn push_number(out: &mut String, name: &str, number: u32) {
    if number != 0 {
        push_name(out, name);
        out.push_str(&number.to_string());
    }
}

fn push_name(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
}
