//! Exec and attach.

mod process_streams;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kubecontroller::Backoff;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::{sleep, timeout},
};

use self::process_streams::{TerminalResizer, process_streams};
use super::{
    DockerRuntime,
    client::{CALL_TIMEOUT, CallError, DockerClient, query_string},
    responses::{CreatedResponse, ExecInspect},
};
use crate::runtime::{ContainerId, ExecOutput, ExecSpec, ProcessStreams, RuntimeError};

/// Maximum kept size of each output of `exec_sync`.
const MAX_OUTPUT: usize = 16 << 20;
/// Polling interval for the exit of a command that closed its streams: doubles from the first to the second.
const POLL_INTERVALS: Backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_secs(1));

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(clippy::struct_excessive_bools, reason = "format of the Docker Engine API")]
struct NewExec<'a> {
    cmd: &'a [String],
    tty: bool,
    attach_stdin: bool,
    attach_stdout: bool,
    attach_stderr: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct StartExec {
    detach: bool,
    tty: bool,
}

impl DockerRuntime {
    /// Runs a command, and waits for its exit.
    pub(super) async fn exec_and_wait(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        let spec = ExecSpec {
            command: command.to_vec(),
            stdout: true,
            stderr: true,
            ..ExecSpec::default()
        };
        let mut exec = None;
        let work = async {
            let created = self.create_exec(id, &spec).await?;
            let streams = self.start_exec(exec.insert(created), &spec).await?;
            let (code, stdout, stderr) = tokio::join!(
                streams.done,
                read_output(streams.stdout),
                read_output(streams.stderr)
            );
            Ok(ExecOutput {
                code: code?,
                stdout,
                stderr,
            })
        };
        if let Ok(outcome) = timeout(limit, work).await {
            return outcome;
        }
        if let Some(exec) = exec {
            self.kill_exec(id, &exec).await;
        }
        Err(RuntimeError::Timeout {
            what: format!("timeout {limit:?} exceeded"),
            after: limit,
        })
    }

    /// Runs a command with streams.
    pub(super) async fn exec_with_streams(
        &self,
        id: &ContainerId,
        spec: &ExecSpec,
    ) -> Result<ProcessStreams, RuntimeError> {
        let exec = self.create_exec(id, spec).await?;
        self.start_exec(&exec, spec).await
    }

