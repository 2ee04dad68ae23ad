//! Bytes to frames and back.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::headers::{Deflater, Headers, Inflater};

/// The longest frame that is not data.
const LONGEST_CONTROL: usize = 64 << 10;
/// The longest piece in which data is handed on.
const LONGEST_PIECE: usize = 32 << 10;
const HEAD: usize = 8;
const VERSION: u16 = 3;
const IS_CONTROL: u32 = 1 << 31;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;

/// What one side tells the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Frame {
    /// A stream begins.
    Begin {
        stream: u32,
        ends: bool,
        headers: Headers,
    },
    /// It was taken.
    Reply {
        stream: u32,
        ends: bool,
        headers: Headers,
    },
    /// It is broken off.
    Reset { stream: u32, status: u32 },
    /// Whether the other side is there; the answer is the same.
    Ping(u32),
    /// No more streams are begun.
    GoAway,
    /// More headers of a stream.
    More { stream: u32, ends: bool },
    /// Some data. With `ends` there is no more in this direction.
    Data { stream: u32, ends: bool, data: Bytes },
    /// Something that is of no interest here.
    Other,
}

/// Bytes that are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(in crate::server) struct BadFrame {
    why: &'static str,
}

/// Makes frames of bytes.
pub(in crate::server) struct Decoder {
    inflater: Inflater,
    /// A frame of data that has only partly come.
    data: Option<Rest>,
}

struct Rest {
    stream: u32,
    ends: bool,
    left: usize,
}

/// Makes bytes of frames.
pub(in crate::server) struct Encoder {
    deflater: Deflater,
}

// --- BadFrame ---

impl BadFrame {
    pub(super) fn new(why: &'static str) -> Self {
        BadFrame { why }
    }
}

// --- Decoder ---

impl Decoder {
    /// At the beginning of a connection.
    pub(in crate::server) fn new() -> Self {
        Decoder {
            inflater: Inflater::new(),
            data: None,
        }
    }

    /// The next frame, or the next piece of one with data; `None` when there are not enough bytes for one.
    pub(in crate::server) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, BadFrame> {
        if let Some(rest) = self.data.take() {
            return Ok(self.piece(rest, buffer));
        }
        let Some(head) = buffer.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let mut head = &head[..];
        let first = head.get_u32();
        let flags = head.get_u8();
        let length = usize::try_from(head.get_uint(3)).unwrap_or(usize::MAX);
        if first & IS_CONTROL == 0 {
            buffer.advance(HEAD);
            let rest = Rest {
                stream: first,
                ends: flags & FIN != 0,
                left: length,
            };
            return Ok(self.piece(rest, buffer));
        }
        if (first >> 16) & 0x7fff != u32::from(VERSION) {
            return Err(BadFrame::new("a frame is of another version of SPDY"));
        }
        if length > LONGEST_CONTROL {
            return Err(BadFrame::new("a frame is too long"));
        }
        if buffer.len() < HEAD + length {
            return Ok(None);
        }
        buffer.advance(HEAD);
        let body = buffer.split_to(length);
        let kind = u16::try_from(first & 0xffff).unwrap_or_default();
        self.control(kind, flags & FIN != 0, &body).map(Some)
    }

    /// As much of a frame of data as there is.
    fn piece(&mut self, mut rest: Rest, buffer: &mut BytesMut) -> Option<Frame> {
        if rest.left > 0 && buffer.is_empty() {
            self.data = Some(rest);
            return None;
        }
        let data = buffer
            .split_to(rest.left.min(buffer.len()).min(LONGEST_PIECE))
            .freeze();
        rest.left -= data.len();
        let frame = Frame::Data {
            stream: rest.stream,
            ends: rest.ends && rest.left == 0,
            data,
        };
        if rest.left > 0 {
            self.data = Some(rest);
        }
        Some(frame)
    }

    fn control(&mut self, kind: u16, ends: bool, mut body: &[u8]) -> Result<Frame, BadFrame> {
        let mut number = || {
            body.try_get_u32()
                .map_err(|_| BadFrame::new("a frame ends too early"))
        };
        Ok(match kind {
            SYN_STREAM => {
                let stream = number()? & !IS_CONTROL;
                // Which stream it belongs to, and how urgent it is, is of no use here.
                number()?;
                let rest = body
                    .get(2..)
                    .ok_or_else(|| BadFrame::new("a frame ends too early"))?;
                let headers = self.inflater.read(rest)?;
                Frame::Begin {
                    stream,
                    ends,
                    headers,
                }
            }
            SYN_REPLY => {
                let stream = number()? & !IS_CONTROL;
                let headers = self.inflater.read(body)?;
                Frame::Reply {
                    stream,
                    ends,
                    headers,
                }
            }
            HEADERS => {
                let stream = number()? & !IS_CONTROL;
                // They are part of the compressed stream, whether somebody wants to know them or not.
                self.inflater.read(body)?;
                Frame::More { stream, ends }
            }
            RST_STREAM => Frame::Reset {
                stream: number()? & !IS_CONTROL,
                status: number()?,
            },
            PING => Frame::Ping(number()?),
            GO_AWAY => Frame::GoAway,
            _ => Frame::Other,
        })
    }
}

// --- Encoder ---

impl Encoder {
    /// At the beginning of a connection.
    pub(in crate::server) fn new() -> Self {
        Encoder {
            deflater: Deflater::new(),
        }
    }

