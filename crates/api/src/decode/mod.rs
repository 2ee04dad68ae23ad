//! Request bodies to objects: JSON and YAML, with the strictness and the messages of upstream.
//!
//! Promises: an object of a built-in type is decoded in normal form, which is what Go's structs would encode for
//! it: fields that are not known are dropped (and reported), `null` is as good as absent, values that say
//! nothing are left out, and those that are always written are there. What upstream accepts is accepted; what
//! it refuses is refused with its text: syntax before types, the first wrong type, with the path to it.
//! Duplicate and unknown fields are reported as [`StrictError`]s, in the order of the text. No body makes decoding panic,
//! overflow the stack, or build more than a bounded number of objects.

mod error;
mod leaf;
mod lexer;
mod normal;
mod number;
mod path;
#[cfg(test)]
mod tests;
mod tree;
mod typed;
mod yaml;

pub use self::error::{DecodeError, StrictError, StrictErrors};
pub(crate) use self::leaf::{Precision, quantity};
pub(crate) use self::lexer::MAX_DEPTH;
pub use self::normal::normalize_in_place;
pub(crate) use self::number::float;
pub use self::tree::{
    DecodedBody, TypeMeta, duplicates, json, json_type, normalize, tree_of, type_of, untyped,
};
pub use self::yaml::{yaml, yaml_to_json, yaml_tree};
