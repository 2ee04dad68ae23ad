//! Many streams over one connection.

use std::{collections::HashMap, io, sync::Arc};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Mutex, mpsc},
};

use super::{
    Headers,
    frame::{Decoder, Encoder, Frame},
};

/// The most streams at once.
const MOST_STREAMS: usize = 4096;
/// So many pieces of a stream wait for whom they are for; then the connection waits.
const WAITING_PIECES: usize = 16;
/// So many streams wait to be taken.
const WAITING_STREAMS: usize = 64;
const READ: usize = 32 << 10;

/// Why a stream was broken off.
const PROTOCOL_ERROR: u32 = 1;
const REFUSED: u32 = 3;
const CANCEL: u32 = 5;

/// A stream that the other side broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Gone;

/// The reading side of a connection. Streams move only while it runs.
pub(in crate::server) struct Connection<R> {
    reader: R,
    decoder: Decoder,
    buffer: BytesMut,
    writer: Writer,
    /// Who gets what a stream brings. One that has ended is not in here.
    streams: HashMap<u32, mpsc::Sender<Result<Bytes, Gone>>>,
    begun: mpsc::Sender<Stream>,
}

/// A stream that the other side began.
pub(in crate::server) struct Stream {
    /// Its number.
    pub id: u32,
    /// What it is for.
    pub headers: Headers,
    /// What it brings; it ends with the stream.
    pub reader: mpsc::Receiver<Result<Bytes, Gone>>,
    /// Where to answer.
    pub writer: StreamWriter,
}

/// The other direction of a stream.
#[derive(Clone)]
pub(in crate::server) struct StreamWriter {
    id: u32,
    writer: Writer,
}

type Writer = Arc<Mutex<Sink>>;

/// One frame after the other.
struct Sink {
    io: Box<dyn AsyncWrite + Send + Unpin>,
    encoder: Encoder,
}

// --- Connection ---

