//! Port-forward over SPDY, SPDY tunneled in WebSocket, or WebSocket.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/portforward.go ServePortForward

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split},
    task::JoinSet,
    time,
};

use super::{
    channels::ChannelOutput,
    spdy::{SpdyConnection, SpdyStream, StreamReset},
    upgrade::StreamProtocol,
    websocket::ChannelSocket,
};
use crate::runtime::{PortStream, RuntimeError};

/// Timeout for the client to create the second stream of a pair.
const STREAM_CREATION_TIMEOUT: Duration = Duration::from_secs(30);
const CHUNK_SIZE: usize = 32 << 10;
/// Maximum number of ports of one WebSocket: its channel numbers are single bytes.
const MAX_PORTS: usize = 100;

/// Connects to the ports of a pod.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/portforward.go PortForwarder
#[async_trait]
pub(in crate::server) trait PortForwarder: Send + Sync + 'static {
    /// Connects to a port.
    async fn connect(&self, port: u16) -> Result<Box<dyn PortStream>, RuntimeError>;

    /// The pod in error messages.
    fn pod(&self) -> String;
}

/// Forwards connections until the client disconnects. `requested_ports` are the ports of the URL; only plain WebSocket requests name
/// them there.
pub(in crate::server) async fn serve_port_forward<IO>(
    io: IO,
    protocol: &StreamProtocol,
    requested_ports: &[u16],
    ports: Arc<dyn PortForwarder>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match protocol {
        StreamProtocol::Spdy(_) => over_spdy(io, ports).await,
        StreamProtocol::Tunnel => {
            let (near, far) = duplex(2 * CHUNK_SIZE);
            let socket = ChannelSocket::new(io, "").await;
            tokio::select! {
                done = over_spdy(near, ports) => done,
                done = socket.tunnel(far) => done,
            }
        }
        StreamProtocol::WebSocket(version) => over_websocket(io, version, requested_ports, ports).await,
    }
}

// --- SPDY ---

/// The data stream and the error stream of one connection, with the same request ID.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/httpstream.go httpStreamPair
#[derive(Default)]
struct StreamPair {
    data: Option<SpdyStream>,
    error: Option<SpdyStream>,
}

// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/httpstream.go handleHTTPStreams
async fn over_spdy<IO>(io: IO, ports: Arc<dyn PortForwarder>) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (reader, writer) = split(io);
    let (connection, mut streams) = SpdyConnection::new(reader, writer);
    let mut connections = JoinSet::new();
    let serving = async {
        let mut pairs: HashMap<String, (time::Instant, StreamPair)> = HashMap::new();
        loop {
            let stream = tokio::select! {
                stream = streams.recv() => match stream {
                    Some(stream) => stream,
                    None => return Ok(()),
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            };
            let now = time::Instant::now();
            pairs.retain(|_, (since, _)| now - *since < STREAM_CREATION_TIMEOUT);
            let Some(port) = stream_port(&stream) else {
                stream.writer.reset().await?;
                continue;
            };
            stream.writer.accept().await?;
            let request = request_id(&stream);
            let (_, pair) = pairs
                .entry(request.clone())
                .or_insert_with(|| (now, StreamPair::default()));
            if let Some(error_message) = pair.add(stream) {
                if let Some(error) = &pair.error {
                    let message = format!("error processing stream for request {request}: {error_message}");
                    error.writer.write(message.into()).await?;
                }
                continue;
            }
            if pair.data.is_some()
                && pair.error.is_some()
                && let Some((
                    _,
                    StreamPair {
                        data: Some(data),
                        error: Some(error),
                    },
                )) = pairs.remove(&request)
            {
                connections.spawn(forward_connection(data, error, port, Arc::clone(&ports)));
            }
        }
    };
    tokio::select! {
        done = connection.run() => done,
        done = serving => done,
    }
}

/// The port of a stream; `None` if its headers are invalid.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/httpstream.go httpStreamReceived
fn stream_port(stream: &SpdyStream) -> Option<u16> {
    let is_known = matches!(stream.headers.get("streamtype"), "data" | "error");
    let port = stream.headers.get("port").parse().ok()?;
    (is_known && port > 0).then_some(port)
}

/// Request ID of a stream. Old clients do not send it: they create the error stream right before the data stream, and stream IDs
/// of a client are odd.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/httpstream.go requestID
fn request_id(stream: &SpdyStream) -> String {
    match (stream.headers.get("requestid"), stream.headers.get("streamtype")) {
        ("", "data") => stream.id.saturating_sub(2).to_string(),
        ("", _) => stream.id.to_string(),
        (request, _) => request.to_owned(),
    }
}

impl StreamPair {
    /// Adds a stream. Returns an error message if there already is one of its type.
    fn add(&mut self, stream: SpdyStream) -> Option<&'static str> {
        let (slot, error) = if stream.headers.get("streamtype") == "data" {
            (&mut self.data, "data stream already assigned")
        } else {
            (&mut self.error, "error stream already assigned")
        };
        if slot.is_some() {
            return Some(error);
        }
        *slot = Some(stream);
        None
    }
}

