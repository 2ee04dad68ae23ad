//! Version 4 of the channel protocol, over SPDY/3.1: the subset that a client needs.
//!
//! Sent headers are zlib blocks without compression; received headers are ignored. There is no flow control: the SPDY library of all
//! runtimes (moby/spdystream) has none.

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
    StreamEnd, StreamError,
    address::{StreamAddress, UpgradedConnection},
    pipes::{OutputPipes, RuntimeEnds, next_size, size_text},
};

/// A connection with SPDY streams.
pub(super) type Socket = UpgradedConnection;

const PROTOCOL: &str = "v4.channel.k8s.io";

/// Stream IDs: odd for clients, and increasing.
const ERROR: u32 = 1;
const STDIN: u32 = 3;
const STDOUT: u32 = 5;
const STDERR: u32 = 7;
const RESIZE: u32 = 9;

/// Types of control frames.
const SYN_STREAM: u16 = 1;
const PING: u16 = 6;
const GOAWAY: u16 = 7;

/// Header of a zlib stream without compression and dictionary.
const ZLIB_HEADER: u16 = 0x7801;

/// Flag of the last frame of a stream.
const FIN: u8 = 1;

/// Maximum stdin bytes per frame.
const MAX_INPUT_FRAME: usize = 32 << 10;

/// Length of a frame header.
const HEADER_LENGTH: usize = 8;

/// Upgrades the connection.
pub(super) async fn connect(address: &StreamAddress) -> Result<Socket, StreamError> {
    let request = address
        .request(Method::POST, "SPDY/3.1")
        .header("X-Stream-Protocol-Version", PROTOCOL)
        .body(Empty::<Bytes>::new())
        .map_err(|error| {
            StreamError::Error(RuntimeError::OperationFailed(format!(
                "invalid request for the runtime's URL: {error}"
            )))
        })?;
    Ok(address.upgrade(request).await?.1)
}

/// Copies bytes until the process exits.
pub(super) async fn run(socket: Socket, pipes: RuntimeEnds) -> Result<StreamEnd, RuntimeError> {
    let RuntimeEnds {
        stdin,
        outputs,
        resize,
    } = pipes;
    let mut open = vec![(ERROR, "error")];
    open.extend(stdin.is_some().then_some((STDIN, "stdin")));
    open.extend(outputs.stdout.is_some().then_some((STDOUT, "stdout")));
    open.extend(outputs.stderr.is_some().then_some((STDERR, "stderr")));
    open.extend(resize.is_some().then_some((RESIZE, "resize")));
    let (reader, mut writer) = tokio::io::split(socket);
    let (answers, to_answer) = mpsc::channel(4);
    let send = async move {
        writer.write_all(&open_streams(&open)).await?;
        writer.flush().await?;
        send(writer, stdin, resize, to_answer).await
    };
    let receive = receive(reader, outputs, answers);
    tokio::pin!(receive, send);
    let end = tokio::select! {
        end = &mut receive => end,
        // Sending ends only if the connection broke; read what was received before.
        _ = &mut send => receive.await,
    };
    end.map_err(|error| RuntimeError::Unreachable {
        runtime: "the runtime's stream".to_owned(),
        reason: error.to_string(),
    })
}

/// Returns the frames that open the streams.
fn open_streams(streams: &[(u32, &str)]) -> BytesMut {
    let mut frames = BytesMut::new();
    for (index, (id, name)) in streams.iter().enumerate() {
        let headers = if index == 0 {
            first_header_block(name)
        } else {
            header_block(name)
        };
        frames.put_u16(0x8003);
        frames.put_u16(SYN_STREAM);
        // No flags, and the length of the rest.
        frames.put_u32(length(10 + headers.len()));
        frames.put_u32(*id);
        // No associated stream, and priority 0.
        frames.put_u32(0);
        frames.put_u16(0);
        frames.put_slice(&headers);
    }
    frames
}

/// Returns the first header block of a connection. All blocks of a connection form one zlib stream, whose header is sent first.
fn first_header_block(name: &str) -> BytesMut {
    let mut block = BytesMut::new();
    block.put_u16(ZLIB_HEADER);
    block.extend_from_slice(&header_block(name));
    block
}

