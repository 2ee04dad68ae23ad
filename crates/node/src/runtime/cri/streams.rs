//! Commands in containers, and ports of sandboxes.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::Value;

use crate::runtime::{
    Attached, ContainerId, ExecOutput, ExecSpec, PortStream, RuntimeError, SandboxId, SandboxState,
    namespace::connect_inside,
};

use super::{
    Cri,
    containers::seconds,
    messages::{self, method},
    state,
    streaming::{self, NoStream, Protocol, Purpose},
};

/// What the runtime may take to give up a command, beyond the command's own limit.
const SLACK: Duration = Duration::from_secs(10);

impl Cri {
    pub(super) async fn run_command(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        let request = messages::ExecSyncRequest {
            container_id: id.0.clone(),
            cmd: command.to_vec(),
            timeout: seconds(limit),
        };
        let ran: Result<messages::ExecSyncResponse, _> = self
            .connection
            .call(method::EXEC_SYNC, request, limit.saturating_add(SLACK))
            .await;
        let ran =
            ran.map_err(|failure| self.explain(failure, &format!("command in container {id}"), limit))?;
        Ok(ExecOutput {
            code: ran.exit_code,
            stdout: ran.stdout,
            stderr: ran.stderr,
        })
    }

    pub(super) async fn stream(
        &self,
        id: &ContainerId,
        spec: &ExecSpec,
        purpose: Purpose,
    ) -> Result<Attached, RuntimeError> {
        if !self.speaks_spdy.load(Ordering::Relaxed) {
            let url = self.streaming_url(id, spec, purpose).await?;
            match streaming::open(&url, Protocol::WebSocket, spec, purpose).await {
                Ok(attached) => return Ok(attached),
                Err(NoStream::Error(error)) => return Err(error),
                Err(NoStream::OtherProtocol(words)) => {
                    tracing::debug!(
                        words,
                        "the runtime speaks no WebSockets of version 5; SPDY is used from now on"
                    );
                    self.speaks_spdy.store(true, Ordering::Relaxed);
                }
            }
        }
        let url = self.streaming_url(id, spec, purpose).await?;
        match streaming::open(&url, Protocol::Spdy, spec, purpose).await {
            Ok(attached) => Ok(attached),
            Err(NoStream::Error(error)) => Err(error),
            Err(NoStream::OtherProtocol(words)) => {
                // After an upgrade it may speak the other one again.
                self.speaks_spdy.store(false, Ordering::Relaxed);
                Err(RuntimeError::Unsupported(format!(
                    "the runtime speaks neither WebSockets (v5.channel.k8s.io) nor SPDY for streams: {words}"
                )))
            }
        }
    }

    async fn streaming_url(
        &self,
        id: &ContainerId,
        spec: &ExecSpec,
        purpose: Purpose,
    ) -> Result<String, RuntimeError> {
        // With a terminal there is one output only, and runtimes refuse to be asked for two.
        let stderr = spec.stderr && !spec.tty;
        let told: messages::StreamingUrl = match purpose {
            Purpose::Exec => {
                let request = messages::ExecRequest {
                    container_id: id.0.clone(),
                    cmd: spec.command.clone(),
                    tty: spec.tty,
                    stdin: spec.stdin,
                    stdout: spec.stdout,
                    stderr,
                };
                self.query(method::EXEC, request, &format!("exec in container {id}"))
                    .await?
            }
            Purpose::Attach => {
                let request = messages::AttachRequest {
                    container_id: id.0.clone(),
                    stdin: spec.stdin,
                    tty: spec.tty,
                    stdout: spec.stdout,
                    stderr,
                };
                self.query(method::ATTACH, request, &format!("attach to container {id}"))
                    .await?
            }
        };
        Ok(told.url)
    }

    pub(super) async fn reach(&self, id: &SandboxId, port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
        let process = self.sandbox_process(id).await?.ok_or_else(|| {
            RuntimeError::NotFound(format!("no process in the network of sandbox {id} is known"))
        })?;
        let stream = connect_inside(process, port).await.map_err(|error| {
            RuntimeError::Refused(format!(
                "failed to connect to localhost:{port} inside sandbox {id}: {error}"
            ))
        })?;
        Ok(Box::new(stream))
    }

    /// A process in the namespaces of a sandbox: its own, or, where the runtime makes sandboxes without one (CRI-O), that of any
    /// of its containers.
    pub(super) async fn sandbox_process(&self, id: &SandboxId) -> Result<Option<u32>, RuntimeError> {
        let Some(answer) = self.sandbox_status(&id.0, true).await? else {
            return Ok(None);
        };
        // The number of a process that has ended may be that of somebody else's by now.
        let state = answer.status.map(|status| state::sandbox_state(status.state));
        if state != Some(SandboxState::Ready) {
            return Ok(None);
        }
        if let Some(process) = pid(answer.info.get("info")) {
            return Ok(Some(process));
        }
        for container in self.listed_containers("", &id.0).await? {
            if let Some(process) = self.container_process(&container).await? {
                return Ok(Some(process));
            }
        }
        Ok(None)
    }

    /// The first process of a container that runs.
    pub(super) async fn container_process(
        &self,
        container: &messages::Container,
    ) -> Result<Option<u32>, RuntimeError> {
        if container.state != i32::from(messages::ContainerState::Running) {
            return Ok(None);
        }
        if let Some(process) = self.known.process(&container.id) {
            return Ok(Some(process));
        }
        let answer = self.full_status(&container.id, true).await?;
        let process = answer.and_then(|answer| pid(answer.info.get("info")));
        if let Some(process) = process {
            self.known.keep_process(&container.id, process);
        }
        Ok(process)
    }
}

/// The process in the document that containerd and CRI-O tell on request.
fn pid(info: Option<&String>) -> Option<u32> {
    let info: Value = serde_json::from_str(info?).ok()?;
    let pid = info.get("pid")?.as_u64()?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::pid;

    #[test]
    fn processes_are_found_in_what_runtimes_tell() {
        let told = |text: &str| pid(Some(&text.to_owned()));
        assert_eq!(told(r#"{"pid":42,"runtimeSpec":{}}"#), Some(42));
        assert_eq!(told(r#"{"runtimeSpec":{}}"#), None);
        assert_eq!(told(r#"{"pid":0}"#), None);
        assert_eq!(told("no json"), None);
        assert_eq!(pid(None), None);
    }
}