/// Forwards one connection over a pair of streams.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/httpstream.go portForward
async fn forward_connection(data: SpdyStream, error: SpdyStream, port: u16, ports: Arc<dyn PortForwarder>) {
    let SpdyStream {
        reader: mut input,
        writer: output,
        ..
    } = data;
    let SpdyStream {
        reader: mut unused,
        writer: errors,
        ..
    } = error;
    // Clients send nothing on the error stream. Drain it nevertheless: a full stream would block the others.
    let ignore = async { while unused.recv().await.is_some() {} };
    let input = stream::poll_fn(|context| input.poll_recv(context));
    let talk = async {
        match ports.connect(port).await {
            Ok(stream) => copy_connection(stream, input, &output).await,
            Err(error) => {
                let message = forward_error(port, &*ports, &error);
                let _ = errors.write(message.into()).await;
                let _ = errors.close().await;
                let _ = output.reset().await;
                return;
            }
        }
        let _ = output.close().await;
        let _ = errors.close().await;
    };
    tokio::select! {
        () = talk => {}
        () = async { ignore.await; std::future::pending().await } => {}
    }
}

fn forward_error(port: u16, ports: &dyn PortForwarder, error: &RuntimeError) -> String {
    format!(
        "error forwarding port {port} to pod {}, uid : {error}",
        ports.pod()
    )
}

