//! Multiplexes streams over a connection.

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

/// Maximum number of open streams.
const MAX_STREAMS: usize = 4096;
/// Number of buffered chunks per stream; then the connection is not read any more.
const STREAM_CAPACITY: usize = 16;
/// Number of new streams that wait to be handled.
const NEW_STREAM_CAPACITY: usize = 64;
const READ_SIZE: usize = 32 << 10;

/// Status codes of `RST_STREAM`.
const PROTOCOL_ERROR: u32 = 1;
const REFUSED_STREAM: u32 = 3;
const CANCEL: u32 = 5;

/// The client reset the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct StreamReset;

/// Dispatches received frames to the streams while [`SpdyConnection::run`] runs.
pub(in crate::server) struct SpdyConnection<R> {
    reader: R,
    decoder: Decoder,
    buffer: BytesMut,
    writer: Writer,
    /// Receivers of the streams that the client has not closed.
    streams: HashMap<u32, mpsc::Sender<Result<Bytes, StreamReset>>>,
    new_streams: mpsc::Sender<SpdyStream>,
}

/// A stream that the client created.
pub(in crate::server) struct SpdyStream {
    /// Stream ID.
    pub id: u32,
    /// Headers of `SYN_STREAM`.
    pub headers: Headers,
    /// Received data; ends when the client closes the stream.
    pub reader: mpsc::Receiver<Result<Bytes, StreamReset>>,
    /// Writer to the client.
    pub writer: StreamWriter,
}

/// Writer of a stream.
#[derive(Clone)]
pub(in crate::server) struct StreamWriter {
    id: u32,
    writer: Writer,
}

type Writer = Arc<Mutex<FrameSink>>;

/// Writes whole frames.
struct FrameSink {
    io: Box<dyn AsyncWrite + Send + Unpin>,
    encoder: Encoder,
}

/// Whether the client will send data on a new stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientHalf {
    Open,
    Closed,
}

// --- SpdyConnection ---

