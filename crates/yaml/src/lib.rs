//! Writes JSON trees as YAML.
//!
//! Promises: the text is that of `sigs.k8s.io/yaml`, which the API server and kubectl use: block style, keys in natural order,
//! lists as far in as their key, long texts folded at 80 columns; a YAML 1.1 reader reads the same tree. No input panics.

mod emitter;
mod key_order;
mod number;
mod scalar;

pub use self::emitter::to_string;
