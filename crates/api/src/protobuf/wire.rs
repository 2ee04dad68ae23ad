//! The protobuf wire format: tags, varints, lengths.

use thiserror::Error;

/// Bytes that are not a message of the type they should be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtobufDecodeError {
    /// The bytes do not begin as an object in this form does.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// There are no bytes.
    #[error("empty data")]
    Empty,
    /// There is nothing behind the prefix.
    #[error("empty body")]
    EmptyBody,
    /// The bytes end within a value.
    #[error("unexpected EOF")]
    Truncated,
    /// A varint is longer than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field number is zero or beyond its range.
    #[error("proto: {message}: illegal tag {number}")]
    Tag {
        /// The message.
        message: &'static str,
        /// The number.
        number: u64,
    },
    /// A known field has another wire type than it should.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType {
        /// The wire type.
        wire: u8,
        /// The field.
        field: &'static str,
    },
    /// A wire type that does not exist.
    #[error("proto: illegal wireType {0}")]
    UnknownWireType(u8),
    /// A value that its field cannot hold.
    #[error("{field}: {reason}")]
    Value {
        /// The field.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Messages within messages beyond the limit.
    #[error("exceeded max depth")]
    Depth,
    /// More objects than one request may hold.
    #[error("too many objects in one request")]
    TooMany,
}

/// The wire types in use.
pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const FIXED32: u8 = 5;

/// Reads a message's bytes from the front.
#[derive(Clone, Copy)]
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

/// A tag: the field and how its value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) wire: u8,
}

/// Writes a message's bytes.
#[derive(Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

// --- Reader ---

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next tag; `None` at the end. `message` is named in errors.
    pub(super) fn tag(&mut self, message: &'static str) -> Result<Option<Tag>, ProtobufDecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = key >> 3;
        let wire = (key & 7) as u8;
        match u32::try_from(number) {
            Ok(known) if known != 0 && known < 1 << 29 => Ok(Some(Tag { number: known, wire })),
            _ => Err(ProtobufDecodeError::Tag { message, number }),
        }
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtobufDecodeError> {
        let mut value = 0u64;
        for (position, &byte) in self.rest.iter().enumerate().take(10) {
            // The tenth byte holds the last bit of 64; more would not fit.
            if position == 9 && byte > 1 {
                return Err(ProtobufDecodeError::Overflow);
            }
            value |= u64::from(byte & 0x7f) << (7 * position);
            if byte < 0x80 {
                self.rest = &self.rest[position + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 {
            ProtobufDecodeError::Truncated
        } else {
            ProtobufDecodeError::Overflow
        })
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, ProtobufDecodeError> {
        let (head, rest) = self
            .rest
            .split_first_chunk::<8>()
            .ok_or(ProtobufDecodeError::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*head))
    }

    /// A length and that many bytes. The length is checked against what is there before anything is done.
    pub(super) fn bytes(&mut self) -> Result<&'b [u8], ProtobufDecodeError> {
        let length = usize::try_from(self.varint()?).map_err(|_| ProtobufDecodeError::Truncated)?;
        let (head, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(ProtobufDecodeError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Skips the value of a field that is not known.
    pub(super) fn skip(&mut self, wire: u8) -> Result<(), ProtobufDecodeError> {
        match wire {
            VARINT => self.varint().map(drop),
            FIXED64 => self.fixed64().map(drop),
            BYTES => self.bytes().map(drop),
            FIXED32 => {
                let (_, rest) = self
                    .rest
                    .split_first_chunk::<4>()
                    .ok_or(ProtobufDecodeError::Truncated)?;
                self.rest = rest;
                Ok(())
            }
            // Groups (3, 4) are deprecated; no client writes them.
            _ => Err(ProtobufDecodeError::UnknownWireType(wire)),
        }
    }
}

// --- Tag ---

impl Tag {
    /// Checks the wire type of a known field.
    pub(super) fn is(self, wire: u8, field: &'static str) -> Result<(), ProtobufDecodeError> {
        if self.wire == wire {
            Ok(())
        } else {
            Err(ProtobufDecodeError::WireType {
                wire: self.wire,
                field,
            })
        }
    }
}

// --- Writer ---

impl Writer {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn plain_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push((value & 0x7f) as u8);
    }

    pub(super) fn tag(&mut self, number: u32, wire: u8) {
        self.plain_varint(u64::from(number) << 3 | u64::from(wire));
    }

    pub(super) fn varint(&mut self, number: u32, value: u64) {
        self.tag(number, VARINT);
        self.plain_varint(value);
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.tag(number, FIXED64);
        self.raw(&value.to_bits().to_le_bytes());
    }

    pub(super) fn bytes(&mut self, number: u32, value: &[u8]) {
        self.tag(number, BYTES);
        self.plain_varint(value.len() as u64);
        self.raw(value);
    }

    /// Writes a message within the message.
    pub(super) fn message<E>(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.tag(number, BYTES);
        // The length is known only behind the message. One byte is kept free for it, which is enough for
        // most; a longer length moves the message by the few bytes it needs.
        let position = self.bytes.len();
        self.bytes.push(0);
        write(self)?;
        let mut length = (self.bytes.len() - position - 1) as u64;
        if length < 0x80 {
            self.bytes[position] = (length & 0x7f) as u8;
            return Ok(());
        }
        let mut head = [0u8; 10];
        let mut used = 0;
        while length >= 0x80 {
            head[used] = (length & 0x7f) as u8 | 0x80;
            length >>= 7;
            used += 1;
        }
        head[used] = (length & 0x7f) as u8;
        self.bytes
            .splice(position..=position, head[..=used].iter().copied());
        Ok(())
    }
}
