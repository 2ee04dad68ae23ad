//! Custom resources from their definitions: recorded answers, and definitions as large as those of well-known operators.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing fails")]

mod golden;
mod large;
mod operators;
mod server;
