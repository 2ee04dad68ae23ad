//! Ports: over SPDY, SPDY within WebSocket, or WebSocket.

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
    channels::Output,
    spdy::{Connection, Gone, Stream},
    upgrade::Carrier,
    websocket::Socket,
};
use crate::runtime::{PortStream, RuntimeError};

/// How long a client may take to begin the second stream of a pair.
const PAIRS_BEGIN: Duration = Duration::from_secs(30);
const PIECE: usize = 32 << 10;
/// The most ports that one WebSocket asks for: its channels are told apart by a byte.
const MOST_PORTS: usize = 100;

/// The ports of a pod.
#[async_trait]
pub(in crate::server) trait Ports: Send + Sync + 'static {
    /// Connects to one of them.
    async fn connect(&self, port: u16) -> Result<Box<dyn PortStream>, RuntimeError>;

    /// Whose they are, as errors say it.
    fn pod(&self) -> String;
}

/// Forwards connections until the client goes. `asked` are the ports that the URL names, which only a `WebSocket` has.
pub(in crate::server) async fn forward<IO>(
    io: IO,
    carrier: &Carrier,
    asked: &[u16],
    ports: Arc<dyn Ports>,
) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match carrier {
        Carrier::Spdy(_) => over_spdy(io, ports).await,
        Carrier::Tunnel => {
            let (near, far) = duplex(2 * PIECE);
            let socket = Socket::new(io, "").await;
            tokio::select! {
                done = over_spdy(near, ports) => done,
                done = socket.tunnel(far) => done,
            }
        }
        Carrier::WebSocket(version) => over_websocket(io, version, asked, ports).await,
    }
}

// --- SPDY ---

/// Two streams with the same request: one for data, one for errors.
#[derive(Default)]
struct Pair {
    data: Option<Stream>,
    error: Option<Stream>,
}

async fn over_spdy<IO>(io: IO, ports: Arc<dyn Ports>) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (reader, writer) = split(io);
    let (connection, mut streams) = Connection::new(reader, writer);
    let mut connections = JoinSet::new();
    let serving = async {
        let mut pairs: HashMap<String, (time::Instant, Pair)> = HashMap::new();
        loop {
            let stream = tokio::select! {
                stream = streams.recv() => match stream {
                    Some(stream) => stream,
                    None => return Ok(()),
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            };
            let now = time::Instant::now();
            pairs.retain(|_, (since, _)| now - *since < PAIRS_BEGIN);
            let Some(port) = port_of(&stream) else {
                stream.writer.reset().await?;
                continue;
            };
            stream.writer.accept().await?;
            let request = request_of(&stream);
            let (_, pair) = pairs
                .entry(request.clone())
                .or_insert_with(|| (now, Pair::default()));
            if let Some(problem) = pair.add(stream) {
                if let Some(error) = &pair.error {
                    let message = format!("error processing stream for request {request}: {problem}");
                    error.writer.write(message.into()).await?;
                }
                continue;
            }
            if pair.data.is_some()
                && pair.error.is_some()
                && let Some((
                    _,
                    Pair {
                        data: Some(data),
                        error: Some(error),
                    },
                )) = pairs.remove(&request)
            {
                connections.spawn(one(data, error, port, Arc::clone(&ports)));
            }
        }
    };
    tokio::select! {
        done = connection.run() => done,
        done = serving => done,
    }
}

/// The port that a stream is for, if all is well with its headers.
fn port_of(stream: &Stream) -> Option<u16> {
    let is_known = matches!(stream.headers.get("streamtype"), "data" | "error");
    let port = stream.headers.get("port").parse().ok()?;
    (is_known && port > 0).then_some(port)
}

/// Which pair a stream is of. Old clients do not say; their streams come one after the other.
fn request_of(stream: &Stream) -> String {
    match (stream.headers.get("requestid"), stream.headers.get("streamtype")) {
        ("", "data") => stream.id.saturating_sub(2).to_string(),
        ("", _) => stream.id.to_string(),
        (request, _) => request.to_owned(),
    }
}

impl Pair {
    /// Takes a stream, unless there is one already.
    fn add(&mut self, stream: Stream) -> Option<&'static str> {
        let (place, problem) = if stream.headers.get("streamtype") == "data" {
            (&mut self.data, "data stream already assigned")
        } else {
            (&mut self.error, "error stream already assigned")
        };
        if place.is_some() {
            return Some(problem);
        }
        *place = Some(stream);
        None
    }
}

/// One connection over a pair of streams.
async fn one(data: Stream, error: Stream, port: u16, ports: Arc<dyn Ports>) {
    let Stream {
        reader: mut input,
        writer: output,
        ..
    } = data;
    let Stream {
        reader: mut unused,
        writer: errors,
        ..
    } = error;
    // Nobody says anything there; but if so, it must not hold up the others.
    let ignore = async { while unused.recv().await.is_some() {} };
    let input = stream::poll_fn(|context| input.poll_recv(context));
    let talk = async {
        match ports.connect(port).await {
            Ok(stream) => connected(stream, input, &output).await,
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

fn forward_error(port: u16, ports: &dyn Ports, error: &RuntimeError) -> String {
    format!(
        "error forwarding port {port} to pod {}, uid : {error}",
        ports.pod()
    )
}

/// Moves bytes between a stream and a port until the port's side ends, or the stream is broken off.
async fn connected(
    stream: Box<dyn PortStream>,
    mut input: impl stream::Stream<Item = Result<Bytes, Gone>> + Unpin,
    output: &dyn Output,
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
                // The client has nothing more to say, but may want to hear more.
                None => {
                    let _ = to.shutdown().await;
                    break;
                }
                Some(Err(Gone)) => return,
            }
        }
        std::future::pending::<()>().await;
    };
    let outgoing = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PIECE);
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