    /// Attaches to the first process of a container.
    pub(super) async fn attach_with_streams(
        &self,
        id: &ContainerId,
        spec: &ExecSpec,
    ) -> Result<ProcessStreams, RuntimeError> {
        let flag = |is_set: bool| if is_set { "1" } else { "0" };
        let parameters = query_string([
            ("stream", "1"),
            ("stdin", flag(spec.stdin)),
            ("stdout", flag(spec.stdout)),
            ("stderr", flag(spec.stderr)),
        ]);
        let path = format!("/containers/{id}/attach{parameters}");
        let upgraded = self
            .client
            .hijack(&path, Bytes::new(), CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "attach to container"))?;
        let client = Arc::clone(&self.client);
        let endpoint = self.endpoint.clone();
        let id = id.0.clone();
        let resizing = TerminalResizer::new(Arc::clone(&client), format!("/containers/{id}/resize"));
        let end = async move {
            let path = format!("/containers/{id}/json");
            let inspected: super::responses::ContainerInspect = client
                .get(&path, CALL_TIMEOUT)
                .await
                .map_err(|error| error.into_runtime_error(&endpoint, "inspect container"))?;
            // A client that detaches from a running container has no exit code to report.
            Ok(if inspected.state.running {
                0
            } else {
                code(inspected.state.exit_code)
            })
        };
        Ok(process_streams(upgraded, spec, resizing, end))
    }

    async fn create_exec(&self, id: &ContainerId, spec: &ExecSpec) -> Result<String, RuntimeError> {
        let body = NewExec {
            cmd: &spec.command,
            tty: spec.tty,
            attach_stdin: spec.stdin,
            attach_stdout: spec.stdout,
            attach_stderr: spec.stderr,
        };
        let created: Result<CreatedResponse, CallError> = self
            .client
            .post(&format!("/containers/{id}/exec"), &body, CALL_TIMEOUT)
            .await;
        created
            .map(|created| created.id)
            .map_err(|error| self.failed(error, "exec in container"))
    }

    async fn start_exec(&self, exec: &str, spec: &ExecSpec) -> Result<ProcessStreams, RuntimeError> {
        let start = StartExec {
            detach: false,
            tty: spec.tty,
        };
        let body =
            serde_json::to_vec(&start).map_err(|error| RuntimeError::OperationFailed(error.to_string()))?;
        let upgraded = self
            .client
            .hijack(&format!("/exec/{exec}/start"), Bytes::from(body), CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "exec in container"))?;
        let client = Arc::clone(&self.client);
        let endpoint = self.endpoint.clone();
        let exec = exec.to_owned();
        let resizing = TerminalResizer::new(Arc::clone(&client), format!("/exec/{exec}/resize"));
        let end = async move { exit_code(&client, &endpoint, &exec).await };
        Ok(process_streams(upgraded, spec, resizing, end))
    }

    /// Kills a command that exceeded its timeout. The API has no call for that, so the process is killed on the host, if it is still in the
    /// container's cgroup.
    async fn kill_exec(&self, id: &ContainerId, exec: &str) {
        let Ok(inspected) = self
            .client
            .get::<ExecInspect>(&format!("/exec/{exec}/json"), CALL_TIMEOUT)
            .await
        else {
            return;
        };
        let is_in_container = tokio::fs::read_to_string(format!("/proc/{}/cgroup", inspected.pid))
            .await
            .is_ok_and(|cgroups| cgroups.contains(&id.0));
        if let Some(pid) = Pid::from_raw(inspected.pid).filter(|_| inspected.running && is_in_container) {
            // It may have exited meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Waits for the exit code of a command whose streams have ended. A process may close its streams long before it exits.
async fn exit_code(client: &DockerClient, endpoint: &str, exec: &str) -> Result<i32, RuntimeError> {
    let mut intervals = POLL_INTERVALS.delays();
    loop {
        let inspected: ExecInspect = client
            .get(&format!("/exec/{exec}/json"), CALL_TIMEOUT)
            .await
            .map_err(|error| error.into_runtime_error(endpoint, "inspect command"))?;
        if let Some(code) = finished_code(&inspected)? {
            return Ok(code);
        }
        sleep(intervals.next_delay()).await;
    }
}

/// Returns the exit code of a command; `None` while it runs. A command that ended without a code did not succeed.
fn finished_code(inspected: &ExecInspect) -> Result<Option<i32>, RuntimeError> {
    match (inspected.running, inspected.exit_code) {
        (true, _) => Ok(None),
        (false, Some(exit_code)) => Ok(Some(code(exit_code))),
        (false, None) => Err(RuntimeError::OperationFailed(
            "the engine reports no exit code of the command".to_owned(),
        )),
    }
}

fn code(code: i64) -> i32 {
    i32::try_from(code).unwrap_or(-1)
}

/// Reads an output to its end, and keeps at most [`MAX_OUTPUT`].
async fn read_output(stream: Option<std::pin::Pin<Box<dyn AsyncRead + Send>>>) -> Vec<u8> {
    let mut output = Vec::new();
    let Some(mut stream) = stream else {
        return output;
    };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length) = stream.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        let capacity = MAX_OUTPUT - output.len();
        output.extend_from_slice(&buffer[..length.min(capacity)]);
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ended_without_exit_code_did_not_succeed() {
        let inspected = |running, exit_code| ExecInspect {
            running,
            exit_code,
            ..ExecInspect::default()
        };
        assert_eq!(finished_code(&inspected(true, None)).unwrap(), None);
        assert_eq!(finished_code(&inspected(true, Some(0))).unwrap(), None);
        assert_eq!(finished_code(&inspected(false, Some(3))).unwrap(), Some(3));
        assert!(finished_code(&inspected(false, None)).is_err());
    }
}
