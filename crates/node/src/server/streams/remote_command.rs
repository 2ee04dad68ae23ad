//! Exec and attach over WebSocket or SPDY.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand/exec.go ServeExec
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand/attach.go ServeAttach

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
    channels::{ChannelInput, ChannelOutput, Channels, copy_channels},
    spdy::{SpdyConnection, SpdyStream, StreamReset, StreamWriter},
    status::{RemoteCommand, StatusFormat},
    upgrade::StreamProtocol,
    websocket::{ChannelSocket, MessageFormat},
};
use crate::runtime::{ExecSpec, ProcessStreams, RuntimeError};

/// Timeout for the client to create its streams.
const STREAM_CREATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for the client to close the connection after the server has closed it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: usize = 4;

/// Serves exec or attach. `attach` starts the process or attaches to it; it runs when the client has created its streams.
pub(in crate::server) async fn serve_remote_command<IO>(
    io: IO,
    protocol: &StreamProtocol,
    spec: &ExecSpec,
    command: &RemoteCommand,
    attach: BoxFuture<'_, Result<ProcessStreams, RuntimeError>>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match protocol {
        StreamProtocol::Spdy(version) => over_spdy(io, version, spec, command, attach).await,
        StreamProtocol::WebSocket(version) => over_websocket(io, version, spec, command, attach).await,
        StreamProtocol::Tunnel => Err(io::Error::other("exec and attach do not support tunneling")),
    }
}

async fn over_websocket<IO>(
    io: IO,
    version: &str,
    spec: &ExecSpec,
    command: &RemoteCommand,
    attach: BoxFuture<'_, Result<ProcessStreams, RuntimeError>>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let socket = ChannelSocket::new(io, version).await;
    let readable = [spec.stdin, false, false, false, true];
    let (reader, writer, mut inputs) = socket.channels(&readable);
    let mut input = |channel: usize| inputs.get_mut(channel).and_then(Option::take);
    let channels = Channels {
        stdin: input(usize::from(STDIN)),
        stdout: spec.stdout.then(|| writer.channel(STDOUT)),
        stderr: spec.stderr.then(|| writer.channel(STDERR)),
        error: writer.channel(ERROR),
        resize: input(RESIZE),
        status_format: status_format(version),
    };
    let session = async {
        if MessageFormat::of_protocol(version) != MessageFormat::of_protocol("v5.channel.k8s.io") {
            // Clients before version 5 wait for an empty message to know that the connection is established.
            let first = [&channels.stdout, &channels.stderr].into_iter().flatten().next();
            first.unwrap_or(&channels.error).write(Bytes::new()).await?;
        }
        copy_channels(channels, attach.await, command).await?;
        writer.close().await;
        Ok(())
    };
    until_closed(reader.run(), session).await
}

async fn over_spdy<IO>(
    io: IO,
    version: &str,
    spec: &ExecSpec,
    command: &RemoteCommand,
    attach: BoxFuture<'_, Result<ProcessStreams, RuntimeError>>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (reader, writer) = split(io);
    let (connection, streams) = SpdyConnection::new(reader, writer);
    let session = async {
        let mut forwarding = Vec::new();
        let gathered = wait_for_streams(streams, version, spec, &mut forwarding);
        let channels = time::timeout(STREAM_CREATION_TIMEOUT, gathered)
            .await
            .map_err(|_| io::Error::other("timed out waiting for client to create streams"))??;
        let moved = futures_util::future::join_all(forwarding);
        tokio::select! {
            done = async { copy_channels(channels, attach.await, command).await } => done,
            () = async { moved.await; std::future::pending().await } => Ok(()),
        }
    };
    until_closed(connection.run(), session).await
}

/// Runs a session until it ends or the client disconnects.
async fn until_closed(
    reading: impl Future<Output = io::Result<()>>,
    session: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let mut reading = std::pin::pin!(reading);
    tokio::select! {
        done = session => done?,
        closed = &mut reading => return closed,
    }
    // Closing the socket now could discard data that the client has not read yet: wait until it closes the connection.
    let _ = time::timeout(CLOSE_TIMEOUT, reading).await;
    Ok(())
}

fn status_format(version: &str) -> StatusFormat {
    if version.starts_with("v4.") || version.starts_with("v5.") {
        StatusFormat::Json
    } else {
        StatusFormat::Text
    }
}

