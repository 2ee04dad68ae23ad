//! Begins jobs at the times that cron jobs name.

mod plan;
mod schedule;
