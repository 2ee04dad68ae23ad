//! Channels multiplexed in WebSocket messages: the first byte of a message is its channel.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/wsstream.go Conn

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

use super::channels::{ChannelInput, ChannelOutput};

/// Maximum size of a received message.
const MAX_MESSAGE_SIZE: usize = 32 << 20;
/// Number of buffered messages per channel; then the connection is not read any more.
const CHANNEL_CAPACITY: usize = 4;
/// Maximum size of a chunk of tunneled data.
const CHUNK_SIZE: usize = 32 << 10;
/// First byte of the message that closes a channel, followed by its number. Protocol version 5 only.
const CLOSE_CHANNEL: u8 = 255;

/// Server side of a WebSocket.
pub(super) struct ChannelSocket<IO> {
    socket: WebSocketStream<IO>,
    format: MessageFormat,
}

/// Encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageFormat {
    /// Text messages: the channel is a digit, the data is in base64.
    is_text: bool,
    /// Whether channels can be closed individually.
    has_close: bool,
}

/// Dispatches received messages to the channels while [`ChannelReader::run`] runs.
pub(super) struct ChannelReader<IO> {
    stream: SplitStream<WebSocketStream<IO>>,
    format: MessageFormat,
    /// Receivers by channel number. Data of other channels is dropped.
    channels: Vec<Option<mpsc::Sender<Bytes>>>,
}

/// Writer of the socket, shared by all channels.
pub(super) struct SocketWriter<IO> {
    sink: Arc<Mutex<SplitSink<WebSocketStream<IO>, Message>>>,
    format: MessageFormat,
    is_closed: Arc<AtomicBool>,
}

/// Writer of one channel.
struct ChannelWriter<IO> {
    writer: SocketWriter<IO>,
    number: u8,
}

// --- MessageFormat ---

impl MessageFormat {
    /// The encoding of a subprotocol.
    pub(super) fn of_protocol(protocol: &str) -> Self {
        MessageFormat {
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

    /// Channel and data of a message.
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

// --- ChannelSocket ---

impl<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static> ChannelSocket<IO> {
    /// The server side of an upgraded connection.
    pub(super) async fn new(io: IO, protocol: &str) -> Self {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_SIZE))
            .max_frame_size(Some(MAX_MESSAGE_SIZE))
            .read_buffer_size(CHUNK_SIZE)
            .write_buffer_size(CHUNK_SIZE);
        ChannelSocket {
            socket: WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await,
            format: MessageFormat::of_protocol(protocol),
        }
    }

    /// Splits the socket. Returns inputs for the `readable` channels.
    pub(super) fn channels(
        self,
        readable: &[bool],
    ) -> (ChannelReader<IO>, SocketWriter<IO>, Vec<Option<ChannelInput>>) {
        let (sink, stream) = self.socket.split();
        let (channels, inputs) = readable
            .iter()
            .map(|readable| readable.then(|| mpsc::channel(CHANNEL_CAPACITY)).unzip())
            .unzip();
        let reader = ChannelReader {
            stream,
            format: self.format,
            channels,
        };
        let writer = SocketWriter {
            sink: Arc::new(Mutex::new(sink)),
            format: self.format,
            is_closed: Arc::default(),
        };
        (reader, writer, inputs)
    }

    /// Copies data between binary messages and the other end of `to`.
    // upstream: staging/src/k8s.io/client-go/tools/portforward/tunneling_connection.go TunnelingConnection
    pub(super) async fn tunnel(self, to: DuplexStream) -> io::Result<()> {
        let (mut sink, mut stream) = self.socket.split();
        let (mut from, mut to) = tokio::io::split(to);
        let incoming = async {
            while let Some(message) = stream.next().await {
                match message.map_err(io::Error::other)? {
                    Message::Binary(bytes) => to.write_all(&bytes).await?,
                    Message::Text(_) => {
                        return Err(io::Error::other(
                            "text message in a tunnel; only binary messages are allowed",
                        ));
                    }
                    Message::Close(_) => break,
                    _ => {}
                }
            }
            to.shutdown().await
        };
        let outgoing = async {
            let mut buffer = BytesMut::new();
            loop {
                buffer.reserve(CHUNK_SIZE);
                if from.read_buf(&mut buffer).await? == 0 {
                    break;
                }
                let chunk = Message::Binary(buffer.split().freeze());
                sink.send(chunk).await.map_err(io::Error::other)?;
            }
            let _ = sink.send(close_message()).await;
            Ok(())
        };
        tokio::try_join!(incoming, outgoing).map(|_| ())
    }
}

fn close_message() -> Message {
    Message::Close(Some(CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    }))
}

// --- ChannelReader ---

