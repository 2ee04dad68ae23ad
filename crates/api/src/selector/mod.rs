//! Which objects are meant: by their labels, by their fields.

pub mod field;
pub mod label;