impl<R: AsyncRead + Unpin + Send> Connection<R> {
    /// A connection over two directions of bytes, and the streams that the other side begins.
    pub(in crate::server) fn new(
        reader: R,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> (Self, mpsc::Receiver<Stream>) {
        let (begun, streams) = mpsc::channel(WAITING_STREAMS);
        let sink = Sink {
            io: Box::new(writer),
            encoder: Encoder::new(),
        };
        let connection = Connection {
            reader,
            decoder: Decoder::new(),
            buffer: BytesMut::with_capacity(READ),
            writer: Arc::new(Mutex::new(sink)),
            streams: HashMap::new(),
            begun,
        };
        (connection, streams)
    }

    /// Reads until the other side ends the connection.
    pub(in crate::server) async fn run(mut self) -> io::Result<()> {
        loop {
            while let Some(frame) = self.decoder.decode(&mut self.buffer).map_err(io::Error::other)? {
                self.handle(frame).await?;
            }
            self.buffer.reserve(READ);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn handle(&mut self, frame: Frame) -> io::Result<()> {
        match frame {
            Frame::Begin {
                stream,
                ends,
                headers,
            } => self.begin(stream, ends, headers).await?,
            Frame::Data { stream, ends, data } => {
                if let Some(to) = self.streams.get(&stream) {
                    // Who does not listen any more is not waited for.
                    if !data.is_empty() {
                        let _ = to.send(Ok(data)).await;
                    }
                    if ends {
                        self.streams.remove(&stream);
                    }
                }
            }
            Frame::Reply { stream, ends, .. } | Frame::More { stream, ends } => {
                if ends {
                    self.streams.remove(&stream);
                }
            }
            Frame::Reset { stream, .. } => {
                if let Some(to) = self.streams.remove(&stream) {
                    let _ = to.send(Err(Gone)).await;
                }
            }
            Frame::Ping(id) => send(&self.writer, &Frame::Ping(id)).await?,
            Frame::GoAway | Frame::Other => {}
        }
        Ok(())
    }

    async fn begin(&mut self, id: u32, ends: bool, headers: Headers) -> io::Result<()> {
        // Streams whose reader is gone need no place.
        if self.streams.len() >= MOST_STREAMS {
            self.streams.retain(|_, to| !to.is_closed());
        }
        let status = if id.is_multiple_of(2) || self.streams.contains_key(&id) {
            Some(PROTOCOL_ERROR)
        } else if self.streams.len() >= MOST_STREAMS {
            Some(REFUSED)
        } else {
            None
        };
        if let Some(status) = status {
            return send(&self.writer, &Frame::Reset { stream: id, status }).await;
        }
        let (to, reader) = mpsc::channel(WAITING_PIECES);
        if !ends {
            self.streams.insert(id, to);
        }
        let stream = Stream {
            id,
            headers,
            reader,
            writer: StreamWriter {
                id,
                writer: Arc::clone(&self.writer),
            },
        };
        self.begun
            .send(stream)
            .await
            .map_err(|_| io::Error::other("nobody takes streams any more"))
    }
}

async fn send(writer: &Writer, frame: &Frame) -> io::Result<()> {
    let mut sink = writer.lock().await;
    let bytes = sink.encoder.encode(frame);
    sink.io.write_all(&bytes).await?;
    sink.io.flush().await
}

// --- StreamWriter ---

impl StreamWriter {
    /// Tells the other side that the stream is taken.
    pub(in crate::server) async fn accept(&self) -> io::Result<()> {
        let frame = Frame::Reply {
            stream: self.id,
            ends: false,
            headers: Headers::default(),
        };
        send(&self.writer, &frame).await
    }

    /// Sends some data, of at most 16 MiB.
    pub(in crate::server) async fn write(&self, data: Bytes) -> io::Result<()> {
        let frame = Frame::Data {
            stream: self.id,
            ends: false,
            data,
        };
        send(&self.writer, &frame).await
    }

    /// Tells the other side that no more will come.
    pub(in crate::server) async fn close(&self) -> io::Result<()> {
        let frame = Frame::Data {
            stream: self.id,
            ends: true,
            data: Bytes::new(),
        };
        send(&self.writer, &frame).await
    }

    /// Breaks the stream off.
    pub(in crate::server) async fn reset(&self) -> io::Result<()> {
        let frame = Frame::Reset {
            stream: self.id,
            status: CANCEL,
        };
        send(&self.writer, &frame).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, ReadHalf, duplex, split};

    use super::*;

    fn connected() -> (
        DuplexStream,
        Connection<ReadHalf<DuplexStream>>,
        mpsc::Receiver<Stream>,
    ) {
        let (client, server) = duplex(1 << 20);
        let (reader, writer) = split(server);
        let (connection, streams) = Connection::new(reader, writer);
        (client, connection, streams)
    }

    fn begin(id: u32) -> Frame {
        Frame::Begin {
            stream: id,
            ends: false,
            headers: Headers::of(&[("streamtype", "data")]),
        }
    }

    fn data(id: u32, ends: bool, text: &'static str) -> Frame {
        Frame::Data {
            stream: id,
            ends,
            data: Bytes::from_static(text.as_bytes()),
        }
    }

    #[tokio::test]
    async fn streams_carry_bytes_both_ways_and_end_each_on_its_own() {
        let (mut client, connection, mut streams) = connected();
        let mut encoder = Encoder::new();
        for frame in [begin(1), begin(3), data(1, true, "one"), data(3, false, "three")] {
            client.write_all(&encoder.encode(&frame)).await.unwrap();
        }
        let conversation = async {
            let mut one = streams.recv().await.unwrap();
            let mut three = streams.recv().await.unwrap();
            assert_eq!((one.id, three.headers.get("streamType")), (1, "data"));
            one.writer.accept().await.unwrap();
            assert_eq!(one.reader.recv().await, Some(Ok(Bytes::from_static(b"one"))));
            assert_eq!(one.reader.recv().await, None);
            one.writer.write(Bytes::from_static(b"answer")).await.unwrap();
            one.writer.close().await.unwrap();
            assert_eq!(three.reader.recv().await, Some(Ok(Bytes::from_static(b"three"))));
            drop(client.shutdown().await);
            let mut buffer = BytesMut::new();
            let mut decoder = Decoder::new();
            let mut frames = Vec::new();
            while frames.len() < 3 {
                while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                    frames.push(frame);
                }
                if frames.len() < 3 {
                    client.read_buf(&mut buffer).await.unwrap();
                }
            }
            assert!(matches!(frames[0], Frame::Reply { stream: 1, .. }));
            assert_eq!(frames[1..], [data(1, false, "answer"), data(1, true, "")]);
        };
        let (run, ()) = tokio::join!(connection.run(), conversation);
        run.unwrap();
    }

    #[tokio::test]
    async fn a_stream_that_was_broken_off_says_so() {
        let (mut client, connection, mut streams) = connected();
        let mut encoder = Encoder::new();
        for frame in [begin(1), Frame::Reset { stream: 1, status: 5 }] {
            client.write_all(&encoder.encode(&frame)).await.unwrap();
        }
        client.shutdown().await.unwrap();
        let (run, got) = tokio::join!(connection.run(), async {
            streams.recv().await.unwrap().reader.recv().await
        });
        run.unwrap();
        assert_eq!(got, Some(Err(Gone)));
    }

    #[tokio::test]
    async fn streams_that_may_not_be_are_refused() {
        let (mut client, connection, _streams) = connected();
        let mut encoder = Encoder::new();
        for frame in [begin(2), begin(1), begin(1), Frame::Ping(9)] {
            client.write_all(&encoder.encode(&frame)).await.unwrap();
        }
        let read = async {
            let mut decoder = Decoder::new();
            let mut buffer = BytesMut::new();
            let mut frames = Vec::new();
            while frames.last() != Some(&Frame::Ping(9)) {
                client.read_buf(&mut buffer).await.unwrap();
                while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                    frames.push(frame);
                }
            }
            drop(client);
            frames
        };
        let (_, frames) = tokio::join!(connection.run(), read);
        let reset = |stream| Frame::Reset {
            stream,
            status: PROTOCOL_ERROR,
        };
        assert_eq!(frames, [reset(2), reset(1), Frame::Ping(9)]);
    }

    #[tokio::test]
    async fn bytes_that_are_no_frames_end_the_connection() {
        let (mut client, connection, _streams) = connected();
        client.write_all(&[0x80, 9, 9, 9, 9, 9, 9, 9]).await.unwrap();
        assert!(connection.run().await.is_err());
    }
}
