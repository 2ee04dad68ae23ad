//! Log levels by module.

use std::{fmt, str::FromStr};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Prefixes of this project's crates.
const OWN_CRATES: [&str; 2] = ["k3", "kubecontroller"];
const NAMES: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// A default level, and overrides per module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLevel {
    all: LevelFilter,
    modules: Vec<(String, LevelFilter)>,
}

/// A text that is not a log level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LogLevelError {
    #[error("must not be empty; for example info, or info,k3_apiserver=debug")]
    Empty,
    #[error("invalid module {0:?}; for example k3_apiserver or k3_node::pod")]
    InvalidModule(String),
    #[error("{0} is a library whose debug output may contain tokens: info is the maximum")]
    Library(String),
    #[error("invalid level {0:?}: must be off, error, warn, info, debug or trace")]
    InvalidLevel(String),
}

// --- LogLevel ---

impl LogLevel {
    pub(crate) const WARN: Self = LogLevel {
        all: LevelFilter::WARN,
        modules: Vec::new(),
    };

    /// Raises the level to a klog verbosity: debug from 4, trace from 8.
    pub(crate) fn with_verbosity(mut self, verbosity: u8) -> Self {
        let requested = match verbosity {
            0..=3 => LevelFilter::ERROR,
            4..=7 => LevelFilter::DEBUG,
            8.. => LevelFilter::TRACE,
        };
        self.all = self.all.max(requested);
        self
    }

    /// Parses a change at run time: levels, or a verbosity.
    pub(super) fn parse_change(text: &str) -> Result<Self, LogLevelError> {
        match text.parse() {
            Ok(verbosity) => Ok(LogLevel::default().with_verbosity(verbosity)),
            Err(_) => text.parse(),
        }
    }

    /// The filter. Libraries log at most at info level: their details may contain tokens.
    pub(super) fn targets(&self) -> Targets {
        Targets::new()
            .with_default(self.all.min(LevelFilter::INFO))
            .with_targets(OWN_CRATES.map(|name| (name, self.all)))
            .with_targets(self.modules.iter().cloned())
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        LogLevel {
            all: LevelFilter::INFO,
            modules: Vec::new(),
        }
    }
}

impl FromStr for LogLevel {
    type Err = LogLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut levels = LogLevel::default();
        if text.trim().is_empty() {
            return Err(LogLevelError::Empty);
        }
        for part in text.split(',').map(str::trim) {
            let Some((module, name)) = part.split_once('=') else {
                levels.all = level(part)?;
                continue;
            };
            let level = level(name)?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            if module.is_empty() || !module.chars().all(is_name) {
                return Err(LogLevelError::InvalidModule(module.to_owned()));
            }
            if level > LevelFilter::INFO && !OWN_CRATES.iter().any(|ours| module.starts_with(ours)) {
                return Err(LogLevelError::Library(module.to_owned()));
            }
            levels.modules.push((module.to_owned(), level));
        }
        Ok(levels)
    }
}

fn level(name: &str) -> Result<LevelFilter, LogLevelError> {
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known
        .map(|(_, level)| *level)
        .ok_or_else(|| LogLevelError::InvalidLevel(name.to_owned()))
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.all)?;
        for (module, level) in &self.modules {
            write!(f, ",{module}={level}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn read(text: &str) -> LogLevel {
        text.parse().unwrap()
    }

    #[test]
    fn verbosity_only_raises_the_level() {
        assert_eq!(read("info").with_verbosity(0), read("info"));
        assert_eq!(read("info").with_verbosity(4), read("debug"));
        assert_eq!(read("warn").with_verbosity(10), read("trace"));
        assert_eq!(read("trace").with_verbosity(4), read("trace"));
    }

    #[test]
    fn modules_override_the_level() {
        let levels = read("warn,k3_apiserver=debug,k3_node::pod=trace");
        assert_eq!(levels.to_string(), "warn,k3_apiserver=debug,k3_node::pod=trace");
        let targets = levels.targets();
        assert!(targets.would_enable("k3_apiserver::server", &Level::DEBUG));
        assert!(targets.would_enable("k3_node::pod::worker", &Level::TRACE));
        assert!(!targets.would_enable("k3_node::agent", &Level::INFO));
        assert!(targets.would_enable("kubecontroller::workqueue", &Level::WARN));
    }

    #[test]
    fn libraries_log_at_most_info() {
        let targets = read("trace").targets();
        assert!(targets.would_enable("k3::server", &Level::TRACE));
        assert!(targets.would_enable("hyper::proto", &Level::INFO));
        assert!(!targets.would_enable("hyper::proto", &Level::DEBUG));
        assert!(
            "info,hyper=debug"
                .parse::<LogLevel>()
                .unwrap_err()
                .to_string()
                .contains("tokens")
        );
        assert!("info,hyper=off".parse::<LogLevel>().is_ok());
    }

    #[test]
    fn rejects_invalid_levels() {
        for odd in [
            "",
            "loud",
            "info,",
            "info,k3=loud",
            "info,=debug",
            "info,k3 x=debug",
        ] {
            assert!(odd.parse::<LogLevel>().is_err(), "{odd}");
        }
        let error = "loud".parse::<LogLevel>().unwrap_err().to_string();
        assert!(error.contains("debug"), "{error}");
    }

    #[test]
    fn parses_changes_as_levels_or_verbosity() {
        assert_eq!(LogLevel::parse_change("6").unwrap(), read("debug"));
        assert_eq!(LogLevel::parse_change("0").unwrap(), read("info"));
        assert_eq!(LogLevel::parse_change("error").unwrap(), read("error"));
        assert!(LogLevel::parse_change("999").is_err());
    }
}
