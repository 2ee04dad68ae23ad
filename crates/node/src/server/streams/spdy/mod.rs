//! SPDY/3.1, as far as clients of Kubernetes speak it.
//!
//! ```text
//! frame        bytes to frames and back; no I/O
//! headers      blocks of headers, and their compression
//! dictionary   what both sides know of headers beforehand
//! connection   many streams over one connection
//! ```
//!
//! Promises: whatever the other side sends is a frame or an error, never a panic. A frame of data is handed on as it comes,
//! whatever its length says; headers are short or refused, also when they were compressed well. Windows are not kept: neither
//! do the clients.

mod connection;
mod dictionary;
mod frame;
mod headers;

#[cfg(test)]
pub(super) use self::frame::{Decoder, Encoder, Frame};
pub(super) use self::{
    connection::{Connection, Gone, Stream, StreamWriter},
    headers::Headers,
};
