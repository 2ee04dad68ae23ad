//! Copies data between a client and a process, independent of the transport.
//!
//! Promises: data is forwarded immediately, and read only as fast as the other side accepts it. Closing stdin of the client closes
//! stdin of the process. The session ends when the process has exited and its output was sent.

use std::{io, pin::Pin};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::future::OptionFuture;
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use super::status::{RemoteCommand, StatusFormat, encode_status};
use crate::runtime::{ProcessStreams, RuntimeError, TerminalSize};

/// Maximum size of a chunk of output.
const CHUNK_SIZE: usize = 32 << 10;
/// Maximum size of a resize event in JSON.
const MAX_RESIZE_EVENT: usize = 1024;

/// Data from the client on one channel. Ends when the client closes the channel or disconnects.
pub(super) type ChannelInput = mpsc::Receiver<Bytes>;

/// Writer of one channel to the client.
#[async_trait]
pub(super) trait ChannelOutput: Send + Sync {
    /// Sends data.
    async fn write(&self, bytes: Bytes) -> io::Result<()>;

    /// Closes the channel.
    async fn close(&self) -> io::Result<()>;
}

/// The channels of a client; `None` for those it did not request.
pub(super) struct Channels {
    pub stdin: Option<ChannelInput>,
    pub stdout: Option<Box<dyn ChannelOutput>>,
    pub stderr: Option<Box<dyn ChannelOutput>>,
    pub error: Box<dyn ChannelOutput>,
    pub resize: Option<ChannelInput>,
    pub status_format: StatusFormat,
}

/// A terminal resize event.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct ResizeEvent {
    width: u16,
    height: u16,
}

/// Copies data between a client and a process until the process exits, then sends the exit status.
pub(super) async fn copy_channels(
    channels: Channels,
    attached: Result<ProcessStreams, RuntimeError>,
    command: &RemoteCommand,
) -> io::Result<()> {
    let Channels {
        stdin,
        stdout,
        stderr,
        error,
        resize,
        status_format,
    } = channels;
    let result = match attached {
        Err(error) => Err(error),
        Ok(attached) => {
            let ProcessStreams {
                stdin: input,
                stdout: output,
                stderr: errors,
                resize: terminal,
                done,
            } = attached;
            let incoming = async {
                tokio::join!(
                    OptionFuture::from(stdin.map(|from| copy_stdin(from, input))),
                    OptionFuture::from(resize.map(|from| handle_resize_events(from, terminal))),
                );
                // The process keeps running after the end of its input.
                std::future::pending().await
            };
            let outgoing = async {
                let (exit, output, errors) = tokio::join!(
                    done,
                    copy_output(output, stdout.as_deref()),
                    copy_output(errors, stderr.as_deref())
                );
                output.and(errors).map(|()| exit)
            };
            tokio::select! {
                result = outgoing => result?,
                result = incoming => result,
            }
        }
    };
    if let Some(status) = encode_status(command, &result, status_format) {
        error.write(status.into()).await?;
    }
    for output in [stdout, stderr, Some(error)].into_iter().flatten() {
        output.close().await?;
    }
    Ok(())
}

/// Copies input of the client to stdin of the process.
async fn copy_stdin(mut from: ChannelInput, to: Option<Pin<Box<dyn AsyncWrite + Send>>>) {
    let Some(mut to) = to else {
        // Drain the input: a full channel would block the other channels of the connection.
        while from.recv().await.is_some() {}
        return;
    };
    while let Some(bytes) = from.recv().await {
        // A process that has closed its stdin keeps running.
        if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
    drop(to);
    while from.recv().await.is_some() {}
}

/// Copies output of the process to the client.
async fn copy_output(
    from: Option<Pin<Box<dyn AsyncRead + Send>>>,
    to: Option<&dyn ChannelOutput>,
) -> io::Result<()> {
    let Some(mut from) = from else {
        return Ok(());
    };
    let mut buffer = BytesMut::with_capacity(CHUNK_SIZE);
    loop {
        buffer.reserve(CHUNK_SIZE);
        // A read error ends the output; the exit status follows.
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) => {
                while !buffer.is_empty() {
                    let chunk = buffer.split_to(buffer.len().min(CHUNK_SIZE)).freeze();
                    if let Some(to) = to {
                        to.write(chunk).await?;
                    }
                }
            }
        }
    }
}

