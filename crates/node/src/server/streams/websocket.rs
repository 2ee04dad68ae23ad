//! Channels within the messages of a WebSocket: the first byte of each says which one it is for.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream},
    sync::{Mutex, mpsc},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::channels::{Input, Output};

/// The longest message that is taken.
const LONGEST_MESSAGE: usize = 32 << 20;
/// So many messages of a channel wait for whom they are for; then the connection waits.
const WAITING: usize = 4;
/// The longest piece of a tunnel.
const PIECE: usize = 32 << 10;
/// What closes a channel, with its number after it.
const CLOSE: u8 = 255;

/// A socket on the server's side.
pub(super) struct Socket<IO> {
    socket: WebSocketStream<IO>,
    form: Form,
}

/// What messages look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// Text instead of bytes: the channel is a digit, the rest is in base 64.
    is_text: bool,
    /// Whether single channels are closed.
    has_close: bool,
}

/// The reading side. Channels move only while it runs.
pub(super) struct Reader<IO> {
    stream: SplitStream<WebSocketStream<IO>>,
    form: Form,
    /// Who gets what comes on a channel; what nobody wants is dropped.
    channels: Vec<Option<mpsc::Sender<Bytes>>>,
}

/// The writing side.
pub(super) struct Writer<IO> {
    sink: Arc<Mutex<SplitSink<WebSocketStream<IO>, Message>>>,
    form: Form,
    is_closed: Arc<AtomicBool>,
}

/// The writing side of one channel.
struct Channel<IO> {
    writer: Writer<IO>,
    number: u8,
}

// --- Form ---

impl Form {
    /// That of a protocol.
    pub(super) fn of(protocol: &str) -> Self {
        Form {
            is_text: protocol.contains("base64."),
            has_close: protocol.starts_with("v5."),
        }
    }

    fn encode(self, channel: u8, bytes: &[u8]) -> Message {
        if self.is_text {
            let digit = char::from(b'0'.saturating_add(channel));
            return Message::text(format!("{digit}{}", STANDARD.encode(bytes)));
        }
        let mut message = BytesMut::with_capacity(bytes.len() + 1);
        message.put_u8(channel);
        message.put_slice(bytes);
        Message::Binary(message.freeze())
    }

    /// The channel of a message, and what it brings.
    fn decode(self, mut message: Bytes) -> Option<(u8, Bytes)> {
        if message.is_empty() {
            return None;
        }
        let channel = message.split_to(1)[0];
        if !self.is_text {
            return Some((channel, message));
        }
        let channel = channel.checked_sub(b'0')?;
        Some((channel, STANDARD.decode(&message).ok()?.into()))
    }
}

// --- Socket ---

impl<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static> Socket<IO> {
    /// A socket over a connection that became one.
    pub(super) async fn new(io: IO, protocol: &str) -> Self {
        let config = WebSocketConfig::default()
            .max_message_size(Some(LONGEST_MESSAGE))
            .max_frame_size(Some(LONGEST_MESSAGE))
            .read_buffer_size(PIECE)
            .write_buffer_size(PIECE);
        Socket {
            socket: WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await,
            form: Form::of(protocol),
        }
    }

    /// Its two sides, and the inputs of those channels that are `wanted`.
    pub(super) fn channels(self, wanted: &[bool]) -> (Reader<IO>, Writer<IO>, Vec<Option<Input>>) {
        let (sink, stream) = self.socket.split();
        let (channels, inputs) = wanted
            .iter()
            .map(|wanted| wanted.then(|| mpsc::channel(WAITING)).unzip())
            .unzip();
        let reader = Reader {
            stream,
            form: self.form,
            channels,
        };
        let writer = Writer {
            sink: Arc::new(Mutex::new(sink)),
            form: self.form,
            is_closed: Arc::default(),
        };
        (reader, writer, inputs)
    }

    /// Carries bytes: what comes in messages goes to the other end of `to`, and back.
    pub(super) async fn tunnel(self, to: DuplexStream) -> io::Result<()> {
        let (mut sink, mut stream) = self.socket.split();
        let (mut from, mut to) = tokio::io::split(to);
        let incoming = async {
            while let Some(message) = stream.next().await {
                match message.map_err(io::Error::other)? {
                    Message::Binary(bytes) => to.write_all(&bytes).await?,
                    Message::Text(_) => return Err(io::Error::other("a tunnel carries no text")),
                    Message::Close(_) => break,
                    _ => {}
                }
            }
            to.shutdown().await
        };
        let outgoing = async {
            let mut buffer = BytesMut::new();
            loop {
                buffer.reserve(PIECE);
                if from.read_buf(&mut buffer).await? == 0 {
                    break;
                }
                let piece = Message::Binary(buffer.split().freeze());
                sink.send(piece).await.map_err(io::Error::other)?;
            }
            let _ = sink.send(goodbye()).await;
            Ok(())
        };
        tokio::try_join!(incoming, outgoing).map(|_| ())
    }
}

fn goodbye() -> Message {
    Message::Close(Some(CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    }))
}

// --- Reader ---

