//! Version 5 of the channel protocol, over a WebSocket.

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
    tungstenite::{
        self, Message,
        protocol::{Role, frame::coding::CloseCode},
    },
};

use crate::runtime::RuntimeError;

use super::{
    StreamEnd, StreamError,
    address::{StreamAddress, UpgradedConnection},
    pipes::{OutputPipes, RuntimeEnds, next_size, size_text},
};

/// A WebSocket with the channel protocol.
pub(super) type Socket = WebSocketStream<UpgradedConnection>;

const PROTOCOL: &str = "v5.channel.k8s.io";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// Followed by the number of the closed channel.
const CLOSE: u8 = 255;

/// Maximum stdin bytes per message.
const MAX_INPUT_FRAME: usize = 32 << 10;

/// Opens the WebSocket.
pub(super) async fn connect(address: &StreamAddress) -> Result<Socket, StreamError> {
    let failed = |what: &str| StreamError::Error(RuntimeError::OperationFailed(what.to_owned()));
    let random: [u8; 16] = rand::generate(&rand::SystemRandom::new())
        .map_err(|_| failed("the system random number generator failed"))?
        .expose();
    let key = STANDARD.encode(random);
    let request = address
        .request(Method::GET, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key)
        .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(&format!("invalid request for the runtime's URL: {error}")))?;
    let (headers, connection) = address.upgrade(request).await?;
    let answer = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if answer(header::SEC_WEBSOCKET_ACCEPT) != Some(accept_header(&key).as_str()) {
        return Err(failed("invalid Sec-WebSocket-Accept in the runtime's handshake"));
    }
    if answer(header::SEC_WEBSOCKET_PROTOCOL) != Some(PROTOCOL) {
        return Err(failed("the runtime selected a protocol that was not offered"));
    }
    Ok(WebSocketStream::from_raw_socket(connection, Role::Client, None).await)
}

/// Computes `Sec-WebSocket-Accept`.
fn accept_header(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// Copies bytes until the process exits.
pub(super) async fn run(socket: Socket, pipes: RuntimeEnds) -> Result<StreamEnd, RuntimeError> {
    let RuntimeEnds {
        stdin,
        outputs,
        resize,
    } = pipes;
    let (sink, stream) = socket.split();
    let receive = receive(stream, outputs);
    let send = send(sink, stdin, resize);
    tokio::pin!(receive, send);
    tokio::select! {
        end = &mut receive => end,
        // Sending ends only if the connection broke; read what was received before.
        () = &mut send => receive.await,
    }
}

async fn receive(
    mut stream: SplitStream<Socket>,
    mut outputs: OutputPipes,
) -> Result<StreamEnd, RuntimeError> {
    while let Some(message) = stream.next().await {
        let bytes = match message {
            Ok(Message::Binary(bytes)) => bytes,
            Ok(Message::Text(text)) => text.into(),
            Ok(Message::Close(Some(farewell))) if farewell.code == CloseCode::Normal => {
                return Ok(StreamEnd::NormalClose);
            }
            Ok(Message::Close(_))
            | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                return Ok(StreamEnd::Disconnected);
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
            STDOUT => OutputPipes::write(&mut outputs.stdout, rest).await,
            STDERR => OutputPipes::write(&mut outputs.stderr, rest).await,
            STATUS if !rest.is_empty() => return Ok(StreamEnd::Status(bytes.slice(1..))),
            CLOSE if rest == [STDOUT] => outputs.stdout = None,
            CLOSE if rest == [STDERR] => outputs.stderr = None,
            _ => {}
        }
    }
    Ok(StreamEnd::Disconnected)
}

/// Returns when the connection is broken.
async fn send(
    mut sink: SplitSink<Socket, Message>,
    mut stdin: Option<tokio::io::DuplexStream>,
    mut resize: Option<tokio::sync::mpsc::Receiver<crate::runtime::TerminalSize>>,
) {
    let mut input = BytesMut::with_capacity(MAX_INPUT_FRAME);
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

/// Reads stdin; `None` once, at its end.
async fn read(stdin: &mut Option<tokio::io::DuplexStream>, into: &mut BytesMut) -> Option<()> {
    let Some(end) = stdin else {
        return std::future::pending().await;
    };
    into.reserve(MAX_INPUT_FRAME);
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
    fn computes_accept_header_of_rfc_6455() {
        assert_eq!(
            accept_header("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }
}
