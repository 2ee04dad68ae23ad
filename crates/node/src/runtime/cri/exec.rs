//! Exec, attach and port forwarding.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::Value;

use crate::runtime::{
    ContainerId, ExecOutput, ExecSpec, PortStream, ProcessStreams, RuntimeError, SandboxId, SandboxState,
    network_namespace::connect_in_network_namespace,
};

use super::{
    CriRuntime,
    containers::{StatusDetail, seconds},
    convert,
    messages::{self, method},
    streaming::{self, StreamError, StreamProtocol, StreamPurpose},
};

/// Time for the runtime to stop a command after its timeout.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(10);

impl CriRuntime {
    pub(super) async fn exec_and_wait(
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
        let result: Result<messages::ExecSyncResponse, _> = self
            .connection
            .call(method::EXEC_SYNC, request, limit.saturating_add(TIMEOUT_MARGIN))
            .await;
        let result = result
            .map_err(|error| self.runtime_error(error, &format!("command in container {id}"), limit))?;
        Ok(ExecOutput {
            code: result.exit_code,
            stdout: result.stdout,
            stderr: result.stderr,
        })
    }

    pub(super) async fn stream(
        &self,
        id: &ContainerId,
        spec: &ExecSpec,
        purpose: StreamPurpose,
    ) -> Result<ProcessStreams, RuntimeError> {
        if !self.uses_spdy.load(Ordering::Relaxed) {
            let url = self.streaming_url(id, spec, purpose).await?;
            match streaming::open(&url, StreamProtocol::WebSocket, spec, purpose).await {
                Ok(attached) => return Ok(attached),
                Err(StreamError::Error(error)) => return Err(error),
                Err(StreamError::UnsupportedProtocol(message)) => {
                    tracing::debug!(
                        message,
                        "the runtime does not support WebSocket streaming version 5; using SPDY"
                    );
                    self.uses_spdy.store(true, Ordering::Relaxed);
                }
            }
        }
        let url = self.streaming_url(id, spec, purpose).await?;
        match streaming::open(&url, StreamProtocol::Spdy, spec, purpose).await {
            Ok(attached) => Ok(attached),
            Err(StreamError::Error(error)) => Err(error),
            Err(StreamError::UnsupportedProtocol(message)) => {
                // The runtime may have been upgraded: try WebSockets next time.
                self.uses_spdy.store(false, Ordering::Relaxed);
                Err(RuntimeError::Unsupported(format!(
                    "the runtime supports neither WebSockets (v5.channel.k8s.io) nor SPDY for streams: {message}"
                )))
            }
        }
    }

    async fn streaming_url(
        &self,
        id: &ContainerId,
        spec: &ExecSpec,
        purpose: StreamPurpose,
    ) -> Result<String, RuntimeError> {
        // A terminal has no stderr, and runtimes reject the request for it.
        let stderr = spec.stderr && !spec.tty;
        let response: messages::StreamingUrl = match purpose {
            StreamPurpose::Exec => {
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
            StreamPurpose::Attach => {
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
        Ok(response.url)
    }

    pub(super) async fn forward_port(
        &self,
        id: &SandboxId,
        port: u16,
    ) -> Result<Box<dyn PortStream>, RuntimeError> {
        let process = self
            .sandbox_process(id)
            .await?
            .ok_or_else(|| RuntimeError::NotFound(format!("sandbox {id} has no running process")))?;
        let stream = connect_in_network_namespace(process, port)
            .await
            .map_err(|error| {
                RuntimeError::OperationFailed(format!(
                    "failed to connect to localhost:{port} inside sandbox {id}: {error}"
                ))
            })?;
        Ok(Box::new(stream))
    }

    /// Returns a process in the namespaces of a sandbox: its own, or that of a container where sandboxes have no process (CRI-O).
    pub(super) async fn sandbox_process(&self, id: &SandboxId) -> Result<Option<u32>, RuntimeError> {
        let Some(answer) = self.sandbox_status(&id.0, StatusDetail::Verbose).await? else {
            return Ok(None);
        };
        // The PID of an exited process may have been reused.
        let state = answer.status.map(|status| convert::sandbox_state(status.state));
        if state != Some(SandboxState::Ready) {
            return Ok(None);
        }
        if let Some(process) = pid(answer.info.get("info")) {
            return Ok(Some(process));
        }
        for container in self.list_own_containers("", &id.0).await? {
            if let Some(process) = self.container_process(&container).await? {
                return Ok(Some(process));
            }
        }
        Ok(None)
    }

    /// Returns the first process of a running container.
    pub(super) async fn container_process(
        &self,
        container: &messages::Container,
    ) -> Result<Option<u32>, RuntimeError> {
        if container.state != i32::from(messages::ContainerState::Running) {
            return Ok(None);
        }
        if let Some(process) = self.status_cache.process(&container.id) {
            return Ok(Some(process));
        }
        let answer = self
            .container_status_response(&container.id, StatusDetail::Verbose)
            .await?;
        let process = answer.and_then(|answer| pid(answer.info.get("info")));
        if let Some(process) = process {
            self.status_cache.insert_process(&container.id, process);
        }
        Ok(process)
    }
}

/// Parses the PID in the verbose info of containerd and CRI-O.
fn pid(info: Option<&String>) -> Option<u32> {
    let info: Value = serde_json::from_str(info?).ok()?;
    let pid = info.get("pid")?.as_u64()?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::pid;

    #[test]
    fn parses_pid_of_verbose_info() {
        let parse = |text: &str| pid(Some(&text.to_owned()));
        assert_eq!(parse(r#"{"pid":42,"runtimeSpec":{}}"#), Some(42));
        assert_eq!(parse(r#"{"runtimeSpec":{}}"#), None);
        assert_eq!(parse(r#"{"pid":0}"#), None);
        assert_eq!(parse("no json"), None);
        assert_eq!(pid(None), None);
    }
}
