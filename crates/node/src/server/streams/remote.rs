//! A process: its channels over WebSocket or SPDY.

use std::{io, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite, split},
    sync::mpsc,
    time,
};

use super::{
    channels::{Channels, Input, Output, carry},
    outcome::{Style, Task},
    spdy::{Connection, Gone, Stream, StreamWriter},
    upgrade::Carrier,
    websocket::{Form, Socket},
};
use crate::runtime::{Attached, ExecSpec, RuntimeError};

/// How long a client may take to begin its streams.
const STREAMS_BEGIN: Duration = Duration::from_secs(30);
/// How long a client may take to close what we have closed.
const GOODBYE: Duration = Duration::from_secs(1);

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: usize = 4;

/// Talks to a process that `begin` starts or attaches to, once the client is ready.
pub(in crate::server) async fn converse<IO>(
    io: IO,
    carrier: &Carrier,
    spec: &ExecSpec,
    task: &Task,
    begin: BoxFuture<'_, Result<Attached, RuntimeError>>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match carrier {
        Carrier::Spdy(version) => over_spdy(io, version, spec, task, begin).await,
        Carrier::WebSocket(version) => over_websocket(io, version, spec, task, begin).await,
        Carrier::Tunnel => Err(io::Error::other("processes are not tunnelled to")),
    }
}

async fn over_websocket<IO>(
    io: IO,
    version: &str,
    spec: &ExecSpec,
    task: &Task,
    begin: BoxFuture<'_, Result<Attached, RuntimeError>>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let socket = Socket::new(io, version).await;
    let wanted = [spec.stdin, false, false, false, true];
    let (reader, writer, mut inputs) = socket.channels(&wanted);
    let mut input = |channel: usize| inputs.get_mut(channel).and_then(Option::take);
    let channels = Channels {
        stdin: input(usize::from(STDIN)),
        stdout: spec.stdout.then(|| writer.channel(STDOUT)),
        stderr: spec.stderr.then(|| writer.channel(STDERR)),
        error: writer.channel(ERROR),
        resize: input(RESIZE),
        style: style(version),
    };
    let conversation = async {
        if Form::of(version) != Form::of("v5.channel.k8s.io") {
            // An empty message tells old clients that the connection stands.
            let first = [&channels.stdout, &channels.stderr].into_iter().flatten().next();
            first.unwrap_or(&channels.error).write(Bytes::new()).await?;
        }
        carry(channels, begin.await, task).await?;
        writer.close().await;
        Ok(())
    };
    until_gone(reader.run(), conversation).await
}

async fn over_spdy<IO>(
    io: IO,
    version: &str,
    spec: &ExecSpec,
    task: &Task,
    begin: BoxFuture<'_, Result<Attached, RuntimeError>>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (reader, writer) = split(io);
    let (connection, streams) = Connection::new(reader, writer);
    let conversation = async {
        let mut forwarding = Vec::new();
        let gathered = gather(streams, version, spec, &mut forwarding);
        let channels = time::timeout(STREAMS_BEGIN, gathered)
            .await
            .map_err(|_| io::Error::other("timed out waiting for client to create streams"))??;
        let moved = futures_util::future::join_all(forwarding);
        tokio::select! {
            done = async { carry(channels, begin.await, task).await } => done,
            () = async { moved.await; std::future::pending().await } => Ok(()),
        }
    };
    until_gone(connection.run(), conversation).await
}

/// Carries on a conversation while its client is there.
async fn until_gone(
    reading: impl Future<Output = io::Result<()>>,
    conversation: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let mut reading = std::pin::pin!(reading);
    tokio::select! {
        done = conversation => done?,
        gone = &mut reading => return gone,
    }
    // The client has read everything when it closes the connection in turn.
    let _ = time::timeout(GOODBYE, reading).await;
    Ok(())
}

fn style(version: &str) -> Style {
    if version.starts_with("v4.") || version.starts_with("v5.") {
        Style::Status
    } else {
        Style::Words
    }
}

