//! SPDY/3.1, as far as Kubernetes clients use it.
//!
//! ```text
//! frame        encodes and decodes frames, without I/O
//! headers      header blocks and their compression
//! dictionary   the compression dictionary of SPDY/3
//! connection   multiplexes streams over a connection
//! ```
//!
//! Promises: any input decodes to a frame or an error, never a panic. Data is forwarded as it arrives, regardless of the length of
//! its frame. Header blocks have a size limit, also after decompression. There is no flow control with windows: Kubernetes clients
//! do not use it either.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/spdy/spdy.go NewServerConnection

mod connection;
mod dictionary;
mod frame;
mod headers;

#[cfg(test)]
pub(super) use self::frame::{Decoder, Encoder, Frame};
pub(super) use self::{
    connection::{SpdyConnection, SpdyStream, StreamReset, StreamWriter},
    headers::Headers,
};
