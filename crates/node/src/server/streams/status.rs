//! Exit status of exec and attach on the error channel.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand/status.go streamStatus

use serde_json::{Value, json};

use crate::runtime::RuntimeError;

/// Exec or attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum RemoteCommand {
    /// Run a command.
    Exec(Vec<String>),
    /// Attach to the main process.
    Attach,
}

/// Format of the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusFormat {
    /// A `Status` object in JSON (protocol version 4 and later).
    Json,
    /// The message of an error; nothing on success.
    Text,
}

/// The bytes for the error channel, if any.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand/httpstream.go v1WriteStatusFunc, v4WriteStatusFunc
pub(super) fn encode_status(
    command: &RemoteCommand,
    result: &Result<i32, RuntimeError>,
    format: StatusFormat,
) -> Option<String> {
    let status = status(command, result);
    match format {
        StatusFormat::Json => Some(status.to_string()),
        StatusFormat::Text => status
            .get("message")
            .and_then(Value::as_str)
            .map(ToOwned::to_owned),
    }
}

fn status(command: &RemoteCommand, result: &Result<i32, RuntimeError>) -> Value {
    match (command, result) {
        // An attached client does not get the exit code of the main process, which is in the pod status.
        (_, Ok(0)) | (RemoteCommand::Attach, Ok(_)) => json!({"metadata": {}, "status": "Success"}),
        (RemoteCommand::Exec(arguments), Ok(code)) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!(
                "command terminated with non-zero exit code: error executing command [{}], exit code {code}",
                arguments.join(" ")
            ),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        (command, Err(error)) => {
            let operation = match command {
                RemoteCommand::Exec(_) => "error executing command in container",
                RemoteCommand::Attach => "error attaching to container",
            };
            json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: {operation}: {error}"),
                "reason": "InternalError",
                "code": 500,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_exit_code_as_cause() {
        let command = RemoteCommand::Exec(vec!["sh".to_owned(), "-c".to_owned(), "exit 3".to_owned()]);
        let encoded = encode_status(&command, &Ok(3), StatusFormat::Json).unwrap();
        let status: Value = serde_json::from_str(&encoded).unwrap();
        assert_eq!(status["reason"], "NonZeroExitCode");
        assert_eq!(
            status["details"]["causes"],
            json!([{"reason": "ExitCode", "message": "3"}])
        );
        assert_eq!(
            status["message"],
            "command terminated with non-zero exit code: error executing command [sh -c exit 3], exit code 3"
        );
    }

    #[test]
    fn text_format_reports_only_errors() {
        let command = RemoteCommand::Exec(vec!["true".to_owned()]);
        assert_eq!(encode_status(&command, &Ok(0), StatusFormat::Text), None);
        assert!(
            encode_status(&command, &Ok(0), StatusFormat::Json)
                .unwrap()
                .contains("Success")
        );
        let failed = Err(RuntimeError::OperationFailed("no such file".to_owned()));
        assert_eq!(
            encode_status(&command, &failed, StatusFormat::Text).unwrap(),
            "Internal error occurred: error executing command in container: no such file"
        );
        assert_eq!(
            encode_status(&RemoteCommand::Attach, &Ok(5), StatusFormat::Text),
            None,
            "attach does not report the exit code"
        );
    }
}
