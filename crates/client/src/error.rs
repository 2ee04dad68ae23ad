//! Errors of commands, as one line in kubectl's format.

use std::{error::Error, fmt, io};

use serde_json::Value;

/// An error message and an exit code.
#[derive(Debug)]
pub struct ClientError {
    text: String,
    code: u8,
    /// The `Status` of the server, when the server returned the error.
    status: Option<Box<Value>>,
}

/// Returns the message of an error with the messages of its causes, without repetitions.
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

// --- ClientError ---

impl ClientError {
    /// An error with exit code 1.
    pub(crate) fn new(text: impl fmt::Display) -> Self {
        Self::with_code(format!("error: {text}"), 1)
    }

    /// A usage error, with exit code 2.
    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Self::with_code(format!("error: {text}"), 2)
    }

    /// An error with the whole message and the exit code.
    pub(crate) fn with_code(text: String, code: u8) -> Self {
        Self {
            text,
            code,
            status: None,
        }
    }

    /// An error `Status` of the server. `doing` is a context such as `error when applying "a.yaml"`.
    pub(crate) fn server(status: Value, doing: Option<&str>) -> Self {
        Self {
            text: status_message(&status, doing),
            code: 1,
            status: Some(Box::new(status)),
        }
    }

    /// Adds a context such as `error when applying "a.yaml"` to an error of the server.
    pub(crate) fn with_context(self, doing: &str) -> Self {
        match self.status {
            Some(status) => Self::server(*status, Some(doing)),
            None => self,
        }
    }

    /// The `Status` of the server.
    pub(crate) fn status(&self) -> Option<&Value> {
        self.status.as_deref()
    }

    /// Whether the server returned 404 Not Found.
    pub(crate) fn is_not_found(&self) -> bool {
        self.http_code() == Some(404)
    }

    /// The HTTP status code of the server's response.
    pub(crate) fn http_code(&self) -> Option<u64> {
        self.status()?["code"].as_u64()
    }

    /// The exit code: 1 for an error, 2 for a usage error, or the exit code of the command that `exec` ran.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Whether there is no message to print: the reader of the output closed the pipe.
    pub fn is_silent(&self) -> bool {
        self.text.is_empty()
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // `k3 get pods | head` is not an error.
            return Self::with_code(String::new(), 0);
        }
        Self::new(error)
    }
}

// upstream: staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go StandardErrorMessage
/// Formats an error `Status` in kubectl's format.
fn status_message(status: &Value, doing: Option<&str>) -> String {
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
    fn formats_server_errors_like_kubectl() {
        let not_found = json!({"code": 404, "reason": "NotFound", "message": "pods \"web\" not found"});
        let failed = ClientError::server(not_found, None);
        assert_eq!(
            failed.to_string(),
            "Error from server (NotFound): pods \"web\" not found"
        );
        assert!(failed.is_not_found());
        let failed = failed.with_context("error when deleting \"a.yaml\"");
        assert_eq!(
            failed.to_string(),
            "Error from server (NotFound): error when deleting \"a.yaml\": pods \"web\" not found"
        );
        let invalid = json!({"reason": "Invalid", "details": {"kind": "Pod", "name": "web", "causes": [
            {"field": "spec.containers", "message": "Required value"}]}});
        assert_eq!(
            ClientError::server(invalid, None).to_string(),
            "The Pod \"web\" is invalid: spec.containers: Required value"
        );
    }
}
