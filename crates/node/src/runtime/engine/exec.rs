//! Commands in containers, and the streams of their first processes.

mod attached;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::{sleep, timeout},
};

use self::attached::{Resizing, attached};
use super::{
    Engine,
    answer::{Exec, Made},
    client::{CallError, Client, QUICK, query},
};
use crate::runtime::{Attached, ContainerId, ExecOutput, ExecSpec, RuntimeError};

/// What is kept of each output of a command whose output is wanted as a whole.
const OUTPUT_MOST: usize = 16 << 20;
/// How soon, and then how often, it is asked whether a command has ended that closed its streams.
const SOON: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_secs(1);

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(clippy::struct_excessive_bools, reason = "the engine's own form")]
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

impl Engine {
    /// Runs a command, and waits for its end.
    pub(super) async fn run_command(
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
            let made = self.make_exec(id, &spec).await?;
            let streams = self.start_exec(exec.insert(made), &spec).await?;
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
            self.end_exec(id, &exec).await;
        }
        Err(RuntimeError::Timeout {
            what: format!("timeout {limit:?} exceeded"),
            after: limit,
        })
    }

    /// Runs a command with streams.
    pub(super) async fn begin_command(
        &self,
        id: &ContainerId,
        spec: &ExecSpec,
    ) -> Result<Attached, RuntimeError> {
        let exec = self.make_exec(id, spec).await?;
        self.start_exec(&exec, spec).await
    }

    /// The streams of a container's first process.
    pub(super) async fn attach_to(
        &self,
        id: &ContainerId,
        spec: &ExecSpec,
    ) -> Result<Attached, RuntimeError> {
        let flag = |is_set: bool| if is_set { "1" } else { "0" };
        let wanted = query([
            ("stream", "1"),
            ("stdin", flag(spec.stdin)),
            ("stdout", flag(spec.stdout)),
            ("stderr", flag(spec.stderr)),
        ]);
        let path = format!("/containers/{id}/attach{wanted}");
        let upgraded = self
            .client
            .take_over(&path, Bytes::new(), QUICK)
            .await
            .map_err(|error| self.failed(error, "attach to container"))?;
        let client = Arc::clone(&self.client);
        let place = self.place.clone();
        let id = id.0.clone();
        let resizing = Resizing::new(Arc::clone(&client), format!("/containers/{id}/resize"));
        let end = async move {
            let path = format!("/containers/{id}/json");
            let seen: super::answer::Inspected = client
                .get(&path, QUICK)
                .await
                .map_err(|error| error.during(&place, "inspect container"))?;
            // Whoever lets go of a container that runs has seen no end of it.
            Ok(if seen.state.running {
                0
            } else {
                code(Some(seen.state.exit_code))
            })
        };
        Ok(attached(upgraded, spec, resizing, end))
    }

    async fn make_exec(&self, id: &ContainerId, spec: &ExecSpec) -> Result<String, RuntimeError> {
        let body = NewExec {
            cmd: &spec.command,
            tty: spec.tty,
            attach_stdin: spec.stdin,
            attach_stdout: spec.stdout,
            attach_stderr: spec.stderr,
        };
        let made: Result<Made, CallError> = self
            .client
            .post(&format!("/containers/{id}/exec"), &body, QUICK)
            .await;
        made.map(|made| made.id)
            .map_err(|error| self.failed(error, "exec in container"))
    }

    async fn start_exec(&self, exec: &str, spec: &ExecSpec) -> Result<Attached, RuntimeError> {
        let start = StartExec {
            detach: false,
            tty: spec.tty,
        };
        let body = serde_json::to_vec(&start).map_err(|error| RuntimeError::Refused(error.to_string()))?;
        let upgraded = self
            .client
            .take_over(&format!("/exec/{exec}/start"), Bytes::from(body), QUICK)
            .await
            .map_err(|error| self.failed(error, "exec in container"))?;
        let client = Arc::clone(&self.client);
        let place = self.place.clone();
        let exec = exec.to_owned();
        let resizing = Resizing::new(Arc::clone(&client), format!("/exec/{exec}/resize"));
        let end = async move { exit_code(&client, &place, &exec).await };
        Ok(attached(upgraded, spec, resizing, end))
    }

    /// Ends a command that took too long. The engine cannot, and its process is one of this machine: it is ended where it is, if
    /// it is in that container.
    async fn end_exec(&self, id: &ContainerId, exec: &str) {
        let Ok(seen) = self
            .client
            .get::<Exec>(&format!("/exec/{exec}/json"), QUICK)
            .await
        else {
            return;
        };
        let is_inside = std::fs::read_to_string(format!("/proc/{}/cgroup", seen.pid))
            .is_ok_and(|cgroups| cgroups.contains(&id.0));
        if let Some(pid) = Pid::from_raw(seen.pid).filter(|_| seen.running && is_inside) {
            // It may have ended by itself by now.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The code of a command whose streams have ended. It may go on a little longer, or for long if it closed them itself.
async fn exit_code(client: &Client, place: &str, exec: &str) -> Result<i32, RuntimeError> {
    let mut pause = SOON;
    loop {
        let seen: Exec = client
            .get(&format!("/exec/{exec}/json"), QUICK)
            .await
            .map_err(|error| error.during(place, "inspect command"))?;
        if !seen.running {
            return Ok(code(seen.exit_code));
        }
        sleep(pause).await;
        pause = (pause * 2).min(SELDOM);
    }
}

fn code(code: Option<i64>) -> i32 {
    i32::try_from(code.unwrap_or_default()).unwrap_or(-1)
}

/// All of an output, as much as is kept.
async fn read_output(stream: Option<std::pin::Pin<Box<dyn AsyncRead + Send>>>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return kept;
    };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length) = stream.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        let room = OUTPUT_MOST - kept.len();
        kept.extend_from_slice(&buffer[..length.min(room)]);
    }
    kept
}
