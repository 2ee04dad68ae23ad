//! Streams of container processes: exec, attach, port forwarding and logs.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use super::RuntimeError;

/// A command to exec in a container, or the streams to attach to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "clients request each stream independently"
)]
pub struct ExecSpec {
    /// Command; empty for attach.
    pub command: Vec<String>,
    /// Whether to allocate a terminal. A terminal has no stderr stream.
    pub tty: bool,
    /// Whether to attach stdin.
    pub stdin: bool,
    /// Whether to attach stdout.
    pub stdout: bool,
    /// Whether to attach stderr.
    pub stderr: bool,
}

/// Output and exit code of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Exit code.
    pub code: i32,
    /// Stdout. Implementations keep at most 16 MiB of each output.
    pub stdout: Vec<u8>,
    /// Stderr.
    pub stderr: Vec<u8>,
}

/// Streams of a process.
pub struct ProcessStreams {
    /// Stdin; shutting it down sends the end of input.
    pub stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// Stdout; with a terminal also stderr.
    pub stdout: Option<Pin<Box<dyn AsyncRead + Send>>>,
    /// Stderr.
    pub stderr: Option<Pin<Box<dyn AsyncRead + Send>>>,
    /// New terminal sizes.
    pub resize: Option<mpsc::Sender<TerminalSize>>,
    /// Exit code, after the process has exited. Poll it for the streams to make progress; dropping it does not stop the process.
    pub done: BoxFuture<'static, Result<i32, RuntimeError>>,
}

/// Terminal size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// Connection to a port of a pod.
pub trait PortStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> PortStream for T {}

/// Options of a log request, as in `PodLogOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Continue until the container exits.
    pub follow: bool,
    /// Only this number of last lines.
    pub tail: Option<u64>,
    /// Only lines written at or after this time.
    pub since: Option<Timestamp>,
    /// Only one of the two streams.
    pub stream: Option<LogStream>,
}

/// Output stream of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A log line, or a part of a long line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Time of writing.
    pub time: Timestamp,
    /// Output stream.
    pub stream: LogStream,
    /// Bytes, with a trailing newline unless the line continues in the next entry.
    pub bytes: Bytes,
}
