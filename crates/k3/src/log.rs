//! The log: lines on standard error, so that standard output stays for what a command answers.
//!
//! Promise: however much is said, the libraries below say no more than what an operator must know: in their details are the
//! headers of requests, and tokens in them.

use std::io;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Begins to write the log.
pub(crate) fn begin(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // The crates of this project all begin so.
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::INFO))
        .with_target("k3", level);
    tracing_subscriber::registry()
        .with(
            tracing_subscriber::fmt::layer()
                .with_writer(io::stderr)
                .with_target(false),
        )
        .with(targets)
        .init();
}

impl LogLevel {
    /// The level with at least what a verbosity asks for, as programs of Kubernetes count it: from 4 on details, from 8
    /// on everything.
    pub(crate) fn with_verbosity(self, verbosity: u8) -> Self {
        let asked = match verbosity {
            0..=3 => Self::Error,
            4..=7 => Self::Debug,
            8.. => Self::Trace,
        };
        self.max(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verbosity_adds_to_a_level_and_takes_nothing_away() {
        assert_eq!(LogLevel::Info.with_verbosity(0), LogLevel::Info);
        assert_eq!(LogLevel::Info.with_verbosity(4), LogLevel::Debug);
        assert_eq!(LogLevel::Warn.with_verbosity(10), LogLevel::Trace);
        assert_eq!(LogLevel::Trace.with_verbosity(4), LogLevel::Trace);
    }
}
