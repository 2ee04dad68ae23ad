//! The fourth version of the protocol of channels, over SPDY/3.1: as much of it as a client of a runtime needs.
//!
//! Headers are sent in blocks of zlib that store instead of compressing, and headers that come are not looked at. There is no flow
//! control: the servers of all runtimes are of one library, which has none.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::Method;
use http_body_util::Empty;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf},
    sync::mpsc,
};

use crate::runtime::{RuntimeError, TerminalSize};

use super::{
    NoStream,
    address::{Address, Connection},
    wires::{Outputs, Wires, next_size, size_text},
};

/// A connection that streams are opened on.
pub(super) type Socket = Connection;

const PROTOCOL: &str = "v4.channel.k8s.io";

/// The streams, by the ids that a client gives: odd, and rising.
const ERROR: u32 = 1;
const STDIN: u32 = 3;
const STDOUT: u32 = 5;
const STDERR: u32 = 7;
const RESIZE: u32 = 9;

/// Control frames: version 3, and a kind.
const SYN_STREAM: u16 = 1;
const PING: u16 = 6;
const GOAWAY: u16 = 7;

/// The flag of the last frame of a stream.
const FIN: u8 = 1;

/// How much input one frame takes.
const FRAME: usize = 32 << 10;

/// What is in front of every frame.
const HEAD: usize = 8;

/// Upgrades the connection.
pub(super) async fn connect(address: &Address) -> Result<Socket, NoStream> {
    let request = address
        .request(Method::POST, "SPDY/3.1")
        .header("X-Stream-Protocol-Version", PROTOCOL)
        .body(Empty::<Bytes>::new())
        .map_err(|error| {
            NoStream::Error(RuntimeError::Refused(format!(
                "the runtime's address makes no request: {error}"
            )))
        })?;
    Ok(address.upgrade(request).await?.1)
}

/// Moves bytes until the process ends; its status, if there is one.
pub(super) async fn run(socket: Socket, wires: Wires) -> Result<Option<Bytes>, RuntimeError> {
    let Wires {
        stdin,
        outputs,
        resize,
    } = wires;
    let mut open = vec![(ERROR, "error")];
    open.extend(stdin.is_some().then_some((STDIN, "stdin")));
    open.extend(outputs.stdout.is_some().then_some((STDOUT, "stdout")));
    open.extend(outputs.stderr.is_some().then_some((STDERR, "stderr")));
    open.extend(resize.is_some().then_some((RESIZE, "resize")));
    let (reader, mut writer) = tokio::io::split(socket);
    let (answers, to_answer) = mpsc::channel(4);
    let send = async move {
        writer.write_all(&beginnings(&open)).await?;
        writer.flush().await?;
        send(writer, stdin, resize, to_answer).await
    };
    let receive = receive(reader, outputs, answers);
    tokio::pin!(receive, send);
    let ended = tokio::select! {
        ended = &mut receive => ended,
        // Only a connection that broke ends it, and what came before is still to be read.
        _ = &mut send => receive.await,
    };
    ended.map_err(|error| RuntimeError::Unreachable {
        runtime: "the runtime's stream".to_owned(),
        reason: error.to_string(),
    })
}

/// The frames that open the streams.
fn beginnings(streams: &[(u32, &str)]) -> BytesMut {
    let mut frames = BytesMut::new();
    for (index, (id, name)) in streams.iter().enumerate() {
        let headers = headers(name, index == 0);
        frames.put_u16(0x8003);
        frames.put_u16(SYN_STREAM);
        // No flags, and the length of what follows.
        frames.put_u32(length(10 + headers.len()));
        frames.put_u32(*id);
        // Of no other stream, and with no priority.
        frames.put_u32(0);
        frames.put_u16(0);
        frames.put_slice(&headers);
    }
    frames
}

/// The headers of a stream: one, that tells what it is for. All blocks are one stream of zlib, which has a head.
fn headers(name: &str, first: bool) -> BytesMut {
    let mut plain = BytesMut::new();
    plain.put_u32(1);
    for text in ["streamtype", name] {
        plain.put_u32(length(text.len()));
        plain.put_slice(text.as_bytes());
    }
    let mut block = BytesMut::new();
    if first {
        block.put_u16(0x7801);
    }
    store(&mut block, &plain);
    // An empty one makes the reader hand over what it has.
    store(&mut block, &[]);
    block
}

