//! Encodes and decodes frames.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::headers::{Deflater, Headers, Inflater};

/// Maximum size of a control frame.
const MAX_CONTROL_FRAME: usize = 64 << 10;
/// Maximum size of a chunk of data.
const MAX_DATA_CHUNK: usize = 32 << 10;
const HEADER_SIZE: usize = 8;
const VERSION: u16 = 3;
const IS_CONTROL: u32 = 1 << 31;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Frame {
    /// `SYN_STREAM`: creates a stream.
    SynStream {
        stream: u32,
        fin: bool,
        headers: Headers,
    },
    /// `SYN_REPLY`: accepts a stream.
    SynReply {
        stream: u32,
        fin: bool,
        headers: Headers,
    },
    /// `RST_STREAM`: aborts a stream.
    RstStream { stream: u32, status: u32 },
    /// PING: returned unchanged by the receiver.
    Ping(u32),
    /// GOAWAY: no more streams will be created.
    GoAway,
    /// HEADERS: further headers of a stream, which are ignored.
    Headers { stream: u32, fin: bool },
    /// A chunk of data. `fin` closes this direction of the stream.
    Data { stream: u32, fin: bool, data: Bytes },
    /// Any other control frame, which is ignored.
    Unknown,
}

/// Invalid bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(in crate::server) struct FrameError {
    reason: &'static str,
}

/// Decodes frames.
pub(in crate::server) struct Decoder {
    inflater: Inflater,
    /// A data frame that was received only in part.
    data: Option<PartialData>,
}

struct PartialData {
    stream: u32,
    fin: bool,
    remaining: usize,
}

/// Encodes frames.
pub(in crate::server) struct Encoder {
    deflater: Deflater,
}

// --- FrameError ---

impl FrameError {
    pub(super) fn new(reason: &'static str) -> Self {
        FrameError { reason }
    }
}

// --- Decoder ---

impl Decoder {
    /// For a new connection.
    pub(in crate::server) fn new() -> Self {
        Decoder {
            inflater: Inflater::new(),
            data: None,
        }
    }

    /// The next frame, or the next chunk of a data frame; `None` if more bytes are needed.
    pub(in crate::server) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        if let Some(rest) = self.data.take() {
            return Ok(self.data_chunk(rest, buffer));
        }
        let Some(header) = buffer.first_chunk::<HEADER_SIZE>() else {
            return Ok(None);
        };
        let mut header = &header[..];
        let first = header.get_u32();
        let flags = header.get_u8();
        let length = usize::try_from(header.get_uint(3)).unwrap_or(usize::MAX);
        if first & IS_CONTROL == 0 {
            buffer.advance(HEADER_SIZE);
            let rest = PartialData {
                stream: first,
                fin: flags & FIN != 0,
                remaining: length,
            };
            return Ok(self.data_chunk(rest, buffer));
        }
        if (first >> 16) & 0x7fff != u32::from(VERSION) {
            return Err(FrameError::new("unsupported SPDY version"));
        }
        if length > MAX_CONTROL_FRAME {
            return Err(FrameError::new("control frame is too long"));
        }
        if buffer.len() < HEADER_SIZE + length {
            return Ok(None);
        }
        buffer.advance(HEADER_SIZE);
        let body = buffer.split_to(length);
        let kind = u16::try_from(first & 0xffff).expect("16 bits are left");
        self.control(kind, flags, &body).map(Some)
    }

    /// The received part of a data frame.
    fn data_chunk(&mut self, mut rest: PartialData, buffer: &mut BytesMut) -> Option<Frame> {
        if rest.remaining > 0 && buffer.is_empty() {
            self.data = Some(rest);
            return None;
        }
        let data = buffer
            .split_to(rest.remaining.min(buffer.len()).min(MAX_DATA_CHUNK))
            .freeze();
        rest.remaining -= data.len();
        let frame = Frame::Data {
            stream: rest.stream,
            fin: rest.fin && rest.remaining == 0,
            data,
        };
        if rest.remaining > 0 {
            self.data = Some(rest);
        }
        Some(frame)
    }

    fn control(&mut self, kind: u16, flags: u8, mut body: &[u8]) -> Result<Frame, FrameError> {
        let fin = flags & FIN != 0;
        let mut number = || {
            body.try_get_u32()
                .map_err(|_| FrameError::new("control frame is too short"))
        };
        Ok(match kind {
            SYN_STREAM => {
                let stream = number()? & !IS_CONTROL;
                // The associated stream, and the priority after it, are not used.
                number()?;
                let rest = body
                    .get(2..)
                    .ok_or_else(|| FrameError::new("control frame is too short"))?;
                let headers = self.inflater.read(rest)?;
                Frame::SynStream { stream, fin, headers }
            }
            SYN_REPLY => {
                let stream = number()? & !IS_CONTROL;
                let headers = self.inflater.read(body)?;
                Frame::SynReply { stream, fin, headers }
            }
            HEADERS => {
                let stream = number()? & !IS_CONTROL;
                // Ignored headers must be decompressed too: all blocks of a connection share one compression state.
                self.inflater.read(body)?;
                Frame::Headers { stream, fin }
            }
            RST_STREAM => Frame::RstStream {
                stream: number()? & !IS_CONTROL,
                status: number()?,
            },
            PING => Frame::Ping(number()?),
            GO_AWAY => Frame::GoAway,
            _ => Frame::Unknown,
        })
    }
}

