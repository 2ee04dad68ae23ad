//! `k3 exec`: a command in a container, with the terminal of this one.

mod keyboard;

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

use self::keyboard::{Keyboard, RawTerminal};
use super::logs::container;
use crate::{
    connection::ConnectFlags,
    failed::Failed,
    resource::{escape, with_query},
    session::{Session, is_typed},
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
    /// Pod, or what has pods: `web-1`, `deployment/web`
    #[arg(value_name = "POD|TYPE/NAME")]
    what: String,

    /// Container [default: the first, or the one that the pod's annotation names]
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,

    /// Send standard input to the command
    #[arg(short = 'i', long)]
    stdin: bool,

    /// The command has a terminal
    #[arg(short, long)]
    tty: bool,

    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- ExecFlags ---

impl ExecFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        let pods = session.pods_of(&self.what).await?;
        let pod = pods.iter().find(|pod| pod["status"]["phase"] == "Running");
        let pod = pod
            .or(pods.first())
            .ok_or_else(|| Failed::new("there is no pod"))?;
        if let Some(phase @ ("Succeeded" | "Failed")) = pod["status"]["phase"].as_str() {
            return Err(Failed::new(format!(
                "cannot exec into a container in a completed pod; current phase is {phase}"
            )));
        }
        let container = container(pod, self.container.as_deref())?;
        let is_tty = self.tty && self.stdin && is_typed();
        if self.tty && !is_tty {
            eprintln!("Unable to use a TTY - input is not a terminal or the right kind of file");
        }
        let (connection, protocol) = session
            .api
            .upgrade(&self.path(pod, &container, is_tty), PROTOCOLS)
            .await?;
        let socket = WebSocketStream::from_raw_socket(connection, Role::Client, None).await;
        // From here on the terminal is the command's, until this is dropped.
        let _raw = is_tty.then(RawTerminal::enter).transpose()?;
        let status = self
            .talk(session, socket, is_tty, protocol.starts_with("v5"))
            .await?;
        outcome(&status)
    }

    fn path(&self, pod: &Value, container: &str, is_tty: bool) -> String {
        let text = |name: &str| escape(pod["metadata"][name].as_str().unwrap_or_default());
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/exec",
            text("namespace"),
            text("name")
        );
        let yes = |is_so: bool| is_so.then(|| "true".to_owned());
        let mut query: Vec<(&str, Option<String>)> = self
            .command
            .iter()
            .map(|word| ("command", Some(word.clone())))
            .collect();
        query.extend([
            ("container", Some(container.to_owned())),
            ("stdin", yes(self.stdin)),
            ("stdout", yes(true)),
            // A terminal has one output.
            ("stderr", yes(!is_tty)),
            ("tty", yes(is_tty)),
        ]);
        with_query(&path, &query)
    }

    /// Carries bytes both ways until the command ends; what became of it.
    async fn talk<S>(
        &self,
        session: &Session,
        socket: WebSocketStream<S>,
        is_tty: bool,
        can_close: bool,
    ) -> Result<Value, Failed>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let cut = |error: &dyn std::error::Error| Failed::new(format!("the connection was cut: {error}"));
        let (mut sink, mut source) = socket.split();
        let mut keyboard = self.stdin.then(Keyboard::open);
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
                        // Who is told nothing does not know how the command ended.
                        None | Some(Ok(Message::Close(_))) if status.is_null() => {
                            return Err(Failed::new("the connection ended before the command did"));
                        }
                        None | Some(Ok(Message::Close(_))) => return Ok(status),
                        Some(Ok(Message::Binary(bytes))) => receive(session, &bytes, &mut status)?,
                        Some(Ok(_)) => {}
                        // Servers cut the line when the command has ended.
                        Some(Err(_)) if !status.is_null() => return Ok(status),
                        Some(Err(error)) => return Err(cut(&error)),
                    }
                    None
                }
                typed = Keyboard::next(&mut keyboard) => if let Some(bytes) = typed {
                    Some(message(STDIN, &bytes))
                } else {
                    keyboard = None;
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

/// What came on a channel goes where it belongs.
fn receive(session: &Session, bytes: &[u8], status: &mut Value) -> Result<(), Failed> {
    match bytes.split_first() {
        Some((&STDOUT, bytes)) => session.show(|screen| screen.write_all(bytes)),
        Some((&STDERR, bytes)) => Ok(stderr().write_all(bytes)?),
        Some((&STATUS, bytes)) => {
            *status = k3_decode::from_slice(bytes).unwrap_or_default();
            Ok(())
        }
        _ => Ok(()),
    }
}

/// How large the terminal is, as the other side wants to hear it.
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

/// What a command ended with.
fn outcome(status: &Value) -> Result<(), Failed> {
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
            Err(Failed::with_code(text, u8::try_from(code & 255).unwrap_or(1)))
        }
        None => Err(Failed::server(status.clone(), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_command() {
        assert!(outcome(&json!({"status": "Success"})).is_ok());
        let failed = outcome(
            &json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [
            {"reason": "ExitCode", "message": "3"}]}}),
        )
        .unwrap_err();
        assert_eq!(
            (failed.code(), failed.to_string().as_str()),
            (3, "command terminated with exit code 3")
        );
        let failed =
            outcome(&json!({"status": "Failure", "reason": "InternalError", "message": "no such file"}))
                .unwrap_err();
        assert_eq!(
            failed.to_string(),
            "Error from server (InternalError): no such file"
        );
        assert_eq!(failed.code(), 1);
    }
}
