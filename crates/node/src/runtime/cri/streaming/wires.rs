//! The ends of a process's streams: ours, and those of whoever attached.

use std::pin::Pin;

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, duplex},
    sync::mpsc,
};

use crate::runtime::{ExecSpec, TerminalSize};

/// What may be on its way in each direction.
const BUFFER: usize = 64 << 10;

/// Our ends.
pub(super) struct Wires {
    pub(super) stdin: Option<DuplexStream>,
    pub(super) outputs: Outputs,
    pub(super) resize: Option<mpsc::Receiver<TerminalSize>>,
}

/// Where output goes.
pub(super) struct Outputs {
    pub(super) stdout: Option<DuplexStream>,
    pub(super) stderr: Option<DuplexStream>,
}

/// Theirs.
pub(super) struct Ends {
    pub(super) stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    pub(super) stdout: Option<Pin<Box<dyn AsyncRead + Send>>>,
    pub(super) stderr: Option<Pin<Box<dyn AsyncRead + Send>>>,
    pub(super) resize: Option<mpsc::Sender<TerminalSize>>,
}

/// Both ends of what is asked for.
pub(super) fn wires(spec: &ExecSpec) -> (Wires, Ends) {
    let pair = |wanted: bool| wanted.then(|| duplex(BUFFER)).unzip();
    let (our_stdin, stdin) = pair(spec.stdin);
    let (our_stdout, stdout) = pair(spec.stdout);
    let (our_stderr, stderr) = pair(spec.stderr && !spec.tty);
    let (resize, our_resize) = spec.tty.then(|| mpsc::channel(4)).unzip();
    let ours = Wires {
        stdin: our_stdin,
        outputs: Outputs {
            stdout: our_stdout,
            stderr: our_stderr,
        },
        resize: our_resize,
    };
    let theirs = Ends {
        stdin: stdin.map(|end| Box::pin(end) as _),
        stdout: stdout.map(|end| Box::pin(end) as _),
        stderr: stderr.map(|end| Box::pin(end) as _),
        resize,
    };
    (ours, theirs)
}

/// The next size of the terminal; for ever if there is none.
pub(super) async fn next_size(resize: &mut Option<mpsc::Receiver<TerminalSize>>) -> TerminalSize {
    if let Some(sizes) = resize
        && let Some(size) = sizes.recv().await
    {
        return size;
    }
    *resize = None;
    std::future::pending().await
}

/// The size as it is told.
pub(super) fn size_text(size: TerminalSize) -> String {
    format!("{{\"Width\":{},\"Height\":{}}}", size.width, size.height)
}

// --- Outputs ---

impl Outputs {
    /// Hands output on. Whoever no longer listens misses it, and the process goes on.
    pub(super) async fn write(output: &mut Option<DuplexStream>, bytes: &[u8]) {
        if let Some(end) = output
            && end.write_all(bytes).await.is_err()
        {
            *output = None;
        }
    }
}
