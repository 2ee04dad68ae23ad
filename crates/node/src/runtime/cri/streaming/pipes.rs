//! Pipes between the runtime's connection and the caller's [`ProcessStreams`](crate::runtime::ProcessStreams).

use std::pin::Pin;

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, duplex},
    sync::mpsc,
};

use crate::runtime::{ExecSpec, TerminalSize};

/// Pipe buffer size.
const BUFFER: usize = 64 << 10;

/// The ends for the runtime's connection.
pub(super) struct RuntimeEnds {
    pub(super) stdin: Option<DuplexStream>,
    pub(super) outputs: OutputPipes,
    pub(super) resize: Option<mpsc::Receiver<TerminalSize>>,
}

/// Pipes to the caller; `None` if the caller dropped its end or did not want the stream.
pub(super) struct OutputPipes {
    pub(super) stdout: Option<DuplexStream>,
    pub(super) stderr: Option<DuplexStream>,
}

/// The ends for the caller.
pub(super) struct ClientEnds {
    pub(super) stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    pub(super) stdout: Option<Pin<Box<dyn AsyncRead + Send>>>,
    pub(super) stderr: Option<Pin<Box<dyn AsyncRead + Send>>>,
    pub(super) resize: Option<mpsc::Sender<TerminalSize>>,
}

/// Creates the pipes that a spec requests.
pub(super) fn create_pipes(spec: &ExecSpec) -> (RuntimeEnds, ClientEnds) {
    let pair = |is_requested: bool| is_requested.then(|| duplex(BUFFER)).unzip();
    let (our_stdin, stdin) = pair(spec.stdin);
    let (our_stdout, stdout) = pair(spec.stdout);
    let (our_stderr, stderr) = pair(spec.stderr && !spec.tty);
    let (resize, our_resize) = spec.tty.then(|| mpsc::channel(4)).unzip();
    let runtime_ends = RuntimeEnds {
        stdin: our_stdin,
        outputs: OutputPipes {
            stdout: our_stdout,
            stderr: our_stderr,
        },
        resize: our_resize,
    };
    let client_ends = ClientEnds {
        stdin: stdin.map(|end| Box::pin(end) as _),
        stdout: stdout.map(|end| Box::pin(end) as _),
        stderr: stderr.map(|end| Box::pin(end) as _),
        resize,
    };
    (runtime_ends, client_ends)
}

/// Returns the next terminal size; pending forever without a terminal.
pub(super) async fn next_size(resize: &mut Option<mpsc::Receiver<TerminalSize>>) -> TerminalSize {
    if let Some(sizes) = resize
        && let Some(size) = sizes.recv().await
    {
        return size;
    }
    *resize = None;
    std::future::pending().await
}

/// Formats a size as the resize channel expects it.
pub(super) fn size_text(size: TerminalSize) -> String {
    format!("{{\"Width\":{},\"Height\":{}}}", size.width, size.height)
}

// --- OutputPipes ---

impl OutputPipes {
    /// Writes output. If the reader was dropped, the output is discarded and the process continues.
    pub(super) async fn write(output: &mut Option<DuplexStream>, bytes: &[u8]) {
        if let Some(end) = output
            && end.write_all(bytes).await.is_err()
        {
            *output = None;
        }
    }
}
