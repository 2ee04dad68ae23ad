//! How a process ended, as the client is told on the error channel.

use serde_json::{Value, json};

use crate::runtime::RuntimeError;

/// What is done in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Task {
    /// This command is run.
    Exec(Vec<String>),
    /// The client is attached to what runs.
    Attach,
}

/// How the end is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// As a `Status` (from the fourth version on).
    Status,
    /// In words, and only if something went wrong.
    Words,
}

/// What is sent; `None` if nothing is.
pub(super) fn told(task: &Task, ended: &Result<i32, RuntimeError>, style: Style) -> Option<String> {
    let status = status(task, ended);
    match style {
        Style::Status => Some(status.to_string()),
        Style::Words => status
            .get("message")
            .and_then(Value::as_str)
            .map(ToOwned::to_owned),
    }
}

fn status(task: &Task, ended: &Result<i32, RuntimeError>) -> Value {
    match (task, ended) {
        // Who was attached is not told how the process ended; the pod's status tells.
        (_, Ok(0)) | (Task::Attach, Ok(_)) => json!({"metadata": {}, "status": "Success"}),
        (Task::Exec(command), Ok(code)) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!(
                "command terminated with non-zero exit code: error executing command [{}], exit code {code}",
                command.join(" ")
            ),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        (task, Err(error)) => {
            let doing = match task {
                Task::Exec(_) => "error executing command in container",
                Task::Attach => "error attaching to container",
            };
            json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: {doing}: {error}"),
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
    fn an_exit_code_is_a_cause() {
        let task = Task::Exec(vec!["sh".to_owned(), "-c".to_owned(), "exit 3".to_owned()]);
        let told = told(&task, &Ok(3), Style::Status).unwrap();
        let status: Value = serde_json::from_str(&told).unwrap();
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
    fn old_clients_get_words_and_only_of_failures() {
        let task = Task::Exec(vec!["true".to_owned()]);
        assert_eq!(told(&task, &Ok(0), Style::Words), None);
        assert!(told(&task, &Ok(0), Style::Status).unwrap().contains("Success"));
        let failed = Err(RuntimeError::Refused("no such file".to_owned()));
        assert_eq!(
            told(&task, &failed, Style::Words).unwrap(),
            "Internal error occurred: error executing command in container: no such file"
        );
        assert_eq!(
            told(&Task::Attach, &Ok(5), Style::Words),
            None,
            "who is attached is not told"
        );
    }
}