// --- Encoder ---

impl Encoder {
    /// For a new connection.
    pub(in crate::server) fn new() -> Self {
        Encoder {
            deflater: Deflater::new(),
        }
    }

    /// Encodes a frame. Data must be shorter than 16 MiB, the limit of the length field.
    pub(in crate::server) fn encode(&mut self, frame: &Frame) -> BytesMut {
        let end = |fin: &bool| if *fin { FIN } else { 0 };
        let mut body = Vec::new();
        let (kind, flags) = match frame {
            Frame::SynStream { stream, fin, headers } => {
                body.put_u32(*stream);
                body.put_u32(0);
                body.put_u16(0);
                body.extend(self.deflater.write(headers));
                (SYN_STREAM, end(fin))
            }
            Frame::SynReply { stream, fin, headers } => {
                body.put_u32(*stream);
                body.extend(self.deflater.write(headers));
                (SYN_REPLY, end(fin))
            }
            Frame::RstStream { stream, status } => {
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
            Frame::Headers { stream, fin } => {
                body.put_u32(*stream);
                body.extend(self.deflater.write(&Headers::default()));
                (HEADERS, end(fin))
            }
            Frame::Data { stream, fin, data } => {
                let mut bytes = BytesMut::with_capacity(HEADER_SIZE + data.len());
                bytes.put_u32(stream & !IS_CONTROL);
                bytes.put_u8(end(fin));
                bytes.put_uint(data.len() as u64, 3);
                bytes.extend_from_slice(data);
                return bytes;
            }
            Frame::Unknown => return BytesMut::new(),
        };
        let mut bytes = BytesMut::with_capacity(HEADER_SIZE + body.len());
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

    fn decode_all(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut decoder = Decoder::new();
        let mut buffer = BytesMut::from(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = decoder.decode(&mut buffer)? {
            frames.push(frame);
        }
        Ok(frames)
    }

    fn sample_frames() -> Vec<Frame> {
        let headers = Headers::of(&[("streamtype", "error")]);
        vec![
            Frame::SynStream {
                stream: 1,
                fin: true,
                headers: headers.clone(),
            },
            Frame::SynReply {
                stream: 1,
                fin: false,
                headers,
            },
            Frame::Data {
                stream: 1,
                fin: false,
                data: Bytes::from_static(b"hello"),
            },
            Frame::Data {
                stream: 1,
                fin: true,
                data: Bytes::new(),
            },
            Frame::Headers {
                stream: 3,
                fin: false,
            },
            Frame::RstStream { stream: 3, status: 5 },
            Frame::Ping(7),
            Frame::GoAway,
        ]
    }

    #[test]
    fn decodes_encoded_frames() {
        let mut encoder = Encoder::new();
        let bytes: Vec<u8> = sample_frames()
            .iter()
            .flat_map(|frame| encoder.encode(frame))
            .collect();
        assert_eq!(decode_all(&bytes).unwrap(), sample_frames());
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
    fn encodes_frames_per_specification() {
        let mut encoder = Encoder::new();
        assert_eq!(
            &encoder.encode(&Frame::Ping(2))[..],
            [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 2]
        );
        assert_eq!(
            &encoder.encode(&Frame::RstStream { stream: 5, status: 3 })[..],
            [0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 3]
        );
        let data = Frame::Data {
            stream: 3,
            fin: true,
            data: Bytes::from_static(b"ab"),
        };
        assert_eq!(&encoder.encode(&data)[..], [0, 0, 0, 3, 1, 0, 0, 2, b'a', b'b']);
    }

    #[test]
    fn forwards_data_before_end_of_frame() {
        // The frame has a length of 16 MiB; its first byte is forwarded nevertheless.
        let mut buffer = BytesMut::from(&[0, 0, 0, 1, 1, 0xff, 0xff, 0xff, b'a'][..]);
        let mut decoder = Decoder::new();
        let frame = decoder.decode(&mut buffer).unwrap();
        assert_eq!(
            frame,
            Some(Frame::Data {
                stream: 1,
                fin: false,
                data: Bytes::from_static(b"a")
            })
        );
        assert_eq!(decoder.decode(&mut buffer).unwrap(), None);
    }

    #[test]
    fn rejects_invalid_frames() {
        for bytes in [
            // Another version.
            vec![0x80, 2, 0, 1, 0, 0, 0, 0],
            // A long frame.
            vec![0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff],
            // Frames that are too short.
            vec![0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0],
            vec![0x80, 3, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1],
            vec![0x80, 3, 0, 6, 0, 0, 0, 0],
            // Invalid headers.
            vec![0x80, 3, 0, 2, 0, 0, 0, 8, 0, 0, 0, 1, 1, 2, 3, 4],
        ] {
            assert!(decode_all(&bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn never_panics() {
        // Frames with one changed byte, and pseudo-random bytes.
        let mut encoder = Encoder::new();
        let good: Vec<u8> = sample_frames()
            .iter()
            .flat_map(|frame| encoder.encode(frame))
            .collect();
        for at in 0..good.len() {
            for change in [1, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[at] ^= change;
                let _ = decode_all(&bytes);
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
            let _ = decode_all(&bytes);
        }
    }
}
