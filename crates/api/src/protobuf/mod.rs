//! Objects as protobuf: `application/vnd.kubernetes.protobuf`.
//!
//! Promises: every built-in kind is read and written, driven by [`crate::schema`], with no generated code; an
//! object in normal form (see [`crate::decode`]) that is written and read again is the same, but for what
//! messages cannot tell: an empty list or map from none, and `kind` and `apiVersion` of objects within
//! objects. Bytes are laid out as Go's generated code lays them out: fields in the order of their numbers,
//! map keys sorted, numbers not packed, values that are not pointers written even if they are zero. Fields
//! that are not known are skipped. Nothing in a hostile message makes reading panic, recurse without end, or
//! build more than a bounded number of objects.

mod envelope;
mod leaf;
mod reading;
#[cfg(test)]
mod tests;
mod wire;
mod writing;

pub use self::envelope::{
    MAGIC, Unknown, decode, encode, encode_list, is_protobuf, unwrap, watch_event, wrap,
};
pub use self::reading::decode_message;
pub use self::wire::ProtobufDecodeError;
pub use self::writing::{ProtobufEncodeError, encode_message};