/// Forwards resize events: a sequence of JSON objects, which may be split across messages.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand/httpstream.go handleResizeEvents
async fn handle_resize_events(mut from: ChannelInput, to: Option<mpsc::Sender<TerminalSize>>) {
    let mut text = BytesMut::new();
    while let Some(bytes) = from.recv().await {
        text.extend_from_slice(&bytes);
        let mut texts = serde_json::Deserializer::from_slice(&text).into_iter::<ResizeEvent>();
        let mut read = 0;
        let mut is_invalid = false;
        let mut last = None;
        for size in texts.by_ref() {
            match size {
                Ok(size) => last = Some(size),
                Err(error) => {
                    is_invalid = !error.is_eof();
                    break;
                }
            }
        }
        if let Some(ResizeEvent { width, height }) = last {
            read = texts.byte_offset();
            if let Some(to) = &to {
                let _ = to.send(TerminalSize { width, height }).await;
            }
        }
        let _ = text.split_to(read.min(text.len()));
        if is_invalid || text.len() > MAX_RESIZE_EVENT {
            break;
        }
    }
    while from.recv().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use parking_lot::Mutex;
    use tokio::io::duplex;

    use super::*;

    #[derive(Clone, Default)]
    struct RecordedOutput(Arc<Mutex<Vec<u8>>>);

    #[async_trait]
    impl ChannelOutput for RecordedOutput {
        async fn write(&self, bytes: Bytes) -> io::Result<()> {
            self.0.lock().extend(bytes);
            Ok(())
        }

        async fn close(&self) -> io::Result<()> {
            self.0.lock().extend(b"|");
            Ok(())
        }
    }

    impl RecordedOutput {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    #[tokio::test]
    async fn copies_both_ways_and_reports_exit_code() {
        let (client, stdin) = mpsc::channel(4);
        let (sizes, resize) = mpsc::channel(4);
        let (terminal, mut seen) = mpsc::channel(4);
        let (input, mut process_input) = duplex(64);
        let (mut process_output, output) = duplex(64);
        let out = RecordedOutput::default();
        let error = RecordedOutput::default();
        let process = async move {
            let mut all = Vec::new();
            process_input.read_to_end(&mut all).await.unwrap();
            process_output.write_all(b"got ").await.unwrap();
            process_output.write_all(&all).await.unwrap();
            Ok(7)
        };
        let attached = ProcessStreams {
            stdin: Some(Box::pin(input)),
            stdout: Some(Box::pin(output)),
            stderr: None,
            resize: Some(terminal),
            done: process.boxed(),
        };
        let channels = Channels {
            stdin: Some(stdin),
            stdout: Some(Box::new(out.clone())),
            stderr: None,
            error: Box::new(error.clone()),
            resize: Some(resize),
            status_format: StatusFormat::Json,
        };
        sizes
            .send(Bytes::from_static(b"{\"Width\":80,\"Height\":24}\n{\"Wid"))
            .await
            .unwrap();
        sizes
            .send(Bytes::from_static(b"th\":1,\"Height\":2}"))
            .await
            .unwrap();
        client.send(Bytes::from_static(b"hello")).await.unwrap();
        drop(client);
        let command = RemoteCommand::Exec(vec!["cat".to_owned()]);
        copy_channels(channels, Ok(attached), &command).await.unwrap();
        assert_eq!(out.text(), "got hello|");
        assert!(error.text().contains("\"message\":\"7\""), "{}", error.text());
        assert!(error.text().ends_with('|'));
        let size = |width, height| Some(TerminalSize { width, height });
        assert_eq!(seen.recv().await, size(80, 24));
        assert_eq!(seen.recv().await, size(1, 2));
    }

    #[tokio::test]
    async fn write_error_ends_session() {
        struct FailingOutput;
        #[async_trait]
        impl ChannelOutput for FailingOutput {
            async fn write(&self, _: Bytes) -> io::Result<()> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            async fn close(&self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut process, output) = duplex(64);
        process.write_all(b"x").await.unwrap();
        drop(process);
        let attached = ProcessStreams {
            stdin: None,
            stdout: Some(Box::pin(output)),
            stderr: None,
            resize: None,
            done: async { Ok(0) }.boxed(),
        };
        let channels = Channels {
            stdin: None,
            stdout: Some(Box::new(FailingOutput)),
            stderr: None,
            error: Box::new(FailingOutput),
            resize: None,
            status_format: StatusFormat::Text,
        };
        assert!(
            copy_channels(channels, Ok(attached), &RemoteCommand::Attach)
                .await
                .is_err()
        );
    }
}