/// A block that is stored as it is.
fn store(into: &mut BytesMut, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or_default();
    into.put_u8(0);
    into.put_u16_le(length);
    into.put_u16_le(!length);
    into.put_slice(bytes);
}

/// A frame of a stream's bytes.
fn data(id: u32, flags: u8, bytes: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(HEAD + bytes.len());
    frame.put_u32(id);
    frame.put_u32(u32::from(flags) << 24 | length(bytes.len()));
    frame.put_slice(bytes);
    frame
}

/// Everything that is sent is far shorter than 2^24.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or_default()
}

async fn send(
    mut writer: WriteHalf<Socket>,
    mut stdin: Option<DuplexStream>,
    mut resize: Option<mpsc::Receiver<TerminalSize>>,
    mut answers: mpsc::Receiver<BytesMut>,
) -> io::Result<()> {
    let mut input = vec![0; FRAME];
    loop {
        let frame = tokio::select! {
            Some(answer) = answers.recv() => answer,
            size = next_size(&mut resize) => data(RESIZE, 0, size_text(size).as_bytes()),
            length = read(&mut stdin, &mut input) => match length {
                0 => {
                    stdin = None;
                    data(STDIN, FIN, &[])
                }
                length => data(STDIN, 0, &input[..length]),
            },
        };
        writer.write_all(&frame).await?;
        writer.flush().await?;
    }
}

/// How much input came; 0 where it ends.
async fn read(stdin: &mut Option<DuplexStream>, into: &mut [u8]) -> usize {
    match stdin {
        Some(end) => end.read(into).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

async fn receive(
    mut reader: ReadHalf<Socket>,
    mut outputs: Outputs,
    answers: mpsc::Sender<BytesMut>,
) -> io::Result<Option<Bytes>> {
    let mut status = BytesMut::new();
    let mut head = [0; HEAD];
    let mut body = Vec::new();
    loop {
        match reader.read_exact(&mut head).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        let mut fields = &head[..];
        let first = fields.get_u32();
        let second = fields.get_u32();
        let flags = second >> 24;
        body.resize(usize::try_from(second & 0x00ff_ffff).unwrap_or_default(), 0);
        reader.read_exact(&mut body).await?;
        if first >> 31 == 1 {
            match u16::try_from(first & 0xffff).unwrap_or_default() {
                PING => {
                    let mut answer = BytesMut::from(&head[..]);
                    answer.put_slice(&body);
                    // A sender that is gone has no use for it.
                    let _ = answers.send(answer).await;
                }
                GOAWAY => break,
                // Answers to our own frames, settings and windows.
                _ => {}
            }
            continue;
        }
        let ended = flags & u32::from(FIN) != 0;
        match first {
            STDOUT => {
                Outputs::write(&mut outputs.stdout, &body).await;
                if ended {
                    outputs.stdout = None;
                }
            }
            STDERR => {
                Outputs::write(&mut outputs.stderr, &body).await;
                if ended {
                    outputs.stderr = None;
                }
            }
            ERROR => {
                status.put_slice(&body);
                if ended {
                    break;
                }
            }
            _ => {}
        }
    }
    Ok((!status.is_empty()).then(|| status.freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_opened_with_what_they_are_for() {
        let frames = beginnings(&[(ERROR, "error"), (STDIN, "stdin")]);
        let block = |name: &str| {
            let plain = [
                &[0, 0, 0, 1, 0, 0, 0, 10][..],
                b"streamtype",
                &[0, 0, 0, 5],
                name.as_bytes(),
            ]
            .concat();
            // Stored, and its length twice.
            [&[0, 27, 0, 228, 255][..], &plain, &[0, 0, 0, 255, 255]].concat()
        };
        let expected = [
            &[0x80, 3, 0, 1, 0, 0, 0, 49, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x78, 1][..],
            &block("error"),
            &[0x80, 3, 0, 1, 0, 0, 0, 47, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0],
            &block("stdin"),
        ]
        .concat();
        assert_eq!(&frames[..], &expected[..]);
    }

    #[test]
    fn input_ends_with_a_frame_that_says_so() {
        assert_eq!(&data(STDIN, 0, b"hi")[..], [0, 0, 0, 3, 0, 0, 0, 2, b'h', b'i']);
        assert_eq!(&data(STDIN, FIN, b"")[..], [0, 0, 0, 3, 1, 0, 0, 0]);
    }
}
