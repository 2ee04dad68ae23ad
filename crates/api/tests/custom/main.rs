//! Custom resources from their definitions: recorded answers, and definitions as large as those of well-known operators.

mod golden;
mod large;
mod server;
