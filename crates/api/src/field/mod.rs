//! What is wrong with which field of an object.
//!
//! Promises: the texts are those clients of the API know, for the one error and for the whole list; naming the
//! place of a field costs nothing until something is wrong with it.

mod error;
mod errors;
mod path;

pub(crate) use self::error::aggregate_with_omitted;
pub use self::{
    error::{Error, ErrorKind, Shown, aggregate, supported_values},
    errors::Errors,
    path::Path,
};
