//! A connection that was taken over, as the streams of a process.

use std::{convert::Infallible, future::pending, io, sync::Arc};

use futures_util::FutureExt;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, duplex, split},
    sync::mpsc,
};

use crate::runtime::{
    Attached, ExecSpec, LogStream, RuntimeError, TerminalSize,
    engine::{
        client::{Client, QUICK, query},
        frames::Frames,
    },
};

/// What waits between the engine and a reader that is slower.
const PIPE: usize = 64 << 10;

/// Tells the engine how large a terminal is.
pub(super) struct Resizing {
    client: Arc<Client>,
    path: String,
}

/// Where output goes. `None` once nobody reads it, or from the start.
struct Outputs {
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
}

/// The streams; once they have ended, `end` tells the code.
pub(super) fn attached(
    upgraded: Upgraded,
    spec: &ExecSpec,
    resizing: Resizing,
    end: impl Future<Output = Result<i32, RuntimeError>> + Send + 'static,
) -> Attached {
    let (reader, writer) = split(TokioIo::new(upgraded));
    let pipe = |is_wanted: bool| is_wanted.then(|| duplex(PIPE)).unzip();
    let (stdout_writer, stdout) = pipe(spec.stdout);
    let (stderr_writer, stderr) = pipe(spec.stderr && !spec.tty);
    let (sizes, new_sizes) = mpsc::channel(4);
    let outputs = Outputs {
        stdout: stdout_writer,
        stderr: stderr_writer,
    };
    let frames = Frames::new(spec.tty);
    let done = async move {
        tokio::select! {
            moved = move_output(reader, frames, outputs) => moved.map_err(|error| {
                RuntimeError::Refused(format!("the stream of a process broke: {error}"))
            })?,
            _ = resizing.run(new_sizes) => {}
        }
        end.await
    };
    Attached {
        stdin: spec.stdin.then(|| Box::pin(writer) as _),
        stdout: stdout.map(|stream| Box::pin(stream) as _),
        stderr: stderr.map(|stream| Box::pin(stream) as _),
        resize: spec.tty.then_some(sizes),
        done: done.boxed(),
    }
}

async fn move_output(
    mut reader: ReadHalf<TokioIo<Upgraded>>,
    mut frames: Frames,
    mut outputs: Outputs,
) -> io::Result<()> {
    let mut buffer = vec![0; 32 << 10];
    loop {
        let length = match reader.read(&mut buffer).await {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            // Podman ends a stream by closing it under us.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        };
        frames.push(&buffer[..length]);
        while let Some((stream, bytes)) = frames.next() {
            let output = match stream {
                LogStream::Stdout => &mut outputs.stdout,
                LogStream::Stderr => &mut outputs.stderr,
            };
            if let Some(pipe) = output
                && pipe.write_all(&bytes).await.is_err()
            {
                // Its reader went away; the process goes on.
                *output = None;
            }
        }
    }
}

// --- Resizing ---

impl Resizing {
    pub(super) fn new(client: Arc<Client>, path: String) -> Self {
        Self { client, path }
    }

    /// Passes sizes on. Never ends: the end of sizes is not the end of the process.
    async fn run(self, mut sizes: mpsc::Receiver<TerminalSize>) -> Infallible {
        while let Some(size) = sizes.recv().await {
            let height = size.height.to_string();
            let width = size.width.to_string();
            let path = format!(
                "{}{}",
                self.path,
                query([("h", height.as_str()), ("w", width.as_str())])
            );
            // A terminal of the wrong size is still a terminal.
            if let Err(error) = self.client.order(&path, QUICK).await {
                tracing::debug!(%error, "cannot tell a terminal its size");
            }
        }
        pending().await
    }
}