impl<IO: AsyncRead + AsyncWrite + Unpin> Reader<IO> {
    /// Reads until the other side closes the socket.
    pub(super) async fn run(mut self) -> io::Result<()> {
        while let Some(message) = self.stream.next().await {
            let bytes = match message.map_err(io::Error::other)? {
                Message::Binary(bytes) => bytes,
                Message::Text(text) => Bytes::from(text),
                Message::Close(_) => return Ok(()),
                _ => continue,
            };
            if self.form.has_close && bytes.first() == Some(&CLOSE) {
                let channel = match &*bytes {
                    [_, channel] => self.channels.get_mut(usize::from(*channel)),
                    _ => None,
                };
                *channel.ok_or_else(|| io::Error::other("a channel is closed that is none"))? = None;
                continue;
            }
            let Some((channel, bytes)) = self.form.decode(bytes) else {
                continue;
            };
            if let Some(Some(to)) = self.channels.get(usize::from(channel))
                && !bytes.is_empty()
            {
                // Who does not listen any more is not waited for.
                let _ = to.send(bytes).await;
            }
        }
        Ok(())
    }
}

// --- Writer ---

impl<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static> Writer<IO> {
    /// The writing side of a channel.
    pub(super) fn channel(&self, number: u8) -> Box<dyn Output> {
        Box::new(Channel {
            writer: Writer {
                sink: Arc::clone(&self.sink),
                form: self.form,
                is_closed: Arc::clone(&self.is_closed),
            },
            number,
        })
    }

    /// Closes the socket in an orderly way.
    pub(super) async fn close(&self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            let mut sink = self.sink.lock().await;
            let _ = sink.send(goodbye()).await;
        }
    }
}

#[async_trait]
impl<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static> Output for Channel<IO> {
    async fn write(&self, bytes: Bytes) -> io::Result<()> {
        let message = self.writer.form.encode(self.number, &bytes);
        let mut sink = self.writer.sink.lock().await;
        sink.send(message).await.map_err(io::Error::other)
    }

    async fn close(&self) -> io::Result<()> {
        // Servers close sockets, not channels.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    async fn connected(protocol: &str) -> (WebSocketStream<DuplexStream>, Socket<DuplexStream>) {
        let (client, server) = duplex(1 << 20);
        let client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        (client, Socket::new(server, protocol).await)
    }

    #[tokio::test]
    async fn messages_go_to_their_channels_and_channels_are_closed() {
        let (mut client, socket) = connected("v5.channel.k8s.io").await;
        let (reader, writer, mut inputs) = socket.channels(&[true, false]);
        let mut stdin = inputs[0].take().unwrap();
        assert!(inputs[1].is_none());
        for message in [
            &[0, b'a'][..],
            &[1, b'x'],
            &[9, b'x'],
            &[],
            &[0],
            &[0, b'b'],
            &[255, 0],
        ] {
            client
                .send(Message::Binary(Bytes::copy_from_slice(message)))
                .await
                .unwrap();
        }
        let conversation = async {
            assert_eq!(stdin.recv().await.unwrap(), "a");
            assert_eq!(stdin.recv().await.unwrap(), "b");
            assert!(stdin.recv().await.is_none());
            writer.channel(2).write(Bytes::from_static(b"oh")).await.unwrap();
            let got = client.next().await.unwrap().unwrap();
            assert_eq!(got, Message::Binary(Bytes::from_static(b"\x02oh")));
            client.close(None).await.unwrap();
        };
        let (run, ()) = tokio::join!(reader.run(), conversation);
        run.unwrap();
    }

    #[tokio::test]
    async fn text_is_in_base_64() {
        let (mut client, socket) = connected("v4.base64.channel.k8s.io").await;
        let (reader, writer, mut inputs) = socket.channels(&[true]);
        let mut stdin = inputs[0].take().unwrap();
        for text in ["", "0", "0aGk=", "0!!!", "/aGk="] {
            client.send(Message::text(text)).await.unwrap();
        }
        let conversation = async {
            assert_eq!(stdin.recv().await.unwrap(), "hi");
            writer.channel(1).write(Bytes::from_static(b"hi")).await.unwrap();
            assert_eq!(client.next().await.unwrap().unwrap(), Message::text("1aGk="));
            client.close(None).await.unwrap();
        };
        let (run, ()) = tokio::join!(reader.run(), conversation);
        run.unwrap();
    }

    #[tokio::test]
    async fn hostile_messages_end_the_conversation() {
        for message in [&[255][..], &[255, 9], &[255, 0, 0]] {
            let (mut client, socket) = connected("v5.channel.k8s.io").await;
            let (reader, _writer, _inputs) = socket.channels(&[true]);
            client
                .send(Message::Binary(Bytes::copy_from_slice(message)))
                .await
                .unwrap();
            assert!(reader.run().await.is_err(), "{message:?}");
        }
        // A frame that says it is enormous, one that is not masked, one of no known sort.
        for bytes in [
            &[
                0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
            ][..],
            &[0x82, 0x01, 0x00],
            &[0x8f, 0x80, 0, 0, 0, 0],
        ] {
            let (mut client, server) = duplex(1024);
            client.write_all(bytes).await.unwrap();
            let (reader, _writer, _inputs) = Socket::new(server, "").await.channels(&[true]);
            assert!(reader.run().await.is_err(), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_tunnel_carries_bytes_both_ways() {
        let (mut client, socket) = connected("SPDY/3.1+portforward.k8s.io").await;
        let (mut near, far) = duplex(64);
        let conversation = async {
            client
                .send(Message::Binary(Bytes::from_static(b"ask")))
                .await
                .unwrap();
            let mut got = [0; 3];
            near.read_exact(&mut got).await.unwrap();
            assert_eq!(&got, b"ask");
            near.write_all(b"answer").await.unwrap();
            let got = client.next().await.unwrap().unwrap();
            assert_eq!(got, Message::Binary(Bytes::from_static(b"answer")));
            drop(near);
            assert!(matches!(client.next().await, Some(Ok(Message::Close(_)))));
            drop(client);
        };
        let (_, ()) = tokio::join!(socket.tunnel(far), conversation);
    }
}
