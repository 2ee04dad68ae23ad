//! Schedules as crontabs have them: five fields, names for common ones, and `@every`.
//!
//! Promises: texts are read and refused as clients of the API know it, with the same messages. No clock is read here:
//! [`Schedule::next`] returns the next activation after a given time.

mod error;
mod field;
mod next;
mod parse;

pub use jiff::tz::TimeZone;
pub use k3_cel::calendar::{LoadLocationError, load_location};
use k3_duration::Duration;

pub use self::error::ParseError;

/// A recurring schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At the minutes that fit.
    Crontab(Crontab),
    /// So long after the last time, in whole seconds.
    Every(Duration),
}

/// The minutes that fit: a bit for each value of each field.
// upstream: vendor/github.com/robfig/cron/v3/spec.go SpecSchedule
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crontab {
    minute: field::FieldValues,
    hour: field::FieldValues,
    day: field::FieldValues,
    month: field::FieldValues,
    weekday: field::FieldValues,
    /// The zone the text names, if it does.
    zone: Option<TimeZone>,
}
