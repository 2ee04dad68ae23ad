//! What goes to and from a process, whatever carries it.
//!
//! Promises: bytes are moved as they come, and nobody is read faster than the other side takes it. The end of the client's input
//! is the end of the process's. The conversation is over when the process has ended and all it wrote was sent.

use std::{io, pin::Pin};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::future::OptionFuture;
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use super::outcome::{Style, Task, told};
use crate::runtime::{Attached, RuntimeError, TerminalSize};

/// The longest piece in which output is sent.
const PIECE: usize = 32 << 10;
/// The longest JSON text that tells the size of a terminal.
const LONGEST_SIZE: usize = 1024;

/// What a client sends on one channel; it ends when the client says so, or goes.
pub(super) type Input = mpsc::Receiver<Bytes>;

/// Where to answer on one channel.
#[async_trait]
pub(super) trait Output: Send + Sync {
    /// Sends some bytes.
    async fn write(&self, bytes: Bytes) -> io::Result<()>;

    /// Tells that no more will come.
    async fn close(&self) -> io::Result<()>;
}

/// The channels of a client. Those it did not ask for are not there.
pub(super) struct Channels {
    pub stdin: Option<Input>,
    pub stdout: Option<Box<dyn Output>>,
    pub stderr: Option<Box<dyn Output>>,
    pub error: Box<dyn Output>,
    pub resize: Option<Input>,
    pub style: Style,
}

/// The size of a terminal as clients tell it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Size {
    width: u16,
    height: u16,
}

/// Moves bytes between a client and a process until the process ends, then tells how.
pub(super) async fn carry(
    channels: Channels,
    attached: Result<Attached, RuntimeError>,
    task: &Task,
) -> io::Result<()> {
    let Channels {
        stdin,
        stdout,
        stderr,
        error,
        resize,
        style,
    } = channels;
    let ended = match attached {
        Err(error) => Err(error),
        Ok(attached) => {
            let Attached {
                stdin: input,
                stdout: output,
                stderr: errors,
                resize: terminal,
                done,
            } = attached;
            let incoming = async {
                tokio::join!(
                    OptionFuture::from(stdin.map(|from| feed(from, input))),
                    OptionFuture::from(resize.map(|from| sizes(from, terminal))),
                );
                // The process goes on without input.
                std::future::pending().await
            };
            let outgoing = async {
                let (ended, output, errors) = tokio::join!(
                    done,
                    send(output, stdout.as_deref()),
                    send(errors, stderr.as_deref())
                );
                output.and(errors).map(|()| ended)
            };
            tokio::select! {
                ended = outgoing => ended?,
                ended = incoming => ended,
            }
        }
    };
    if let Some(told) = told(task, &ended, style) {
        error.write(told.into()).await?;
    }
    for output in [stdout, stderr, Some(error)].into_iter().flatten() {
        output.close().await?;
    }
    Ok(())
}

/// Gives a process what its client sends.
async fn feed(mut from: Input, to: Option<Pin<Box<dyn AsyncWrite + Send>>>) {
    let Some(mut to) = to else {
        // Nobody reads it; but who is not listened to must not be held up.
        while from.recv().await.is_some() {}
        return;
    };
    while let Some(bytes) = from.recv().await {
        // A process that takes no more input goes on nevertheless.
        if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
    drop(to);
    while from.recv().await.is_some() {}
}

/// Sends what a process writes.
async fn send(from: Option<Pin<Box<dyn AsyncRead + Send>>>, to: Option<&dyn Output>) -> io::Result<()> {
    let Some(mut from) = from else {
        return Ok(());
    };
    let mut buffer = BytesMut::with_capacity(PIECE);
    loop {
        buffer.reserve(PIECE);
        // A container whose output cannot be read any more has none.
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) => {
                while !buffer.is_empty() {
                    let piece = buffer.split_to(buffer.len().min(PIECE)).freeze();
                    if let Some(to) = to {
                        to.write(piece).await?;
                    }
                }
            }
        }
    }
}

/// Tells the terminal the sizes that the client sends: one JSON text after the other.
async fn sizes(mut from: Input, to: Option<mpsc::Sender<TerminalSize>>) {
    let mut text = BytesMut::new();
    while let Some(bytes) = from.recv().await {
        text.extend_from_slice(&bytes);
        let mut texts = serde_json::Deserializer::from_slice(&text).into_iter::<Size>();
        let mut read = 0;
        let mut is_wrong = false;
        let mut last = None;
        for size in texts.by_ref() {
            match size {
                Ok(size) => last = Some(size),
                Err(error) => {
                    is_wrong = !error.is_eof();
                    break;
                }
            }
        }
        if let Some(Size { width, height }) = last {
            read = texts.byte_offset();
            if let Some(to) = &to {
                let _ = to.send(TerminalSize { width, height }).await;
            }
        }
        let _ = text.split_to(read.min(text.len()));
        if is_wrong || text.len() > LONGEST_SIZE {
            break;
        }
    }
    while from.recv().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures_util::FutureExt;
    use tokio::io::duplex;

    use super::*;

    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<u8>>>);

    #[async_trait]
    impl Output for Told {
        async fn write(&self, bytes: Bytes) -> io::Result<()> {
            self.0.lock().unwrap().extend(bytes);
            Ok(())
        }

        async fn close(&self) -> io::Result<()> {
            self.0.lock().unwrap().extend(b"|");
            Ok(())
        }
    }

    impl Told {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[tokio::test]
    async fn bytes_go_both_ways_and_the_end_is_told() {
        let (client, stdin) = mpsc::channel(4);
        let (sizes, resize) = mpsc::channel(4);
        let (terminal, mut seen) = mpsc::channel(4);
        let (input, mut process_input) = duplex(64);
        let (mut process_output, output) = duplex(64);
        let out = Told::default();
        let error = Told::default();
        let process = async move {
            let mut all = Vec::new();
            process_input.read_to_end(&mut all).await.unwrap();
            process_output.write_all(b"got ").await.unwrap();
            process_output.write_all(&all).await.unwrap();
            Ok(7)
        };
        let attached = Attached {
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
            style: Style::Status,
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
        let task = Task::Exec(vec!["cat".to_owned()]);
        carry(channels, Ok(attached), &task).await.unwrap();
        assert_eq!(out.text(), "got hello|");
        assert!(error.text().contains("\"message\":\"7\""), "{}", error.text());
        assert!(error.text().ends_with('|'));
        let size = |width, height| Some(TerminalSize { width, height });
        assert_eq!(seen.recv().await, size(80, 24));
        assert_eq!(seen.recv().await, size(1, 2));
    }

    #[tokio::test]
    async fn a_client_that_is_gone_ends_the_conversation() {
        struct Broken;
        #[async_trait]
        impl Output for Broken {
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
        let attached = Attached {
            stdin: None,
            stdout: Some(Box::pin(output)),
            stderr: None,
            resize: None,
            done: async { Ok(0) }.boxed(),
        };
        let channels = Channels {
            stdin: None,
            stdout: Some(Box::new(Broken)),
            stderr: None,
            error: Box::new(Broken),
            resize: None,
            style: Style::Words,
        };
        assert!(carry(channels, Ok(attached), &Task::Attach).await.is_err());
    }
}
