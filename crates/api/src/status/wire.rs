//! A status as JSON.

use serde_json::Value;

use super::{Cause, Details, Status};
use crate::{
    bound::{self, MOST_CAUSES, MOST_MESSAGE, MOST_NAME},
    go,
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
            &bound::cut_encoded(&self.message, MOST_MESSAGE + MOST_NAME * 8),
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

fn push_details(out: &mut String, details: &Details) {
    out.push('{');
    for (name, text) in [
        ("name", &details.name),
        ("group", &details.group),
        ("kind", &details.kind),
        ("uid", &details.uid),
    ] {
        push_text(out, name, &bound::cut_encoded(text, MOST_NAME * 2));
    }
    if !details.causes.is_empty() {
        push_name(out, "causes");
        out.push('[');
        let mut bytes = 0;
        for (i, cause) in details.causes.iter().enumerate() {
            bytes += cause.encoded_length();
            if bytes > MOST_CAUSES && i > 0 {
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

fn push_cause(out: &mut String, cause: &Cause) {
    out.push('{');
    push_text(out, "reason", &cause.reason);
    push_text(
        out,
        "message",
        &bound::cut_encoded(&cause.message, MOST_CAUSES / 2),
    );
    push_text(out, "field", &bound::cut_encoded(&cause.field, MOST_CAUSES / 8));
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
