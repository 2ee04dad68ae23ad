//! Timestamps and durations in API objects and in tables.
//!
//! Promises: texts are read, refused and written as clients of the API know it. No clock is read here.

mod age;
mod duration;
mod moment;
mod reader;

pub use self::{
    age::{age, short_age},
    duration::{Duration, ParseDurationError},
    moment::Time,
    reader::ParseTimeError,
};
