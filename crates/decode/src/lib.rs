//! JSON of an API server becomes typed objects, with `null` read as Go reads it.
//!
//! Promises: a field that is `null` is a field that is absent; an element of a list or a value of a map that is `null` is the
//! zero value of its type; a pointer (`Option`) that is `null` is `None`; a field of free form (`Value`, `RawValue`) keeps its
//! `null`. A type needs no attributes for that. An object that `serde_json` can decode costs what it costs there.
//!
//! An API server writes `null` for each empty list that Go's type does not omit (`status.images[].names` of a Node), and older
//! servers may have stored more of them.

mod decode;
mod value;

pub use self::decode::{from_slice, from_str, from_value};
