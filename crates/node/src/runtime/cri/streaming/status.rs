//! Exit status, which the runtime sends on the error channel.

use serde::Deserialize;

use crate::runtime::RuntimeError;

#[derive(Deserialize)]
struct ExecStatus {
    #[serde(default, rename = "status")]
    outcome: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    details: Option<ExecStatusDetails>,
}

#[derive(Deserialize)]
struct ExecStatusDetails {
    #[serde(default)]
    causes: Vec<ExecStatusCause>,
}

#[derive(Deserialize)]
struct ExecStatusCause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// Parses the exit code of an API `Status`.
pub(super) fn exit_code(text: &[u8]) -> Result<i32, RuntimeError> {
    let Ok(status) = kubecontroller::decode::from_slice::<ExecStatus>(text) else {
        // Old runtimes send only an error message.
        return Err(RuntimeError::OperationFailed(
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
        _ => Err(RuntimeError::OperationFailed(status.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_exit_codes() {
        assert_eq!(exit_code(br#"{"metadata":{},"status":"Success"}"#).unwrap(), 0);
        let failed = br#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit status 3",
            "reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        assert_eq!(exit_code(failed).unwrap(), 3);
    }

    #[test]
    fn other_errors_keep_their_message() {
        let failed =
            br#"{"status":"Failure","message":"no such program","reason":"InternalError","code":500}"#;
        assert_eq!(exit_code(failed).unwrap_err().to_string(), "no such program");
        assert_eq!(exit_code(b"broken\n").unwrap_err().to_string(), "broken");
    }
}
