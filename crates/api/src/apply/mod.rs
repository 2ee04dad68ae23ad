//! Server-side apply: ownership of fields, merging and conflicts.
//!
//! Promises: what is recorded of an object, and what an apply makes of it, is what upstream's servers
//! would record and make, down to the order of the fields. Nothing here knows a clock: the time of a write
//! is passed in. An object that did not change keeps its record.

mod element;
mod fields_v1;
#[cfg(test)]
mod laws;
pub mod managed;
mod order;
mod set;
pub mod typed;

pub use self::{
    element::{BadElement, KeyField, PathElement},
    fields_v1::BadFields,
    set::{FieldSet, Path},
};