/// Waits until the client has created its streams. The header `streamType` distinguishes them.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand/httpstream.go waitForStreams
async fn wait_for_streams(
    mut streams: mpsc::Receiver<SpdyStream>,
    version: &str,
    spec: &ExecSpec,
    forwarding: &mut Vec<BoxFuture<'static, ()>>,
) -> io::Result<Channels> {
    let resizes = spec.tty && (version.starts_with("v4.") || version.starts_with("v3."));
    let mut missing = 1 + [spec.stdin, spec.stdout, spec.stderr, resizes]
        .iter()
        .filter(|requested| **requested)
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
        let stream_type = stream.headers.get("streamtype").to_owned();
        let SpdyStream { reader, writer, .. } = stream;
        writer.accept().await?;
        let mut input = |reader| {
            let (input, forward) = channel_input(reader);
            forwarding.push(forward);
            Some(input)
        };
        match stream_type.as_str() {
            "stdin" => stdin = input(reader),
            "resize" => resize = input(reader),
            "stdout" => stdout = Some(writer),
            "stderr" => stderr = Some(writer),
            "error" => error = Some(writer),
            other => {
                tracing::debug!(stream_type = other, "ignoring stream of unknown type");
                continue;
            }
        }
        missing -= 1;
    }
    let output = |writer: StreamWriter| -> Box<dyn ChannelOutput> { Box::new(writer) };
    Ok(Channels {
        stdin,
        stdout: stdout.map(output),
        stderr: stderr.map(output),
        error: output(error.ok_or_else(|| io::Error::other("the client created a stream twice"))?),
        resize,
        status_format: status_format(version),
    })
}

/// Converts a stream to a channel input: a reset is the end of the input.
fn channel_input(
    mut reader: mpsc::Receiver<Result<Bytes, StreamReset>>,
) -> (ChannelInput, BoxFuture<'static, ()>) {
    let (to, input) = mpsc::channel(1);
    let forward = async move {
        while let Some(Ok(bytes)) = reader.recv().await {
            if to.send(bytes).await.is_err() {
                break;
            }
        }
        drop(to);
        // Drain the stream: a full one would block the other streams of the connection.
        while reader.recv().await.is_some() {}
    };
    (input, Box::pin(forward))
}

#[async_trait]
impl ChannelOutput for StreamWriter {
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

    /// A process that echoes its input and exits with 0.
    fn cat() -> ProcessStreams {
        let (input, mut process_input) = duplex(1 << 16);
        let (mut process_output, output) = duplex(1 << 16);
        let process = async move {
            let mut buffer = [0; 1024];
            while let Ok(read @ 1..) = process_input.read(&mut buffer).await {
                process_output.write_all(&buffer[..read]).await.unwrap();
            }
            Ok(0)
        };
        ProcessStreams {
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

    fn command() -> RemoteCommand {
        RemoteCommand::Exec(vec!["cat".to_owned()])
    }

    #[tokio::test]
    async fn serves_exec_over_websocket() {
        let (client, server) = duplex(1 << 16);
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let protocol = StreamProtocol::WebSocket("v5.channel.k8s.io".to_owned());
        let spec = spec();
        let command = command();
        let server = serve_remote_command(server, &protocol, &spec, &command, async { Ok(cat()) }.boxed());
        let session = async {
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
        let (served, got) = tokio::join!(server, session);
        served.unwrap();
        assert_eq!(got[0], "\x01hello");
        assert_eq!(got[1], "\x03{\"metadata\":{},\"status\":\"Success\"}");
    }

    #[tokio::test]
    async fn serves_exec_over_spdy() {
        let (mut client, server) = duplex(1 << 16);
        let protocol = StreamProtocol::Spdy("v4.channel.k8s.io".to_owned());
        let spec = spec();
        let command = command();
        let server = serve_remote_command(server, &protocol, &spec, &command, async { Ok(cat()) }.boxed());
        let session = async {
            let mut encoder = Encoder::new();
            for (stream, stream_type) in [(1, "error"), (3, "stdin"), (5, "stdout")] {
                let frame = Frame::SynStream {
                    stream,
                    fin: false,
                    headers: Headers::of(&[("streamtype", stream_type)]),
                };
                client.write_all(&encoder.encode(&frame)).await.unwrap();
            }
            let data = |fin, data| Frame::Data { stream: 3, fin, data };
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
                    if let Frame::Data { stream, fin, data } = frame {
                        if stream == 5 { &mut output } else { &mut error }.extend(data);
                        ended += usize::from(fin);
                    }
                }
            }
            drop(client);
            (output, String::from_utf8(error).unwrap())
        };
        let (served, (output, error)) = tokio::join!(server, session);
        served.unwrap();
        assert_eq!(output, b"hello");
        assert_eq!(error, "{\"metadata\":{},\"status\":\"Success\"}");
    }

    #[tokio::test]
    async fn disconnect_ends_session_but_not_process() {
        let (client, server) = duplex(1 << 16);
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let attached = ProcessStreams {
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
        let protocol = StreamProtocol::WebSocket(String::new());
        let spec = spec();
        let command = command();
        let done =
            serve_remote_command(server, &protocol, &spec, &command, async { Ok(attached) }.boxed()).await;
        assert!(done.is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn times_out_without_streams() {
        let (_client, server) = duplex(1 << 16);
        let protocol = StreamProtocol::Spdy("v4.channel.k8s.io".to_owned());
        let spec = spec();
        let command = command();
        let done =
            serve_remote_command(server, &protocol, &spec, &command, async { Ok(cat()) }.boxed()).await;
        assert_eq!(
            done.unwrap_err().to_string(),
            "timed out waiting for client to create streams"
        );
    }
}