impl<IO: AsyncRead + AsyncWrite + Unpin> ChannelReader<IO> {
    /// Reads until the client closes the socket.
    pub(super) async fn run(mut self) -> io::Result<()> {
        while let Some(message) = self.stream.next().await {
            let bytes = match message.map_err(io::Error::other)? {
                Message::Binary(bytes) => bytes,
                Message::Text(text) => Bytes::from(text),
                Message::Close(_) => return Ok(()),
                _ => continue,
            };
            if self.format.has_close && bytes.first() == Some(&CLOSE_CHANNEL) {
                let channel = match &*bytes {
                    [_, channel] => self.channels.get_mut(usize::from(*channel)),
                    _ => None,
                };
                *channel.ok_or_else(|| io::Error::other("invalid message: closes an unknown channel"))? =
                    None;
                continue;
            }
            let Some((channel, bytes)) = self.format.decode(bytes) else {
                continue;
            };
            if let Some(Some(to)) = self.channels.get(usize::from(channel))
                && !bytes.is_empty()
            {
                // The receiver may have been dropped: then the data is, too.
                let _ = to.send(bytes).await;
            }
        }
        Ok(())
    }
}

// --- SocketWriter ---

impl<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static> SocketWriter<IO> {
    /// The writer of a channel.
    pub(super) fn channel(&self, number: u8) -> Box<dyn ChannelOutput> {
        Box::new(ChannelWriter {
            writer: SocketWriter {
                sink: Arc::clone(&self.sink),
                format: self.format,
                is_closed: Arc::clone(&self.is_closed),
            },
            number,
        })
    }

    /// Sends a close message, once.
    pub(super) async fn close(&self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            let mut sink = self.sink.lock().await;
            let _ = sink.send(close_message()).await;
        }
    }
}

#[async_trait]
impl<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static> ChannelOutput for ChannelWriter<IO> {
    async fn write(&self, bytes: Bytes) -> io::Result<()> {
        let message = self.writer.format.encode(self.number, &bytes);
        let mut sink = self.writer.sink.lock().await;
        sink.send(message).await.map_err(io::Error::other)
    }

    async fn close(&self) -> io::Result<()> {
        // Only clients close channels; the server closes the socket.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    async fn connected(protocol: &str) -> (WebSocketStream<DuplexStream>, ChannelSocket<DuplexStream>) {
        let (client, server) = duplex(1 << 20);
        let client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        (client, ChannelSocket::new(server, protocol).await)
    }

    #[tokio::test]
    async fn dispatches_messages_and_closes_channels() {
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
        let session = async {
            assert_eq!(stdin.recv().await.unwrap(), "a");
            assert_eq!(stdin.recv().await.unwrap(), "b");
            assert!(stdin.recv().await.is_none());
            writer.channel(2).write(Bytes::from_static(b"oh")).await.unwrap();
            let got = client.next().await.unwrap().unwrap();
            assert_eq!(got, Message::Binary(Bytes::from_static(b"\x02oh")));
            client.close(None).await.unwrap();
        };
        let (run, ()) = tokio::join!(reader.run(), session);
        run.unwrap();
    }

    #[tokio::test]
    async fn encodes_text_in_base64() {
        let (mut client, socket) = connected("v4.base64.channel.k8s.io").await;
        let (reader, writer, mut inputs) = socket.channels(&[true]);
        let mut stdin = inputs[0].take().unwrap();
        for text in ["", "0", "0aGk=", "0!!!", "/aGk="] {
            client.send(Message::text(text)).await.unwrap();
        }
        let session = async {
            assert_eq!(stdin.recv().await.unwrap(), "hi");
            writer.channel(1).write(Bytes::from_static(b"hi")).await.unwrap();
            assert_eq!(client.next().await.unwrap().unwrap(), Message::text("1aGk="));
            client.close(None).await.unwrap();
        };
        let (run, ()) = tokio::join!(reader.run(), session);
        run.unwrap();
    }

    #[tokio::test]
    async fn invalid_messages_end_the_session() {
        for message in [&[255][..], &[255, 9], &[255, 0, 0]] {
            let (mut client, socket) = connected("v5.channel.k8s.io").await;
            let (reader, _writer, _inputs) = socket.channels(&[true]);
            client
                .send(Message::Binary(Bytes::copy_from_slice(message)))
                .await
                .unwrap();
            assert!(reader.run().await.is_err(), "{message:?}");
        }
        // A frame with a huge length, an unmasked frame, and a frame with an unknown opcode.
        for bytes in [
            &[
                0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
            ][..],
            &[0x82, 0x01, 0x00],
            &[0x8f, 0x80, 0, 0, 0, 0],
        ] {
            let (mut client, server) = duplex(1024);
            client.write_all(bytes).await.unwrap();
            let (reader, _writer, _inputs) = ChannelSocket::new(server, "").await.channels(&[true]);
            assert!(reader.run().await.is_err(), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn tunnel_copies_both_ways() {
        let (mut client, socket) = connected("SPDY/3.1+portforward.k8s.io").await;
        let (mut near, far) = duplex(64);
        let session = async {
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
        let (_, ()) = tokio::join!(socket.tunnel(far), session);
    }
}
