//! How much is said, by module.

use std::{fmt, str::FromStr};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// What the names of this project's crates begin with.
const OWN_CRATES: [&str; 2] = ["k3", "kubecontroller"];
const NAMES: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// How much is said by all, and by single modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLevel {
    all: LevelFilter,
    modules: Vec<(String, LevelFilter)>,
}

// --- LogLevel ---

impl LogLevel {
    /// What somebody should look at.
    pub(crate) const WARN: Self = LogLevel {
        all: LevelFilter::WARN,
        modules: Vec::new(),
    };

    /// The level with at least what a verbosity asks for, as programs of Kubernetes count it: from 4 on details, from 8
    /// on everything.
    pub(crate) fn with_verbosity(mut self, verbosity: u8) -> Self {
        let requested = match verbosity {
            0..=3 => LevelFilter::ERROR,
            4..=7 => LevelFilter::DEBUG,
            8.. => LevelFilter::TRACE,
        };
        self.all = self.all.max(requested);
        self
    }

    /// What a change at run time asks for: levels, or a verbosity.
    pub(super) fn parse_change(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(verbosity) => Ok(LogLevel::default().with_verbosity(verbosity)),
            Err(_) => text.parse(),
        }
    }

    /// The same as a filter. Libraries say no more than what an operator must know.
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
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut levels = LogLevel::default();
        if text.trim().is_empty() {
            return Err("it is empty; say for example info, or info,k3_apiserver=debug".to_owned());
        }
        for part in text.split(',').map(str::trim) {
            let Some((module, name)) = part.split_once('=') else {
                levels.all = level(part)?;
                continue;
            };
            let level = level(name)?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            if module.is_empty() || !module.chars().all(is_name) {
                return Err(format!(
                    "{module:?} is no module, such as k3_apiserver or k3_node::pod"
                ));
            }
            if level > LevelFilter::INFO && !OWN_CRATES.iter().any(|ours| module.starts_with(ours)) {
                return Err(format!(
                    "{module} is a library, in whose details tokens may be: info is the most it says"
                ));
            }
            levels.modules.push((module.to_owned(), level));
        }
        Ok(levels)
    }
}

fn level(name: &str) -> Result<LevelFilter, String> {
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known
        .map(|(_, level)| *level)
        .ok_or_else(|| format!("{name:?} is no level: it is one of off, error, warn, info, debug, trace"))
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
    fn a_verbosity_adds_to_a_level_and_takes_nothing_away() {
        assert_eq!(read("info").with_verbosity(0), read("info"));
        assert_eq!(read("info").with_verbosity(4), read("debug"));
        assert_eq!(read("warn").with_verbosity(10), read("trace"));
        assert_eq!(read("trace").with_verbosity(4), read("trace"));
    }

    #[test]
    fn modules_have_levels_of_their_own() {
        let levels = read("warn,k3_apiserver=debug,k3_node::pod=trace");
        assert_eq!(levels.to_string(), "warn,k3_apiserver=debug,k3_node::pod=trace");
        let targets = levels.targets();
        assert!(targets.would_enable("k3_apiserver::server", &Level::DEBUG));
        assert!(targets.would_enable("k3_node::pod::worker", &Level::TRACE));
        assert!(!targets.would_enable("k3_node::agent", &Level::INFO));
        assert!(targets.would_enable("kubecontroller::workqueue", &Level::WARN));
    }

    #[test]
    fn libraries_say_no_more_than_an_operator_must_know() {
        let targets = read("trace").targets();
        assert!(targets.would_enable("k3::server", &Level::TRACE));
        assert!(targets.would_enable("hyper::proto", &Level::INFO));
        assert!(!targets.would_enable("hyper::proto", &Level::DEBUG));
        assert!(
            "info,hyper=debug"
                .parse::<LogLevel>()
                .unwrap_err()
                .contains("tokens")
        );
        assert!("info,hyper=off".parse::<LogLevel>().is_ok());
    }

    #[test]
    fn what_is_no_level_is_refused_with_what_would_be_one() {
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
        assert!("loud".parse::<LogLevel>().unwrap_err().contains("debug"));
    }

    #[test]
    fn a_change_is_levels_or_a_verbosity() {
        assert_eq!(LogLevel::parse_change("6").unwrap(), read("debug"));
        assert_eq!(LogLevel::parse_change("0").unwrap(), read("info"));
        assert_eq!(LogLevel::parse_change("error").unwrap(), read("error"));
        assert!(LogLevel::parse_change("999").is_err());
    }
}
