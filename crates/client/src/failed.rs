//! Why a command failed, in one line that users of kubectl know.

use std::{error::Error, fmt, io};

use serde_json::Value;

/// What is said, and the exit code.
#[derive(Debug)]
pub struct Failed {
    text: String,
    code: u8,
    /// The `Status` of the server, if it was the server that refused.
    status: Option<Box<Value>>,
}

/// The message of an error, and those of its causes as far as they say more.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

// --- Failed ---

impl Failed {
    /// Something that could not be done.
    pub(crate) fn new(text: impl fmt::Display) -> Self {
        Self::with_code(format!("error: {text}"), 1)
    }

    /// A call that makes no sense.
    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Self::with_code(format!("error: {text}"), 2)
    }

    /// A whole text, and an exit code of its own.
    pub(crate) fn with_code(text: String, code: u8) -> Self {
        Self {
            text,
            code,
            status: None,
        }
    }

    /// What the server refused, while something was done that `doing` tells, such as `error when applying "a.yaml"`.
    pub(crate) fn server(status: Value, doing: Option<&str>) -> Self {
        Self {
            text: told(&status, doing),
            code: 1,
            status: Some(Box::new(status)),
        }
    }

    /// The same, said to have happened while something was done.
    pub(crate) fn while_doing(self, doing: &str) -> Self {
        match self.status {
            Some(status) => Self::server(*status, Some(doing)),
            None => self,
        }
    }

    /// The answer of a server that refused.
    pub(crate) fn status(&self) -> Option<&Value> {
        self.status.as_deref()
    }

    /// Whether the server says that there is no such thing.
    pub(crate) fn is_not_found(&self) -> bool {
        self.http_code() == Some(404)
    }

    /// The code of the server's answer.
    pub(crate) fn http_code(&self) -> Option<u64> {
        self.status()?["code"].as_u64()
    }

    /// 1 for a failure, 2 for a call that makes no sense, and what a command ended with that ran elsewhere.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Whether there is nothing to say: nobody reads the output any more.
    pub fn is_silent(&self) -> bool {
        self.text.is_empty()
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // `k3 get pods | head` is no failure.
            return Self::with_code(String::new(), 0);
        }
        Self::new(error)
    }
}

/// A status in kubectl's words.
fn told(status: &Value, doing: Option<&str>) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let reason = text(&status["reason"]);
    let message = text(&status["message"]);
    let doing = doing.map(|doing| format!("{doing}: ")).unwrap_or_default();
    let details = &status["details"];
    match reason.as_str() {
        "Unauthorized" => "error: You must be logged in to the server (Unauthorized)".to_owned(),
        "Invalid" if details["causes"].is_array() => {
            let causes: Vec<String> = details["causes"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|cause| match text(&cause["field"]).as_str() {
                    "" => text(&cause["message"]),
                    field => format!("{field}: {}", text(&cause["message"])),
                })
                .collect();
            let subject = format!(
                "{doing}The {} \"{}\" is invalid",
                text(&details["kind"]),
                text(&details["name"])
            );
            match causes.as_slice() {
                [] => subject,
                [cause] => format!("{subject}: {cause}"),
                causes => format!("{subject}: \n* {}", causes.join("\n* ")),
            }
        }
        "" | "Unknown" => format!("Error from server: {doing}{message}"),
        reason => format!("Error from server ({reason}): {doing}{message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_are_told_as_kubectl_tells_them() {
        let gone = json!({"code": 404, "reason": "NotFound", "message": "pods \"web\" not found"});
        let failed = Failed::server(gone, None);
        assert_eq!(
            failed.to_string(),
            "Error from server (NotFound): pods \"web\" not found"
        );
        assert!(failed.is_not_found());
        let failed = failed.while_doing("error when deleting \"a.yaml\"");
        assert_eq!(
            failed.to_string(),
            "Error from server (NotFound): error when deleting \"a.yaml\": pods \"web\" not found"
        );
        let invalid = json!({"reason": "Invalid", "details": {"kind": "Pod", "name": "web", "causes": [
            {"field": "spec.containers", "message": "Required value"}]}});
        assert_eq!(
            Failed::server(invalid, None).to_string(),
            "The Pod \"web\" is invalid: spec.containers: Required value"
        );
    }
}
