//! Errors of request bodies.

use std::{collections::HashSet, fmt};
use thiserror::Error;

/// Beyond this many, errors are not collected: a body could hold a million.
const MAX_FAULTS: usize = 100;

/// Why a body is refused, with upstream's messages.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// It is not JSON.
    #[error("{0}")]
    Syntax(String),
    /// It is not YAML.
    #[error("yaml: {0}")]
    Yaml(String),
    /// A value is of another type than its field.
    #[error("{0}")]
    Type(String),
    /// It holds more objects than one request may.
    #[error("too many objects in one request")]
    TooMany,
}

/// Something in a body that is ignored, warned of, or refused, as the client asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StrictError {
    /// A field that its type does not have; the path to it.
    Unknown(String),
    /// A field that is there more than once; the path to it.
    Duplicate(String),
    /// A key of a YAML map that is there more than once.
    YamlDuplicate {
        /// The line of the later one.
        line: u64,
        /// The key.
        key: String,
    },
}

/// The errors of a body, in the order of its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrictErrors {
    all: Vec<StrictError>,
    /// The same: a body could repeat one a million times.
    known: HashSet<StrictError>,
}

// --- StrictError ---

impl fmt::Display for StrictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "unknown field \"{path}\""),
            Self::Duplicate(path) => write!(f, "duplicate field \"{path}\""),
            Self::YamlDuplicate { line, key } => write!(f, "line {line}: key {key:?} already set in map"),
        }
    }
}

// --- StrictErrors ---

impl StrictErrors {
    /// Adds one, unless it is there already.
    pub(crate) fn add(&mut self, error: StrictError) {
        if !self.is_full() && self.known.insert(error.clone()) {
            self.all.push(error);
        }
    }

    /// Whether another one would not be kept.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= MAX_FAULTS
    }

    pub(super) fn append(&mut self, other: Self) {
        other.all.into_iter().for_each(|error| self.add(error));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Each as a warning.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.all.iter().map(StrictError::to_string)
    }

    /// All in one text, for a client that wants none; `None` if there are none.
    pub fn strict_error(&self) -> Option<String> {
        if self.all.is_empty() {
            return None;
        }
        let of_yaml = |error: &&StrictError| matches!(error, StrictError::YamlDuplicate { .. });
        let lines: Vec<String> = self
            .all
            .iter()
            .filter(of_yaml)
            .map(StrictError::to_string)
            .collect();
        let yaml = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", lines.join("\n  ")));
        let others = self
            .all
            .iter()
            .filter(|error| !of_yaml(error))
            .map(StrictError::to_string);
        let texts: Vec<String> = yaml.into_iter().chain(others).collect();
        Some(format!("strict decoding error: {}", texts.join(", ")))
    }
}
