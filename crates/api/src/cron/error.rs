//! Errors of invalid schedules.

use k3_duration::ParseDurationError;

use super::LoadLocationError;
use crate::go;

/// A text that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// There is nothing.
    #[error("empty spec string")]
    Empty,
    /// A zone is named, and nothing follows.
    #[error("invalid schedule format: runtime error: slice bounds out of range [:-1]")]
    OnlyZone,
    /// No such zone.
    #[error("provided bad location {name}: {error}")]
    Zone {
        /// What was given.
        name: String,
        /// What is wrong with it.
        #[source]
        error: LoadLocationError,
    },
    /// Not five fields.
    #[error("expected exactly 5 fields, found {}: [{}]", .0.len(), .0.join(" "))]
    Fields(Vec<String>),
    /// A name that stands for no schedule.
    #[error("unrecognized descriptor: {0}")]
    Name(String),
    /// No duration after `@every`.
    #[error("failed to parse duration {text}: {error}")]
    Duration {
        /// The whole text.
        text: String,
        /// What is wrong with it.
        #[source]
        error: ParseDurationError,
    },
    /// More than one `-` in a range.
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    /// More than one `/` in a range.
    #[error("too many slashes: {0}")]
    Slashes(String),
    /// No number where one must be.
    #[error("failed to parse int from {0}: strconv.Atoi: parsing {quoted}: invalid syntax", quoted = go::quote(.0))]
    Number(String),
    /// A number that no machine word holds.
    #[error("failed to parse int from {0}: strconv.Atoi: parsing {quoted}: value out of range", quoted = go::quote(.0))]
    TooLarge(String),
    /// A number below zero.
    #[error("negative number ({number}) not allowed: {text}")]
    Negative {
        /// The number.
        number: i64,
        /// As it was written.
        text: String,
    },
    /// A range that begins too early.
    #[error("beginning of range ({start}) below minimum ({least}): {text}")]
    Below {
        /// Where it begins.
        start: u64,
        /// Where it may begin.
        least: u64,
        /// As it was written.
        text: String,
    },
    /// A range that ends too late.
    #[error("end of range ({end}) above maximum ({most}): {text}")]
    Above {
        /// Where it ends.
        end: u64,
        /// Where it may end.
        most: u64,
        /// As it was written.
        text: String,
    },
    /// A range that ends before it begins.
    #[error("beginning of range ({start}) beyond end of range ({end}): {text}")]
    Backwards {
        /// Where it begins.
        start: u64,
        /// Where it ends.
        end: u64,
        /// As it was written.
        text: String,
    },
    /// A range in steps of nothing.
    #[error("step of range should be a positive number: {0}")]
    NoStep(String),
}
