//! How a process ended, as the runtime tells it on the channel for errors.

use serde::Deserialize;

use crate::runtime::RuntimeError;

#[derive(Deserialize)]
struct Status {
    #[serde(default, rename = "status")]
    outcome: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// The exit code in a `Status` of the API.
pub(super) fn exit_code(text: &[u8]) -> Result<i32, RuntimeError> {
    let Ok(status) = kubecontroller::decode::from_slice::<Status>(text) else {
        // Old runtimes tell only what went wrong.
        return Err(RuntimeError::Refused(
            String::from_utf8_lossy(text).trim().to_owned(),
        ));
    };
    if status.outcome == "Success" {
        return Ok(0);
    }
    let code = status.details.iter().flat_map(|details| &details.causes);
    let code = code
        .filter(|cause| cause.reason == "ExitCode")
        .find_map(|cause| cause.message.parse().ok());
    match code {
        Some(code) if status.reason == "NonZeroExitCode" => Ok(code),
        _ => Err(RuntimeError::Refused(status.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found() {
        assert_eq!(exit_code(br#"{"metadata":{},"status":"Success"}"#).unwrap(), 0);
        let failed = br#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit status 3",
            "reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        assert_eq!(exit_code(failed).unwrap(), 3);
    }

    #[test]
    fn other_failures_keep_their_words() {
        let failed =
            br#"{"status":"Failure","message":"no such program","reason":"InternalError","code":500}"#;
        assert_eq!(exit_code(failed).unwrap_err().to_string(), "no such program");
        assert_eq!(exit_code(b"broken\n").unwrap_err().to_string(), "broken");
    }
}
