//! Days of the calendar, and what clocks show where.
//!
//! Promises: any day of any year is counted; what clocks show somewhere is known for the past and, as far as rules stand
//! now, for ever.

mod calendar;
mod rule;
mod zone;

pub use self::{
    calendar::{Date, days_in},
    rule::weekday_of,
    zone::{Span, Zone, ZoneError},
};
