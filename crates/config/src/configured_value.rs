//! The value of a key, and its source.

use std::{fmt, sync::Arc};

use crate::ConfigKey;

/// A value for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredValue {
    /// The key.
    pub key: Arc<ConfigKey>,
    /// The name of the key, with the part that matches its wildcard.
    pub name: String,
    /// The name as the source writes it, which is another one for an alias.
    pub written: String,
    /// Several for a list, else one.
    pub values: Vec<String>,
    /// Where the value is from.
    pub source: ConfigSource,
}

/// Source of a value, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// A line of a file.
    File {
        /// The path as it was given.
        path: String,
        /// The line, from 1.
        line: u64,
    },
    /// An environment variable.
    Variable(String),
    /// A flag, with its dashes.
    Flag(String),
}

// --- ConfiguredValue ---

impl ConfiguredValue {
    /// The value as one text.
    pub fn text(&self) -> String {
        self.values.join(",")
    }

    /// The part of the name that matches the wildcard of the key; empty without one.
    pub fn wildcard(&self) -> &str {
        self.key
            .prefix()
            .and_then(|prefix| self.name.strip_prefix(prefix))
            .unwrap_or("")
    }

    /// Arguments of a command line that set the value.
    pub fn to_arguments(&self) -> Vec<String> {
        let flag = self.key.flag();
        if self.key.is_list() {
            return self
                .values
                .iter()
                .map(|value| format!("{flag}={value}"))
                .collect();
        }
        vec![format!("{flag}={}", self.text())]
    }

    /// Precedence of the source.
    pub fn rank(&self) -> u8 {
        match self.source {
            ConfigSource::File { .. } => 0,
            ConfigSource::Variable(_) => 1,
            ConfigSource::Flag(_) => 2,
        }
    }

    /// Whether the value is from the command line.
    pub fn is_flag(&self) -> bool {
        matches!(self.source, ConfigSource::Flag(_))
    }

    /// The value for messages, without secrets.
    pub(crate) fn redacted(&self) -> String {
        if self.key.is_secret() {
            "***".to_owned()
        } else {
            format!("{:?}", self.text())
        }
    }
}

/// Location and name of the setting, as error messages begin.
impl fmt::Display for ConfiguredValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ConfigSource::File { .. } => write!(f, "{}: {}", self.source, self.written),
            ConfigSource::Variable(_) => write!(f, "{}", self.source),
            ConfigSource::Flag(flag) => f.write_str(flag),
        }
    }
}

// --- ConfigSource ---

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}