/// Waits for the streams that a client begins; which they are it says in headers.
async fn gather(
    mut streams: mpsc::Receiver<Stream>,
    version: &str,
    spec: &ExecSpec,
    forwarding: &mut Vec<BoxFuture<'static, ()>>,
) -> io::Result<Channels> {
    let resizes = spec.tty && (version.starts_with("v4.") || version.starts_with("v3."));
    let mut missing = 1 + [spec.stdin, spec.stdout, spec.stderr, resizes]
        .iter()
        .filter(|wanted| **wanted)
        .count();
    let mut stdin = None;
    let mut stdout = None;
    let mut stderr = None;
    let mut error = None;
    let mut resize = None;
    while missing > 0 {
        let Some(stream) = streams.recv().await else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let sort = stream.headers.get("streamtype").to_owned();
        let Stream { reader, writer, .. } = stream;
        writer.accept().await?;
        let mut input = |reader| {
            let (input, moving) = unwrapped(reader);
            forwarding.push(moving);
            Some(input)
        };
        match sort.as_str() {
            "stdin" => stdin = input(reader),
            "resize" => resize = input(reader),
            "stdout" => stdout = Some(writer),
            "stderr" => stderr = Some(writer),
            "error" => error = Some(writer),
            other => {
                tracing::debug!(sort = other, "a stream is of no known sort");
                continue;
            }
        }
        missing -= 1;
    }
    let output = |writer: StreamWriter| -> Box<dyn Output> { Box::new(writer) };
    Ok(Channels {
        stdin,
        stdout: stdout.map(output),
        stderr: stderr.map(output),
        error: output(error.ok_or_else(|| io::Error::other("a stream was begun twice"))?),
        resize,
        style: style(version),
    })
}

/// A stream as input: also one that is broken off has ended.
fn unwrapped(mut reader: mpsc::Receiver<Result<Bytes, Gone>>) -> (Input, BoxFuture<'static, ()>) {
    let (to, input) = mpsc::channel(1);
    let moving = async move {
        while let Some(Ok(bytes)) = reader.recv().await {
            if to.send(bytes).await.is_err() {
                break;
            }
        }
        drop(to);
        // What nobody reads must not hold up the other streams.
        while reader.recv().await.is_some() {}
    };
    (input, Box::pin(moving))
}

#[async_trait]
impl Output for StreamWriter {
    async fn write(&self, bytes: Bytes) -> io::Result<()> {
        StreamWriter::write(self, bytes).await
    }

