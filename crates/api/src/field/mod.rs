//! Field errors: path, type, value and detail.
//!
//! Promises: the texts are those clients of the API know, for the one error and for the whole list; naming the
//! location of a field costs nothing until something is wrong with it.

mod error;
mod error_list;
mod path;

pub(crate) use self::error::aggregate_with_omitted;
pub use self::{
    error::{BadValue, Error, ErrorKind, aggregate, supported_values},
    error_list::ErrorList,
    path::Path,
};