/// Copies data between a stream and a connection until the connection is closed or the stream is reset.
async fn copy_connection(
    stream: Box<dyn PortStream>,
    mut input: impl stream::Stream<Item = Result<Bytes, StreamReset>> + Unpin,
    output: &dyn ChannelOutput,
) {
    let (mut from, mut to) = split(stream);
    let incoming = async {
        loop {
            match input.next().await {
                Some(Ok(bytes)) => {
                    if to.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
                // Half-close: the client may still read.
                None => {
                    let _ = to.shutdown().await;
                    break;
                }
                Some(Err(StreamReset)) => return,
            }
        }
        std::future::pending::<()>().await;
    };
    let outgoing = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(CHUNK_SIZE);
            match from.read_buf(&mut buffer).await {
                Ok(1..) => {
                    if output.write(buffer.split().freeze()).await.is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    };
    tokio::select! {
        () = incoming => {}
        () = outgoing => {}
    }
}

// --- WebSocket ---

// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/websocket.go handleWebSocketStreams
async fn over_websocket<IO>(
    io: IO,
    version: &str,
    requested_ports: &[u16],
    ports: Arc<dyn PortForwarder>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if requested_ports.len() > MAX_PORTS {
        return Err(io::Error::other(
            "too many ports for one WebSocket; at most 100 are supported",
        ));
    }
    let readable: Vec<bool> = requested_ports.iter().flat_map(|_| [true, false]).collect();
    let (reader, writer, mut inputs) = ChannelSocket::new(io, version).await.channels(&readable);
    let mut connections = JoinSet::new();
    let serving = async {
        for (at, port) in requested_ports.iter().enumerate() {
            let number = u8::try_from(2 * at).map_err(io::Error::other)?;
            let data = writer.channel(number);
            let errors = writer.channel(number + 1);
            // The first message of each channel is its port in little-endian order.
            for channel in [&data, &errors] {
                channel.write(Bytes::copy_from_slice(&port.to_le_bytes())).await?;
            }
            let port = *port;
            let ports = Arc::clone(&ports);
            let Some(mut input) = inputs.get_mut(2 * at).and_then(Option::take) else {
                continue;
            };
            // WebSocket channels cannot be reset individually.
            let input = stream::poll_fn(move |context| input.poll_recv(context)).map(Ok);
            connections.spawn(async move {
                match ports.connect(port).await {
                    Ok(stream) => copy_connection(stream, input, &*data).await,
                    Err(error) => {
                        let message = forward_error(port, &*ports, &error);
                        let _ = errors.write(message.into()).await;
                    }
                }
            });
        }
        while connections.join_next().await.is_some() {}
        writer.close().await;
        Ok(())
    };
    tokio::select! {
        done = reader.run() => done,
        done = serving => done,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::SinkExt;
    use tokio::io::DuplexStream;
    use tokio_tungstenite::{
        WebSocketStream,
        tungstenite::{Message, protocol::Role},
    };

    use super::{
        super::spdy::{Decoder, Encoder, Frame, Headers},
        *,
    };

    /// Port 80 echoes its input in upper case; other ports refuse connections.
    struct UppercaseEcho;

    #[async_trait]
    impl PortForwarder for UppercaseEcho {
        async fn connect(&self, port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
            if port != 80 {
                return Err(RuntimeError::OperationFailed("connection refused".to_owned()));
            }
            let (near, mut far) = duplex(64);
            let mut task = JoinSet::new();
            task.spawn(async move {
                let mut all = Vec::new();
                far.read_to_end(&mut all).await.unwrap();
                all.make_ascii_uppercase();
                far.write_all(&all).await.unwrap();
            });
            task.detach_all();
            Ok(Box::new(near))
        }

        fn pod(&self) -> String {
            "sandbox".to_owned()
        }
    }

    /// The frames of a client for one connection.
    fn port_forward_frames(port: &str) -> Vec<u8> {
        let mut encoder = Encoder::new();
        let headers =
            |stream_type| Headers::of(&[("streamtype", stream_type), ("port", port), ("requestid", "0")]);
        let begin = |stream, fin, stream_type| Frame::SynStream {
            stream,
            fin,
            headers: headers(stream_type),
        };
        let data = Frame::Data {
            stream: 3,
            fin: true,
            data: Bytes::from_static(b"hello"),
        };
        [begin(1, true, "error"), begin(3, false, "data"), data]
            .iter()
            .flat_map(|frame| encoder.encode(frame))
            .collect()
    }

    /// Data of the data stream and of the error stream, until both have ended or were reset.
    async fn read_streams(client: &mut DuplexStream) -> (String, String) {
        let mut decoder = Decoder::new();
        let mut buffer = BytesMut::new();
        let mut data = Vec::new();
        let mut error = Vec::new();
        let mut ended = 0;
        while ended < 2 {
            client.read_buf(&mut buffer).await.unwrap();
            while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                match frame {
                    Frame::Data {
                        stream,
                        fin,
                        data: bytes,
                    } => {
                        if stream == 3 { &mut data } else { &mut error }.extend(bytes);
                        ended += usize::from(fin);
                    }
                    Frame::RstStream { .. } => ended += 1,
                    _ => {}
                }
            }
        }
        (
            String::from_utf8(data).unwrap(),
            String::from_utf8(error).unwrap(),
        )
    }

    #[tokio::test]
    async fn forwards_connection_over_spdy() {
        for (port, expected) in [
            ("80", ("HELLO", "")),
            (
                "81",
                (
                    "",
                    "error forwarding port 81 to pod sandbox, uid : connection refused",
                ),
            ),
        ] {
            let (mut client, server) = duplex(1 << 16);
            client.write_all(&port_forward_frames(port)).await.unwrap();
            let protocol = StreamProtocol::Spdy("portforward.k8s.io".to_owned());
            let (_, (data, error)) = tokio::join!(
                serve_port_forward(server, &protocol, &[], Arc::new(UppercaseEcho)),
                async {
                    let got = read_streams(&mut client).await;
                    drop(client);
                    got
                }
            );
            assert_eq!((data.as_str(), error.as_str()), expected);
        }
    }

    #[tokio::test]
    async fn resets_streams_with_invalid_port() {
        for port in ["", "0", "99999", "http"] {
            let (mut client, server) = duplex(1 << 16);
            client.write_all(&port_forward_frames(port)).await.unwrap();
            let protocol = StreamProtocol::Spdy("portforward.k8s.io".to_owned());
            let (_, got) = tokio::join!(
                serve_port_forward(server, &protocol, &[], Arc::new(UppercaseEcho)),
                async {
                    let got = read_streams(&mut client).await;
                    drop(client);
                    got
                }
            );
            assert_eq!(got, (String::new(), String::new()), "{port}");
        }
    }

    #[tokio::test]
    async fn forwards_connection_over_tunneled_spdy() {
        let (client, server) = duplex(1 << 16);
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let (mut near, far) = duplex(1 << 16);
        near.write_all(&port_forward_frames("80")).await.unwrap();
        let relay = async {
            let (mut from, mut to) = split(far);
            let client = &mut client;
            let (mut sink, mut stream) = client.split();
            let mut buffer = BytesMut::new();
            loop {
                tokio::select! {
                    Ok(1..) = from.read_buf(&mut buffer) => {
                        sink.send(Message::Binary(buffer.split().freeze())).await.unwrap();
                    }
                    Some(Ok(message)) = stream.next() => to.write_all(&message.into_data()).await.unwrap(),
                }
            }
        };
        let got = tokio::select! {
            got = read_streams(&mut near) => got,
            done = serve_port_forward(server, &StreamProtocol::Tunnel, &[], Arc::new(UppercaseEcho)) => panic!("{done:?}"),
            () = relay => unreachable!("the relay never returns"),
        };
        assert_eq!(got, ("HELLO".to_owned(), String::new()));
    }

    #[tokio::test]
    async fn forwards_ports_over_websocket_channels() {
        let (client, server) = duplex(1 << 16);
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let protocol = StreamProtocol::WebSocket("v4.channel.k8s.io".to_owned());
        let session = async {
            let mut got = Vec::new();
            while got.len() < 5 {
                match client.next().await {
                    Some(Ok(Message::Binary(bytes))) => got.push(bytes),
                    other => panic!("{other:?}"),
                }
            }
            drop(client);
            got
        };
        let (_, got) = tokio::join!(
            serve_port_forward(server, &protocol, &[80, 81], Arc::new(UppercaseEcho)),
            session
        );
        assert_eq!(
            got[..4],
            [&b"\0\x50\0"[..], b"\x01\x50\0", b"\x02\x51\0", b"\x03\x51\0"]
        );
        assert!(got[4].ends_with(b"connection refused"));
    }
}
