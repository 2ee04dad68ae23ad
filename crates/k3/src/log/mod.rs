//! The log: a line an event, on standard error or in a file, so that standard output stays for what a command answers.
//!
//! ```text
//! flags      what can be told about it
//! begin      begins to write; changes while the process runs
//! level      how much is said, by module
//! json       events as lines of JSON
//! rotation   a file that does not grow for ever
//! ```
//!
//! Promises: however much is said, the libraries below say no more than what an operator must know: in their details are the
//! headers of requests, and tokens in them. What is said is chosen again at any time, without a restart.

mod colour;
mod flags;
mod init;
mod json;
mod level;
mod rotation;

pub(crate) use self::{
    flags::LogFlags,
    init::{LEVEL_PATH, change, current, init, init_stderr},
    level::LogLevel,
};