async fn over_websocket<IO>(io: IO, version: &str, asked: &[u16], ports: Arc<dyn Ports>) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if asked.len() > MOST_PORTS {
        return Err(io::Error::other("too many ports for one connection"));
    }
    let wanted: Vec<bool> = asked.iter().flat_map(|_| [true, false]).collect();
    let (reader, writer, mut inputs) = Socket::new(io, version).await.channels(&wanted);
    let mut connections = JoinSet::new();
    let serving = async {
        for (at, port) in asked.iter().enumerate() {
            let number = u8::try_from(2 * at).map_err(io::Error::other)?;
            let data = writer.channel(number);
            let errors = writer.channel(number + 1);
            // Each channel begins with its port.
            for channel in [&data, &errors] {
                channel.write(Bytes::copy_from_slice(&port.to_le_bytes())).await?;
            }
            let port = *port;
            let ports = Arc::clone(&ports);
            let Some(mut input) = inputs.get_mut(2 * at).and_then(Option::take) else {
                continue;
            };
            // Who breaks off ends the whole socket, and this with it.
            let input = stream::poll_fn(move |context| input.poll_recv(context)).map(Ok);
            connections.spawn(async move {
                match ports.connect(port).await {
                    Ok(stream) => connected(stream, input, &*data).await,
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

    /// Port 80 writes back what it reads, in capitals; others refuse.
    struct Echo;

    #[async_trait]
    impl Ports for Echo {
        async fn connect(&self, port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
            if port != 80 {
                return Err(RuntimeError::Refused("connection refused".to_owned()));
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

    /// What a client sends for one connection.
    fn asking(port: &str) -> Vec<u8> {
        let mut encoder = Encoder::new();
        let headers = |sort| Headers::of(&[("streamtype", sort), ("port", port), ("requestid", "0")]);
        let begin = |stream, ends, sort| Frame::Begin {
            stream,
            ends,
            headers: headers(sort),
        };
        let data = Frame::Data {
            stream: 3,
            ends: true,
            data: Bytes::from_static(b"hello"),
        };
        [begin(1, true, "error"), begin(3, false, "data"), data]
            .iter()
            .flat_map(|frame| encoder.encode(frame))
            .collect()
    }

    /// What comes on the two streams until both have ended, or one is broken off.
    async fn answer(client: &mut DuplexStream) -> (String, String) {
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
                        ends,
                        data: bytes,
                    } => {
                        if stream == 3 { &mut data } else { &mut error }.extend(bytes);
                        ended += usize::from(ends);
                    }
                    Frame::Reset { .. } => ended += 1,
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
    async fn a_connection_goes_over_two_streams() {
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
            client.write_all(&asking(port)).await.unwrap();
            let carrier = Carrier::Spdy("portforward.k8s.io".to_owned());
            let (_, (data, error)) = tokio::join!(forward(server, &carrier, &[], Arc::new(Echo)), async {
                let got = answer(&mut client).await;
                drop(client);
                got
            });
            assert_eq!((data.as_str(), error.as_str()), expected);
        }
    }

    #[tokio::test]
    async fn streams_without_a_port_are_broken_off() {
        for port in ["", "0", "99999", "http"] {
            let (mut client, server) = duplex(1 << 16);
            client.write_all(&asking(port)).await.unwrap();
            let carrier = Carrier::Spdy("portforward.k8s.io".to_owned());
            let (_, got) = tokio::join!(forward(server, &carrier, &[], Arc::new(Echo)), async {
                let got = answer(&mut client).await;
                drop(client);
                got
            });
            assert_eq!(got, (String::new(), String::new()), "{port}");
        }
    }

    #[tokio::test]
    async fn a_connection_goes_over_spdy_within_a_websocket() {
        let (client, server) = duplex(1 << 16);
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let (mut near, far) = duplex(1 << 16);
        near.write_all(&asking("80")).await.unwrap();
        let pump = async {
            let (mut from, mut to) = split(far);
            let (mut sink, mut stream) = (&mut client).split();
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
            got = answer(&mut near) => got,
            done = forward(server, &Carrier::Tunnel, &[], Arc::new(Echo)) => panic!("{done:?}"),
            () = pump => unreachable!("the pump never ends"),
        };
        assert_eq!(got, ("HELLO".to_owned(), String::new()));
    }

    #[tokio::test]
    async fn ports_have_channels_of_a_websocket() {
        let (client, server) = duplex(1 << 16);
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let carrier = Carrier::WebSocket("v4.channel.k8s.io".to_owned());
        let conversation = async {
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
        let (_, got) = tokio::join!(forward(server, &carrier, &[80, 81], Arc::new(Echo)), conversation);
        assert_eq!(
            got[..4],
            [&b"\0\x50\0"[..], b"\x01\x50\0", b"\x02\x51\0", b"\x03\x51\0"]
        );
        assert!(got[4].ends_with(b"connection refused"));
    }
}
