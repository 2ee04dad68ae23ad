//! Multiplexed output: without a terminal, stdout and stderr share one connection, and each frame names its stream.

use bytes::{Buf, Bytes, BytesMut};

use crate::runtime::LogStream;

/// Length of a frame header: stream, three zero bytes, four bytes of length.
const HEADER: usize = 8;

/// Decodes frames from chunks of any size.
#[derive(Debug)]
pub(super) struct FrameDecoder {
    /// Whether the connection is multiplexed; with a terminal it is not.
    is_framed: bool,
    buffer: BytesMut,
}

// --- FrameDecoder ---

impl FrameDecoder {
    /// For the output of a process without a terminal.
    pub(super) fn multiplexed() -> Self {
        Self {
            is_framed: true,
            buffer: BytesMut::new(),
        }
    }

    /// For the output of a terminal.
    pub(super) fn raw() -> Self {
        Self {
            is_framed: false,
            buffer: BytesMut::new(),
        }
    }

    /// Appends received bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete frame.
    pub(super) fn next(&mut self) -> Option<(LogStream, Bytes)> {
        if !self.is_framed {
            let all = self.buffer.split().freeze();
            return (!all.is_empty()).then_some((LogStream::Stdout, all));
        }
        let header = self.buffer.get(..HEADER)?;
        let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let length = usize::try_from(length).ok()?;
        let stream = if header[0] == 2 {
            LogStream::Stderr
        } else {
            LogStream::Stdout
        };
        if self.buffer.len() < HEADER + length {
            return None;
        }
        self.buffer.advance(HEADER);
        Some((stream, self.buffer.split_to(length).freeze()))
    }

    /// Returns the next frame, or the next line where there are no frames.
    pub(super) fn next_line(&mut self) -> Option<(LogStream, Bytes)> {
        if self.is_framed {
            return self.next();
        }
        let newline = self.buffer.iter().position(|byte| *byte == b'\n')?;
        Some((LogStream::Stdout, self.buffer.split_to(newline + 1).freeze()))
    }

    /// The same at the end of the stream, where the last line may be unterminated.
    pub(super) fn next_line_at_end(&mut self) -> Option<(LogStream, Bytes)> {
        self.next_line().or_else(|| {
            let is_unterminated = !self.is_framed && !self.buffer.is_empty();
            is_unterminated.then(|| (LogStream::Stdout, self.buffer.split().freeze()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &[u8] = b"\x01\0\0\0\0\0\0\x02hi\x02\0\0\0\0\0\0\x03oh\n\x01\0\0\0\0\0\0\0";

    #[test]
    fn decodes_frames_across_chunks() {
        for piece in [1, 3, 9, SENT.len()] {
            let mut frames = FrameDecoder::multiplexed();
            let mut found = Vec::new();
            for bytes in SENT.chunks(piece) {
                frames.push(bytes);
                while let Some((stream, bytes)) = frames.next() {
                    found.push((stream, bytes));
                }
            }
            let expected = [
                (LogStream::Stdout, Bytes::from_static(b"hi")),
                (LogStream::Stderr, Bytes::from_static(b"oh\n")),
                (LogStream::Stdout, Bytes::new()),
            ];
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn does_not_decode_terminal_output() {
        let mut frames = FrameDecoder::raw();
        frames.push(b"\x01\x02\x00raw");
        assert_eq!(
            frames.next(),
            Some((LogStream::Stdout, Bytes::from_static(b"\x01\x02\x00raw")))
        );
        assert_eq!(frames.next(), None);
        frames.push(b"one\ntw");
        assert_eq!(
            frames.next_line(),
            Some((LogStream::Stdout, Bytes::from_static(b"one\n")))
        );
        assert_eq!(frames.next_line(), None);
        assert_eq!(
            frames.next_line_at_end(),
            Some((LogStream::Stdout, Bytes::from_static(b"tw")))
        );
        assert_eq!(frames.next_line_at_end(), None);
    }
}
