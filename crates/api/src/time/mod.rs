//! Timestamps in API objects.
//!
//! Promises: texts are read, refused and written as clients of the API know it. No clock is read here.

mod moment;
mod reader;

pub use self::{moment::Time, reader::ParseTimeError};
