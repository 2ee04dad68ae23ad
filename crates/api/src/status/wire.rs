//! A status as JSON.

use serde_json::Value;

use super::{Cause, Details, Status};
use crate::go;

// --- Status ---

impl Status {
    /// As JSON text, the fields in the order they are known in: `kind` first, `code` last.
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
        push_text(&mut out, "message", &self.message);
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
    push_text(out, "name", &details.name);
    push_text(out, "group", &details.group);
    push_text(out, "kind", &details.kind);
    push_text(out, "uid", &details.uid);
    if !details.causes.is_empty() {
        push_name(out, "causes");
        out.push('[');
        for (i, cause) in details.causes.iter().enumerate() {
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
    push_text(out, "message", &cause.message);
    push_text(out, "field", &cause.field);
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
