//! Bytes to and from a container.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use super::RuntimeError;

/// A command to be run in a container, or streams to be attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "which streams there are is what clients ask, each by itself"
)]
pub struct ExecSpec {
    /// The command; nothing for attaching.
    pub command: Vec<String>,
    /// Whether it has a terminal; then there is no standard error.
    pub tty: bool,
    /// Whether it is sent input.
    pub stdin: bool,
    /// Whether its output is wanted.
    pub stdout: bool,
    /// Whether its errors are wanted.
    pub stderr: bool,
}

/// What a command wrote, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Its exit code.
    pub code: i32,
    /// Its output. Implementations keep at most 16 MiB of each.
    pub stdout: Vec<u8>,
    /// Its errors.
    pub stderr: Vec<u8>,
}

/// The streams of a process.
pub struct Attached {
    /// Its input; shutting it down is the end of input.
    pub stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// Its output; with a terminal its errors, too.
    pub stdout: Option<Pin<Box<dyn AsyncRead + Send>>>,
    /// Its errors.
    pub stderr: Option<Pin<Box<dyn AsyncRead + Send>>>,
    /// Tells the terminal its size.
    pub resize: Option<mpsc::Sender<TerminalSize>>,
    /// Its exit code, once it has ended. Must be polled for the streams to move; dropping it leaves the process alone.
    pub done: BoxFuture<'static, Result<i32, RuntimeError>>,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Lines.
    pub height: u16,
}

/// A connection to a port of a pod.
pub trait PortStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> PortStream for T {}

/// Which part of a log is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on until the container ends.
    pub follow: bool,
    /// Only so many of the last lines.
    pub tail: Option<u64>,
    /// Only what was written since.
    pub since: Option<Timestamp>,
    /// Only one of the two streams.
    pub stream: Option<LogStream>,
}

/// Which of its outputs a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A line of a log, or a part of a long one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written.
    pub time: Timestamp,
    /// To which output.
    pub stream: LogStream,
    /// Its bytes, with the end of the line unless it is a part that goes on.
    pub bytes: Bytes,
}
