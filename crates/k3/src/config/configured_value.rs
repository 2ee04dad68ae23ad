//! The value of a setting, and its source.

use std::fmt;

use super::keys::ConfigKey;

/// A value for a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredValue {
    pub(crate) key: &'static ConfigKey,
    /// The equivalent flag, with its dashes.
    pub(super) flag: String,
    /// Several for a list, else one.
    pub(crate) values: Vec<String>,
    pub(crate) origin: ConfigSource,
}

/// Source of a value, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigSource {
    File { path: String, line: u64 },
    Variable(String),
    Flag,
}

// --- ConfiguredValue ---

impl ConfiguredValue {
    /// The value as one text.
    pub(super) fn text(&self) -> String {
        self.values.join(",")
    }

    /// The value for messages, without secrets.
    pub(super) fn redacted(&self) -> String {
        if self.key.is_secret {
            "***".to_owned()
        } else {
            format!("{:?}", self.text())
        }
    }

    /// Precedence of the source.
    pub(super) fn rank(&self) -> u8 {
        match self.origin {
            ConfigSource::File { .. } => 0,
            ConfigSource::Variable(_) => 1,
            ConfigSource::Flag => 2,
        }
    }
}

/// Location and name of the setting, as error messages begin.
impl fmt::Display for ConfiguredValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            ConfigSource::File { .. } => write!(f, "{}: {}", self.origin, self.key.name),
            ConfigSource::Variable(name) => f.write_str(name),
            ConfigSource::Flag => f.write_str(&self.flag),
        }
    }
}

// --- ConfigSource ---

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}
