//! Logging to standard error or a file. Standard output is for results of commands.
//!
//! ```text
//! flags      command-line flags
//! init       starts logging; changes the level while the process runs
//! level      levels by module
//! json       events as lines of JSON
//! rotation   the log file, shared by threads
//! ```
//!
//! Libraries never log below info level, because their details contain request headers with tokens. The level can be changed at
//! any time without a restart.

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
