//! The fifth version of the protocol of channels, over a WebSocket.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use http::{Method, header};
use http_body_util::Empty;
use ring::{digest, rand};
use tokio::io::AsyncReadExt;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message, protocol::Role},
};

use crate::runtime::RuntimeError;

use super::{
    NoStream,
    address::{Address, Connection},
    wires::{Outputs, Wires, next_size, size_text},
};

/// A WebSocket that speaks of channels.
pub(super) type Socket = WebSocketStream<Connection>;

const PROTOCOL: &str = "v5.channel.k8s.io";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// Followed by the channel that ends.
const CLOSE: u8 = 255;

/// How much input one frame takes.
const FRAME: usize = 32 << 10;

/// Opens the socket.
pub(super) async fn connect(address: &Address) -> Result<Socket, NoStream> {
    let ours = |what: &str| NoStream::Error(RuntimeError::Refused(what.to_owned()));
    let random: [u8; 16] = rand::generate(&rand::SystemRandom::new())
        .map_err(|_| ours("the machine has no random numbers"))?
        .expose();
    let key = STANDARD.encode(random);
    let request = address
        .request(Method::GET, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key)
        .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        .body(Empty::<Bytes>::new())
        .map_err(|error| ours(&format!("the runtime's address makes no request: {error}")))?;
    let (headers, connection) = address.upgrade(request).await?;
    let answer = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if answer(header::SEC_WEBSOCKET_ACCEPT) != Some(accept(&key).as_str()) {
        return Err(ours(
            "the runtime's answer to the WebSocket handshake is not for our key",
        ));
    }
    if answer(header::SEC_WEBSOCKET_PROTOCOL) != Some(PROTOCOL) {
        return Err(ours("the runtime took up a protocol that it was not asked for"));
    }
    Ok(WebSocketStream::from_raw_socket(connection, Role::Client, None).await)
}

/// What proves that the peer read the key.
fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// Moves bytes until the process ends; its status, if there is one.
pub(super) async fn run(socket: Socket, wires: Wires) -> Result<Option<Bytes>, RuntimeError> {
    let Wires {
        stdin,
        outputs,
        resize,
    } = wires;
    let (sink, stream) = socket.split();
    let receive = receive(stream, outputs);
    let send = send(sink, stdin, resize);
    tokio::pin!(receive, send);
    tokio::select! {
        ended = &mut receive => ended,
        // Only a connection that broke ends it, and what came before is still to be read.
        () = &mut send => receive.await,
    }
}

async fn receive(
    mut stream: SplitStream<Socket>,
    mut outputs: Outputs,
) -> Result<Option<Bytes>, RuntimeError> {
    while let Some(message) = stream.next().await {
        let bytes = match message {
            Ok(Message::Binary(bytes)) => bytes,
            Ok(Message::Text(text)) => text.into(),
            Ok(Message::Close(_))
            | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                return Ok(None);
            }
            Ok(_) => continue,
            Err(error) => {
                return Err(RuntimeError::Unreachable {
                    runtime: "the runtime's stream".to_owned(),
                    reason: error.to_string(),
                });
            }
        };
        let Some((channel, rest)) = bytes.split_first() else {
            continue;
        };
        match *channel {
            STDOUT => Outputs::write(&mut outputs.stdout, rest).await,
            STDERR => Outputs::write(&mut outputs.stderr, rest).await,
            STATUS if !rest.is_empty() => return Ok(Some(bytes.slice(1..))),
            CLOSE if rest == [STDOUT] => outputs.stdout = None,
            CLOSE if rest == [STDERR] => outputs.stderr = None,
            _ => {}
        }
    }
    Ok(None)
}

/// Returns when the connection is broken.
async fn send(
    mut sink: SplitSink<Socket, Message>,
    mut stdin: Option<tokio::io::DuplexStream>,
    mut resize: Option<tokio::sync::mpsc::Receiver<crate::runtime::TerminalSize>>,
) {
    let mut input = BytesMut::with_capacity(FRAME);
    loop {
        let frame = tokio::select! {
            size = next_size(&mut resize) => on_channel(RESIZE, size_text(size).as_bytes()),
            read = read(&mut stdin, &mut input) => match read {
                Some(()) => on_channel(STDIN, &input),
                None => on_channel(CLOSE, &[STDIN]),
            },
        };
        input.clear();
        if sink.send(Message::Binary(frame)).await.is_err() {
            return;
        }
    }
}

/// More input; `None`, once, where it ends.
async fn read(stdin: &mut Option<tokio::io::DuplexStream>, into: &mut BytesMut) -> Option<()> {
    let Some(end) = stdin else {
        return std::future::pending().await;
    };
    into.reserve(FRAME);
    match end.read_buf(into).await {
        Ok(length) if length > 0 => Some(()),
        _ => {
            *stdin = None;
            None
        }
    }
}

fn on_channel(channel: u8, bytes: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(bytes.len() + 1);
    frame.put_u8(channel);
    frame.put_slice(bytes);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_standard() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
