//! Durations as Kubernetes writes them: Go's syntax (`1h30m0s`), which `metav1.Duration` has in objects, flags and messages, and
//! the ages of tables (`3h12m`).
//!
//! Promises: texts are read, refused and written as Go does it. No clock is read here.

mod duration;
mod human;
mod std_duration;
mod worded;

pub use self::{
    duration::{Duration, ParseDurationError, quote},
    human::human_duration,
    std_duration::{NegativeDurationError, format, parse, parse_with_days, parse_with_days_and_seconds},
    worded::parse_worded,
};