impl<R: AsyncRead + Unpin + Send> SpdyConnection<R> {
    /// A connection, and the receiver of the streams that the client creates.
    pub(in crate::server) fn new(
        reader: R,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> (Self, mpsc::Receiver<SpdyStream>) {
        let (new_streams, streams) = mpsc::channel(NEW_STREAM_CAPACITY);
        let sink = FrameSink {
            io: Box::new(writer),
            encoder: Encoder::new(),
        };
        let connection = SpdyConnection {
            reader,
            decoder: Decoder::new(),
            buffer: BytesMut::with_capacity(READ_SIZE),
            writer: Arc::new(Mutex::new(sink)),
            streams: HashMap::new(),
            new_streams,
        };
        (connection, streams)
    }

    /// Reads until the client closes the connection.
    pub(in crate::server) async fn run(mut self) -> io::Result<()> {
        loop {
            while let Some(frame) = self.decoder.decode(&mut self.buffer).map_err(io::Error::other)? {
                self.handle(frame).await?;
            }
            self.buffer.reserve(READ_SIZE);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn handle(&mut self, frame: Frame) -> io::Result<()> {
        match frame {
            Frame::SynStream { stream, fin, headers } => {
                let client_half = if fin { ClientHalf::Closed } else { ClientHalf::Open };
                self.create_stream(stream, client_half, headers).await?;
            }
            Frame::Data { stream, fin, data } => {
                if let Some(to) = self.streams.get(&stream) {
                    // The receiver may have been dropped: then the data is, too.
                    if !data.is_empty() {
                        let _ = to.send(Ok(data)).await;
                    }
                    if fin {
                        self.streams.remove(&stream);
                    }
                }
            }
            Frame::SynReply { stream, fin, .. } | Frame::Headers { stream, fin } => {
                if fin {
                    self.streams.remove(&stream);
                }
            }
            Frame::RstStream { stream, .. } => {
                if let Some(to) = self.streams.remove(&stream) {
                    let _ = to.send(Err(StreamReset)).await;
                }
            }
            Frame::Ping(id) => send_frame(&self.writer, &Frame::Ping(id)).await?,
            Frame::GoAway | Frame::Unknown => {}
        }
        Ok(())
    }

    async fn create_stream(&mut self, id: u32, client_half: ClientHalf, headers: Headers) -> io::Result<()> {
        // Streams with a dropped receiver do not count.
        if self.streams.len() >= MAX_STREAMS {
            self.streams.retain(|_, to| !to.is_closed());
        }
        // Stream IDs of a client are odd.
        let status = if id.is_multiple_of(2) || self.streams.contains_key(&id) {
            Some(PROTOCOL_ERROR)
        } else if self.streams.len() >= MAX_STREAMS {
            Some(REFUSED_STREAM)
        } else {
            None
        };
        if let Some(status) = status {
            return send_frame(&self.writer, &Frame::RstStream { stream: id, status }).await;
        }
        let (to, reader) = mpsc::channel(STREAM_CAPACITY);
        if client_half == ClientHalf::Open {
            self.streams.insert(id, to);
        }
        let stream = SpdyStream {
            id,
            headers,
            reader,
            writer: StreamWriter {
                id,
                writer: Arc::clone(&self.writer),
            },
        };
        self.new_streams
            .send(stream)
            .await
            .map_err(|_| io::Error::other("the session does not accept streams any more"))
    }
}

async fn send_frame(writer: &Writer, frame: &Frame) -> io::Result<()> {
    let mut sink = writer.lock().await;
    let bytes = sink.encoder.encode(frame);
    sink.io.write_all(&bytes).await?;
    sink.io.flush().await
}

// --- StreamWriter ---

impl StreamWriter {
    /// Accepts the stream.
    pub(in crate::server) async fn accept(&self) -> io::Result<()> {
        let frame = Frame::SynReply {
            stream: self.id,
            fin: false,
            headers: Headers::default(),
        };
        send_frame(&self.writer, &frame).await
    }

    /// Sends data of at most 16 MiB.
    pub(in crate::server) async fn write(&self, data: Bytes) -> io::Result<()> {
        let frame = Frame::Data {
            stream: self.id,
            fin: false,
            data,
        };
        send_frame(&self.writer, &frame).await
    }

    /// Closes this direction of the stream.
    pub(in crate::server) async fn close(&self) -> io::Result<()> {
        let frame = Frame::Data {
            stream: self.id,
            fin: true,
            data: Bytes::new(),
        };
        send_frame(&self.writer, &frame).await
    }

    /// Resets the stream.
    pub(in crate::server) async fn reset(&self) -> io::Result<()> {
        let frame = Frame::RstStream {
            stream: self.id,
            status: CANCEL,
        };
        send_frame(&self.writer, &frame).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, ReadHalf, duplex, split};

    use super::*;

    fn connected() -> (
        DuplexStream,
        SpdyConnection<ReadHalf<DuplexStream>>,
        mpsc::Receiver<SpdyStream>,
    ) {
        let (client, server) = duplex(1 << 20);
        let (reader, writer) = split(server);
        let (connection, streams) = SpdyConnection::new(reader, writer);
        (client, connection, streams)
    }

    fn syn_stream(id: u32) -> Frame {
        Frame::SynStream {
            stream: id,
            fin: false,
            headers: Headers::of(&[("streamtype", "data")]),
        }
    }

    fn data(id: u32, text: &'static str) -> Frame {
        Frame::Data {
            stream: id,
            fin: false,
            data: Bytes::from_static(text.as_bytes()),
        }
    }

    fn last_data(id: u32, text: &'static str) -> Frame {
        Frame::Data {
            stream: id,
            fin: true,
            data: Bytes::from_static(text.as_bytes()),
        }
    }

    #[tokio::test]
    async fn streams_copy_both_ways_and_close_independently() {
        let (mut client, connection, mut streams) = connected();
        let mut encoder = Encoder::new();
        for frame in [
            syn_stream(1),
            syn_stream(3),
            last_data(1, "one"),
            data(3, "three"),
        ] {
            client.write_all(&encoder.encode(&frame)).await.unwrap();
        }
        let session = async {
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
            assert!(matches!(frames[0], Frame::SynReply { stream: 1, .. }));
            assert_eq!(frames[1..], [data(1, "answer"), last_data(1, "")]);
        };
        let (run, ()) = tokio::join!(connection.run(), session);
        run.unwrap();
    }

    #[tokio::test]
    async fn reports_reset_stream() {
        let (mut client, connection, mut streams) = connected();
        let mut encoder = Encoder::new();
        for frame in [syn_stream(1), Frame::RstStream { stream: 1, status: 5 }] {
            client.write_all(&encoder.encode(&frame)).await.unwrap();
        }
        client.shutdown().await.unwrap();
        let (run, got) = tokio::join!(connection.run(), async {
            streams.recv().await.unwrap().reader.recv().await
        });
        run.unwrap();
        assert_eq!(got, Some(Err(StreamReset)));
    }

    #[tokio::test]
    async fn rejects_even_and_duplicate_stream_ids() {
        let (mut client, connection, _streams) = connected();
        let mut encoder = Encoder::new();
        for frame in [syn_stream(2), syn_stream(1), syn_stream(1), Frame::Ping(9)] {
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
        let reset = |stream| Frame::RstStream {
            stream,
            status: PROTOCOL_ERROR,
        };
        assert_eq!(frames, [reset(2), reset(1), Frame::Ping(9)]);
    }

    #[tokio::test]
    async fn invalid_frame_ends_connection() {
        let (mut client, connection, _streams) = connected();
        client.write_all(&[0x80, 9, 9, 9, 9, 9, 9, 9]).await.unwrap();
        assert!(connection.run().await.is_err());
    }
}