    /// The bytes of a frame. Data must be shorter than 16 MiB.
    pub(in crate::server) fn encode(&mut self, frame: &Frame) -> BytesMut {
        let end = |ends: &bool| if *ends { FIN } else { 0 };
        let mut body = Vec::new();
        let (kind, flags) = match frame {
            Frame::Begin {
                stream,
                ends,
                headers,
            } => {
                body.put_u32(*stream);
                body.put_u32(0);
                body.put_u16(0);
                body.extend(self.deflater.write(headers));
                (SYN_STREAM, end(ends))
            }
            Frame::Reply {
                stream,
                ends,
                headers,
            } => {
                body.put_u32(*stream);
                body.extend(self.deflater.write(headers));
                (SYN_REPLY, end(ends))
            }
            Frame::Reset { stream, status } => {
                body.put_u32(*stream);
                body.put_u32(*status);
                (RST_STREAM, 0)
            }
            Frame::Ping(id) => {
                body.put_u32(*id);
                (PING, 0)
            }
            Frame::GoAway => {
                body.put_u64(0);
                (GO_AWAY, 0)
            }
            Frame::More { stream, ends } => {
                body.put_u32(*stream);
                body.extend(self.deflater.write(&Headers::default()));
                (HEADERS, end(ends))
            }
            Frame::Data { stream, ends, data } => {
                let mut bytes = BytesMut::with_capacity(HEAD + data.len());
                bytes.put_u32(stream & !IS_CONTROL);
                bytes.put_u8(end(ends));
                bytes.put_uint(data.len() as u64, 3);
                bytes.extend_from_slice(data);
                return bytes;
            }
            Frame::Other => return BytesMut::new(),
        };
        let mut bytes = BytesMut::with_capacity(HEAD + body.len());
        bytes.put_u32(IS_CONTROL | (u32::from(VERSION) << 16) | u32::from(kind));
        bytes.put_u8(flags);
        bytes.put_uint(body.len() as u64, 3);
        bytes.extend_from_slice(&body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Frame>, BadFrame> {
        let mut decoder = Decoder::new();
        let mut buffer = BytesMut::from(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = decoder.decode(&mut buffer)? {
            frames.push(frame);
        }
        Ok(frames)
    }

    fn some_frames() -> Vec<Frame> {
        let headers = Headers::of(&[("streamtype", "error")]);
        vec![
            Frame::Begin {
                stream: 1,
                ends: true,
                headers: headers.clone(),
            },
            Frame::Reply {
                stream: 1,
                ends: false,
                headers,
            },
            Frame::Data {
                stream: 1,
                ends: false,
                data: Bytes::from_static(b"hello"),
            },
            Frame::Data {
                stream: 1,
                ends: true,
                data: Bytes::new(),
            },
            Frame::More {
                stream: 3,
                ends: false,
            },
            Frame::Reset { stream: 3, status: 5 },
            Frame::Ping(7),
            Frame::GoAway,
        ]
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut encoder = Encoder::new();
        let bytes: Vec<u8> = some_frames()
            .iter()
            .flat_map(|frame| encoder.encode(frame))
            .collect();
        assert_eq!(all(&bytes).unwrap(), some_frames());
        // The same byte by byte.
        let mut decoder = Decoder::new();
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for byte in bytes {
            buffer.put_u8(byte);
            while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                frames.push(frame);
            }
        }
        let data = |frames: &[Frame]| -> Vec<u8> {
            let pieces = frames.iter().filter_map(|frame| match frame {
                Frame::Data { data, .. } => Some(data.to_vec()),
                _ => None,
            });
            pieces.flatten().collect()
        };
        assert_eq!(data(&frames), b"hello");
    }

    #[test]
    fn bytes_are_those_of_the_specification() {
        let mut encoder = Encoder::new();
        assert_eq!(
            &encoder.encode(&Frame::Ping(2))[..],
            [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 2]
        );
        assert_eq!(
            &encoder.encode(&Frame::Reset { stream: 5, status: 3 })[..],
            [0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 3]
        );
        let data = Frame::Data {
            stream: 3,
            ends: true,
            data: Bytes::from_static(b"ab"),
        };
        assert_eq!(&encoder.encode(&data)[..], [0, 0, 0, 3, 1, 0, 0, 2, b'a', b'b']);
    }

    #[test]
    fn data_is_handed_on_before_all_of_it_has_come() {
        // It says that there are 16 MiB, and nobody waits for them.
        let mut buffer = BytesMut::from(&[0, 0, 0, 1, 1, 0xff, 0xff, 0xff, b'a'][..]);
        let mut decoder = Decoder::new();
        let frame = decoder.decode(&mut buffer).unwrap();
        assert_eq!(
            frame,
            Some(Frame::Data {
                stream: 1,
                ends: false,
                data: Bytes::from_static(b"a")
            })
        );
        assert_eq!(decoder.decode(&mut buffer).unwrap(), None);
    }

    #[test]
    fn hostile_bytes_are_errors() {
        for bytes in [
            // Another version.
            vec![0x80, 2, 0, 1, 0, 0, 0, 0],
            // A long frame.
            vec![0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff],
            // Frames that are too short.
            vec![0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0],
            vec![0x80, 3, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1],
            vec![0x80, 3, 0, 6, 0, 0, 0, 0],
            // Headers that are none.
            vec![0x80, 3, 0, 2, 0, 0, 0, 8, 0, 0, 0, 1, 1, 2, 3, 4],
        ] {
            assert!(all(&bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        // Frames with one byte after the other changed, and bytes from a simple generator.
        let mut encoder = Encoder::new();
        let good: Vec<u8> = some_frames()
            .iter()
            .flat_map(|frame| encoder.encode(frame))
            .collect();
        for at in 0..good.len() {
            for change in [1, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[at] ^= change;
                let _ = all(&bytes);
            }
        }
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..2000 {
            let mut bytes = vec![0x80, 3, 0];
            for _ in 0..64 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                bytes.push(seed.to_le_bytes()[0] & 0x0f);
            }
            let _ = all(&bytes);
        }
    }
}
