//! `k3 exec`: runs a command in a container over WebSocket.

mod terminal;

use std::io::{IsTerminal, Write, stderr, stdout};

use clap::Args;
use futures_util::{SinkExt, StreamExt};
use rustix::termios::tcgetwinsize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use self::terminal::{RawTerminal, StdinReader};
use super::logs::select_container;
use crate::{
    api_resource::{escape, with_query},
    connection::ConnectFlags,
    error::ClientError,
    session::{CommandSession, is_stdin_terminal},
};

const PROTOCOLS: &str = "v5.channel.k8s.io, v4.channel.k8s.io";
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// Run a command in a container
#[derive(Debug, Args)]
pub struct ExecFlags {
    /// Pod, or a resource that selects pods: `web-1`, `deployment/web`
    #[arg(value_name = "POD|TYPE/NAME")]
    what: String,

    /// Container name [default: the kubectl.kubernetes.io/default-container annotation, or the first container]
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,

    /// Pass stdin to the container
    #[arg(short = 'i', long)]
    stdin: bool,

    /// Stdin is a TTY
    #[arg(short, long)]
    tty: bool,

    /// Command and arguments to run in the container, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TerminalUse {
    /// The terminal of the user is that of the command.
    Interactive,
    None,
}

// --- ExecFlags ---

impl ExecFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let pods = session.pods_of(&self.what).await?;
        let pod = pods.iter().find(|pod| pod["status"]["phase"] == "Running");
        let pod = pod
            .or(pods.first())
            .ok_or_else(|| ClientError::new("no pod found"))?;
        if let Some(phase @ ("Succeeded" | "Failed")) = pod["status"]["phase"].as_str() {
            return Err(ClientError::new(format!(
                "cannot exec into a container in a completed pod; current phase is {phase}"
            )));
        }
        let container = select_container(pod, self.container.as_deref())?;
        let terminal = if self.tty && self.stdin && is_stdin_terminal() {
            TerminalUse::Interactive
        } else {
            TerminalUse::None
        };
        let is_tty = terminal == TerminalUse::Interactive;
        if self.tty && !is_tty {
            eprintln!("Unable to use a TTY - input is not a terminal or the right kind of file");
        }
        let (connection, protocol) = session
            .api
            .upgrade(&self.path(pod, &container, terminal), PROTOCOLS)
            .await?;
        let socket = WebSocketStream::from_raw_socket(connection, Role::Client, None).await;
        // From here the terminal is in raw mode; dropping the value restores it.
        let _raw = is_tty.then(RawTerminal::enter).transpose()?;
        let status = self.stream(session, socket, terminal, &protocol).await?;
        exit_status(&status)
    }

    fn path(&self, pod: &Value, container: &str, terminal: TerminalUse) -> String {
        let is_tty = terminal == TerminalUse::Interactive;
        let text = |name: &str| escape(pod["metadata"][name].as_str().unwrap_or_default());
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/exec",
            text("namespace"),
            text("name")
        );
        let flag = |is_set: bool| is_set.then(|| "true".to_owned());
        let mut query: Vec<(&str, Option<String>)> = self
            .command
            .iter()
            .map(|argument| ("command", Some(argument.clone())))
            .collect();
        query.extend([
            ("container", Some(container.to_owned())),
            ("stdin", flag(self.stdin)),
            ("stdout", flag(true)),
            // A TTY merges stdout and stderr.
            ("stderr", flag(!is_tty)),
            ("tty", flag(is_tty)),
        ]);
        with_query(&path, &query)
    }

    // upstream: staging/src/k8s.io/client-go/tools/remotecommand/websocket.go StreamWithContext
    /// Transfers the streams until the command ends. Returns the final `Status`.
    async fn stream<S>(
        &self,
        session: &CommandSession,
        socket: WebSocketStream<S>,
        terminal: TerminalUse,
        protocol: &str,
    ) -> Result<Value, ClientError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let is_tty = terminal == TerminalUse::Interactive;
        // Older servers know no message for the end of stdin.
        let can_close = protocol.starts_with("v5");
        let cut =
            |error: &dyn std::error::Error| ClientError::new(format!("the connection was cut: {error}"));
        let (mut sink, mut source) = socket.split();
        let mut input = self.stdin.then(StdinReader::open);
        let mut resized = signal(SignalKind::window_change())?;
        let mut status = Value::Null;
        if is_tty && let Some(size) = size() {
            sink.send(message(RESIZE, &size))
                .await
                .map_err(|error| cut(&error))?;
        }
        loop {
            let outgoing = tokio::select! {
                incoming = source.next() => {
                    match incoming {
                        // Without a status the outcome of the command is unknown.
                        None | Some(Ok(Message::Close(_))) if status.is_null() => {
                            return Err(ClientError::new("the connection ended before the command did"));
                        }
                        None | Some(Ok(Message::Close(_))) => return Ok(status),
                        Some(Ok(Message::Binary(bytes))) => receive(session, &bytes, &mut status)?,
                        Some(Ok(_)) => {}
                        // Some servers close the connection without a close frame once the status was sent.
                        Some(Err(_)) if !status.is_null() => return Ok(status),
                        Some(Err(error)) => return Err(cut(&error)),
                    }
                    None
                }
                typed = StdinReader::next(&mut input) => if let Some(bytes) = typed {
                    Some(message(STDIN, &bytes))
                } else {
                    input = None;
                    can_close.then(|| message(CLOSE, &[STDIN]))
                },
                _ = resized.recv(), if is_tty => size().map(|size| message(RESIZE, &size)),
            };
            if let Some(outgoing) = outgoing
                && let Err(error) = sink.send(outgoing).await
                && status.is_null()
            {
                return Err(cut(&error));
            }
        }
    }
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    Message::Binary([&[channel], bytes].concat().into())
}