    async fn close(&self) -> io::Result<()> {
        StreamWriter::close(self).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::BytesMut;
    use futures_util::{FutureExt, SinkExt, StreamExt};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_tungstenite::{
        WebSocketStream,
        tungstenite::{Message, protocol::Role},
    };

    use super::{
        super::spdy::{Decoder, Encoder, Frame, Headers},
        *,
    };

    /// A process that writes back what it reads, and ends with 0.
    fn cat() -> Attached {
        let (input, mut process_input) = duplex(1 << 16);
        let (mut process_output, output) = duplex(1 << 16);
        let process = async move {
            let mut buffer = [0; 1024];
            while let Ok(read @ 1..) = process_input.read(&mut buffer).await {
                process_output.write_all(&buffer[..read]).await.unwrap();
            }
            Ok(0)
        };
        Attached {
            stdin: Some(Box::pin(input)),
            stdout: Some(Box::pin(output)),
            stderr: None,
            resize: None,
            done: process.boxed(),
        }
    }

    fn spec() -> ExecSpec {
        ExecSpec {
            command: vec!["cat".to_owned()],
            stdin: true,
            stdout: true,
            ..ExecSpec::default()
        }
    }

    fn task() -> Task {
        Task::Exec(vec!["cat".to_owned()])
    }

    #[tokio::test]
    async fn a_process_is_talked_to_over_websocket() {
        let (client, server) = duplex(1 << 16);
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let carrier = Carrier::WebSocket("v5.channel.k8s.io".to_owned());
        let spec = spec();
        let task = task();
        let server = converse(server, &carrier, &spec, &task, async { Ok(cat()) }.boxed());
        let conversation = async {
            client
                .send(Message::Binary(Bytes::from_static(b"\0hello")))
                .await
                .unwrap();
            client
                .send(Message::Binary(Bytes::from_static(&[255, 0])))
                .await
                .unwrap();
            let mut got = Vec::new();
            while let Some(Ok(message)) = client.next().await {
                match message {
                    Message::Binary(bytes) => got.push(bytes),
                    Message::Close(_) => break,
                    _ => {}
                }
            }
            let _ = client.close(None).await;
            got
        };
        let (served, got) = tokio::join!(server, conversation);
        served.unwrap();
        assert_eq!(got[0], "\x01hello");
        assert_eq!(got[1], "\x03{\"metadata\":{},\"status\":\"Success\"}");
    }

    #[tokio::test]
    async fn a_process_is_talked_to_over_spdy() {
        let (mut client, server) = duplex(1 << 16);
        let carrier = Carrier::Spdy("v4.channel.k8s.io".to_owned());
        let spec = spec();
        let task = task();
        let server = converse(server, &carrier, &spec, &task, async { Ok(cat()) }.boxed());
        let conversation = async {
            let mut encoder = Encoder::new();
            for (stream, sort) in [(1, "error"), (3, "stdin"), (5, "stdout")] {
                let begin = Frame::Begin {
                    stream,
                    ends: false,
                    headers: Headers::of(&[("streamtype", sort)]),
                };
                client.write_all(&encoder.encode(&begin)).await.unwrap();
            }
            let data = |ends, data| Frame::Data {
                stream: 3,
                ends,
                data,
            };
            let hello = data(false, Bytes::from_static(b"hello"));
            client.write_all(&encoder.encode(&hello)).await.unwrap();
            client
                .write_all(&encoder.encode(&data(true, Bytes::new())))
                .await
                .unwrap();
            let mut decoder = Decoder::new();
            let mut buffer = BytesMut::new();
            let mut output = Vec::new();
            let mut error = Vec::new();
            let mut ended = 0;
            while ended < 2 {
                client.read_buf(&mut buffer).await.unwrap();
                while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                    if let Frame::Data { stream, ends, data } = frame {
                        if stream == 5 { &mut output } else { &mut error }.extend(data);
                        ended += usize::from(ends);
                    }
                }
            }
            drop(client);
            (output, String::from_utf8(error).unwrap())
        };
        let (served, (output, error)) = tokio::join!(server, conversation);
        served.unwrap();
        assert_eq!(output, b"hello");
        assert_eq!(error, "{\"metadata\":{},\"status\":\"Success\"}");
    }

    #[tokio::test]
    async fn a_client_that_goes_ends_the_conversation_and_leaves_the_process() {
        let (client, server) = duplex(1 << 16);
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let attached = Attached {
            stdin: None,
            stdout: None,
            stderr: None,
            resize: None,
            done: async move {
                let never = std::future::pending().await;
                drop(held);
                never
            }
            .boxed(),
        };
        drop(client);
        let carrier = Carrier::WebSocket(String::new());
        let spec = spec();
        let task = task();
        let done = converse(server, &carrier, &spec, &task, async { Ok(attached) }.boxed()).await;
        assert!(done.is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_begins_no_streams_is_not_waited_for_for_ever() {
        let (_client, server) = duplex(1 << 16);
        let carrier = Carrier::Spdy("v4.channel.k8s.io".to_owned());
        let spec = spec();
        let task = task();
        let done = converse(server, &carrier, &spec, &task, async { Ok(cat()) }.boxed()).await;
        assert_eq!(
            done.unwrap_err().to_string(),
            "timed out waiting for client to create streams"
        );
    }
}