/// Returns the header block of a stream, with its type.
fn header_block(name: &str) -> BytesMut {
    let mut plain = BytesMut::new();
    plain.put_u32(1);
    for text in ["streamtype", name] {
        plain.put_u32(length(text.len()));
        plain.put_slice(text.as_bytes());
    }
    let mut block = BytesMut::new();
    store(&mut block, &plain);
    // An empty stored block flushes the reader's decompressor.
    store(&mut block, &[]);
    block
}

/// Appends a stored (uncompressed) deflate block.
fn store(into: &mut BytesMut, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("header blocks are short");
    into.put_u8(0);
    into.put_u16_le(length);
    into.put_u16_le(!length);
    into.put_slice(bytes);
}

/// Returns a data frame.
fn data(id: u32, flags: u8, bytes: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(HEADER_LENGTH + bytes.len());
    frame.put_u32(id);
    frame.put_u32(u32::from(flags) << 24 | length(bytes.len()));
    frame.put_slice(bytes);
    frame
}

/// Lengths are far below 2^24.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("header blocks are short")
}

async fn send(
    mut writer: WriteHalf<Socket>,
    mut stdin: Option<DuplexStream>,
    mut resize: Option<mpsc::Receiver<TerminalSize>>,
    mut answers: mpsc::Receiver<BytesMut>,
) -> io::Result<()> {
    let mut input = vec![0; MAX_INPUT_FRAME];
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

/// Reads stdin; 0 at its end.
async fn read(stdin: &mut Option<DuplexStream>, into: &mut [u8]) -> usize {
    match stdin {
        Some(end) => end.read(into).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

async fn receive(
    mut reader: ReadHalf<Socket>,
    mut outputs: OutputPipes,
    answers: mpsc::Sender<BytesMut>,
) -> io::Result<StreamEnd> {
    let mut status = BytesMut::new();
    let mut frame_header = [0; HEADER_LENGTH];
    let mut body = Vec::new();
    loop {
        match reader.read_exact(&mut frame_header).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        let mut fields = &frame_header[..];
        let first = fields.get_u32();
        let second = fields.get_u32();
        let flags = second >> 24;
        body.resize(usize::try_from(second & 0x00ff_ffff).unwrap_or_default(), 0);
        reader.read_exact(&mut body).await?;
        if first >> 31 == 1 {
            match u16::try_from(first & 0xffff).unwrap_or_default() {
                PING => {
                    let mut answer = BytesMut::from(&frame_header[..]);
                    answer.put_slice(&body);
                    // The sender may have ended with the connection.
                    let _ = answers.send(answer).await;
                }
                GOAWAY => break,
                // SYN_REPLY, SETTINGS, WINDOW_UPDATE.
                _ => {}
            }
            continue;
        }
        let is_last_frame = flags & u32::from(FIN) != 0;
        match first {
            STDOUT => {
                OutputPipes::write(&mut outputs.stdout, &body).await;
                if is_last_frame {
                    outputs.stdout = None;
                }
            }
            STDERR => {
                OutputPipes::write(&mut outputs.stderr, &body).await;
                if is_last_frame {
                    outputs.stderr = None;
                }
            }
            ERROR => {
                status.put_slice(&body);
                if is_last_frame {
                    break;
                }
            }
            _ => {}
        }
    }
    Ok(if status.is_empty() {
        StreamEnd::Disconnected
    } else {
        StreamEnd::Status(status.freeze())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_streams_with_types() {
        let frames = open_streams(&[(ERROR, "error"), (STDIN, "stdin")]);
        let block = |name: &str| {
            let plain = [
                &[0, 0, 0, 1, 0, 0, 0, 10][..],
                b"streamtype",
                &[0, 0, 0, 5],
                name.as_bytes(),
            ]
            .concat();
            // Stored block: length and its complement.
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
    fn end_of_input_sets_fin() {
        assert_eq!(&data(STDIN, 0, b"hi")[..], [0, 0, 0, 3, 0, 0, 0, 2, b'h', b'i']);
        assert_eq!(&data(STDIN, FIN, b"")[..], [0, 0, 0, 3, 1, 0, 0, 0]);
    }
}