/// Writes received bytes to the output of their channel.
fn receive(session: &CommandSession, bytes: &[u8], status: &mut Value) -> Result<(), ClientError> {
    match bytes.split_first() {
        Some((&STDOUT, bytes)) => session.show(|screen| screen.write_all(bytes)),
        Some((&STDERR, bytes)) => Ok(stderr().write_all(bytes)?),
        Some((&STATUS, bytes)) => {
            *status = k3_decode::from_slice(bytes).map_err(|error| {
                ClientError::new(format!("the server sent an invalid exit status: {error}"))
            })?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the size of the terminal as a resize message.
fn size() -> Option<Vec<u8>> {
    let stdout = stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = tcgetwinsize(&stdout).ok()?;
    Some(
        json!({"Width": size.ws_col, "Height": size.ws_row})
            .to_string()
            .into_bytes(),
    )
}

/// Converts the final `Status` to the command's exit code.
fn exit_status(status: &Value) -> Result<(), ClientError> {
    if status["status"] == "Success" {
        return Ok(());
    }
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let mut codes = causes.filter(|cause| cause["reason"] == "ExitCode");
    let code = codes
        .next()
        .and_then(|cause| cause["message"].as_str()?.parse::<i32>().ok());
    match code {
        Some(code) => {
            let text = format!("command terminated with exit code {code}");
            // The system keeps eight bits of a code; a failure must not become a success.
            let code = u8::try_from(code & 255).unwrap_or(1).max(1);
            Err(ClientError::with_code(text, code))
        }
        None => Err(ClientError::server(status.clone(), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_exit_code_of_the_command() {
        assert!(exit_status(&json!({"status": "Success"})).is_ok());
        let failed = exit_status(
            &json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [
            {"reason": "ExitCode", "message": "3"}]}}),
        )
        .unwrap_err();
        assert_eq!(
            (failed.code(), failed.to_string().as_str()),
            (3, "command terminated with exit code 3")
        );
        let of_code = |code: &str| {
            let status = json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [
                {"reason": "Other", "message": "9"}, {"reason": "ExitCode", "message": code}]}});
            exit_status(&status).unwrap_err().code()
        };
        assert_eq!(
            (of_code("137"), of_code("256"), of_code("-1"), of_code("x")),
            (137, 1, 255, 1)
        );
        let failed =
            exit_status(&json!({"status": "Failure", "reason": "InternalError", "message": "no such file"}))
                .unwrap_err();
        assert_eq!(
            failed.to_string(),
            "Error from server (InternalError): no such file"
        );
        assert_eq!(failed.code(), 1);
    }
}
