//! Streams of a process on a hijacked connection.

use std::{convert::Infallible, future::pending, io, sync::Arc};

use futures_util::FutureExt;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, duplex, split},
    sync::mpsc,
};

use crate::runtime::{
    ExecSpec, LogStream, ProcessStreams, RuntimeError, TerminalSize,
    docker::{
        client::{CALL_TIMEOUT, DockerClient, query_string},
        frames::FrameDecoder,
    },
};

/// Buffer between the engine and a slower reader.
const PIPE: usize = 64 << 10;

/// Sends terminal sizes to the engine.
pub(super) struct TerminalResizer {
    client: Arc<DockerClient>,
    path: String,
}

/// Pipes to the readers. `None` if a reader was dropped or did not want the stream.
struct OutputWriters {
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
}

/// Builds the streams; after they end, `end` returns the exit code.
pub(super) fn process_streams(
    upgraded: Upgraded,
    spec: &ExecSpec,
    resizing: TerminalResizer,
    end: impl Future<Output = Result<i32, RuntimeError>> + Send + 'static,
) -> ProcessStreams {
    let (reader, writer) = split(TokioIo::new(upgraded));
    let pipe = |is_wanted: bool| is_wanted.then(|| duplex(PIPE)).unzip();
    let (stdout_writer, stdout) = pipe(spec.stdout);
    let (stderr_writer, stderr) = pipe(spec.stderr && !spec.tty);
    let (sizes, new_sizes) = mpsc::channel(4);
    let outputs = OutputWriters {
        stdout: stdout_writer,
        stderr: stderr_writer,
    };
    let frames = if spec.tty {
        FrameDecoder::raw()
    } else {
        FrameDecoder::multiplexed()
    };
    let done = async move {
        tokio::select! {
            moved = move_output(reader, frames, outputs) => moved.map_err(|error| {
                RuntimeError::OperationFailed(format!("the stream of a process broke: {error}"))
            })?,
            _ = resizing.run(new_sizes) => {}
        }
        end.await
    };
    ProcessStreams {
        stdin: spec.stdin.then(|| Box::pin(writer) as _),
        stdout: stdout.map(|stream| Box::pin(stream) as _),
        stderr: stderr.map(|stream| Box::pin(stream) as _),
        resize: spec.tty.then_some(sizes),
        done: done.boxed(),
    }
}

async fn move_output(
    mut reader: ReadHalf<TokioIo<Upgraded>>,
    mut frames: FrameDecoder,
    mut outputs: OutputWriters,
) -> io::Result<()> {
    let mut buffer = vec![0; 32 << 10];
    loop {
        let length = match reader.read(&mut buffer).await {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            // Podman ends a stream by resetting the connection.
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
                // The reader was dropped; the process continues.
                *output = None;
            }
        }
    }
}

// --- TerminalResizer ---

impl TerminalResizer {
    pub(super) fn new(client: Arc<DockerClient>, path: String) -> Self {
        Self { client, path }
    }

    /// Forwards sizes. Never returns: the client may stop resizing while the process runs.
    async fn run(self, mut sizes: mpsc::Receiver<TerminalSize>) -> Infallible {
        while let Some(size) = sizes.recv().await {
            let height = size.height.to_string();
            let width = size.width.to_string();
            let path = format!(
                "{}{}",
                self.path,
                query_string([("h", height.as_str()), ("w", width.as_str())])
            );
            // A failed resize does not affect the process.
            if let Err(error) = self.client.post_empty(&path, CALL_TIMEOUT).await {
                tracing::debug!(%error, "failed to resize a terminal");
            }
        }
        pending().await
    }
}
