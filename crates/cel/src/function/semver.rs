//! Semantic versions.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/semverlib.go SemverLib, isSemver, normalizeAndParse

use std::{cmp::Ordering, fmt, num::ParseIntError, sync::Arc};

use super::{Implementation, no_overload};
use crate::{
    error::EvalError,
    value::{OpaqueValue, Result, Value},
};

/// Why a text is not a semantic version, in the words of upstream's parser.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SemverError {
    #[error("Version string empty")]
    Empty,
    #[error("No Major.Minor.Patch elements found")]
    MissingNumbers,
    #[error("short version cannot contain PreRelease/Build meta data")]
    ShortWithMetadata,
    #[error("Invalid character(s) found in {part} number {text:?}")]
    InvalidNumber { part: &'static str, text: String },
    #[error("{part} number must not contain leading zeroes {text:?}")]
    LeadingZeros { part: &'static str, text: String },
    #[error("strconv.ParseUint: parsing {text:?}: value out of range")]
    NumberTooLarge { text: String, source: ParseIntError },
    #[error("Prerelease is empty")]
    EmptyPrerelease,
    #[error("Numeric PreRelease version must not contain leading zeroes {0:?}")]
    PrereleaseLeadingZeros(String),
    #[error("Invalid character(s) found in prerelease {0:?}")]
    InvalidPrerelease(String),
    #[error("Build meta data is empty")]
    EmptyBuild,
    #[error("Invalid character(s) found in build meta data {0:?}")]
    InvalidBuild(String),
}

/// A semantic version.
#[derive(Clone, Debug)]
pub struct Semver {
    numbers: [u64; 3],
    pre: Vec<Identifier>,
    build: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "semver" | "isSemver" => read,
        "major" | "minor" | "patch" => part,
        _ => return None,
    })
}

fn read<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let parsed = match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Semver::parse(text),
        [Value::String(text), Value::Bool(true)] => normalize(text).and_then(|text| Semver::parse(&text)),
        _ => return no_overload(name, args),
    };
    match name {
        "isSemver" => Ok(Value::Bool(parsed.is_ok())),
        _ => parsed
            .map(|version| Value::Opaque(OpaqueValue::Semver(Arc::new(version))))
            .map_err(|error| EvalError::new(error.to_string())),
    }
}

fn part<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::Opaque(OpaqueValue::Semver(version))] = args else {
        return no_overload(name, args);
    };
    let number = match name {
        "major" => version.numbers[0],
        "minor" => version.numbers[1],
        _ => version.numbers[2],
    };
    Ok(Value::Int(number.cast_signed()))
}

/// With all three numbers, without a `v` and needless zeros.
fn normalize(text: &str) -> std::result::Result<String, SemverError> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| match part.trim_start_matches('0') {
            _ if part.len() <= 1 => part.to_owned(),
            stripped if stripped.starts_with(|c: char| c.is_ascii_digit()) => stripped.to_owned(),
            stripped => format!("0{stripped}"),
        })
        .collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(SemverError::ShortWithMetadata);
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

impl Semver {
    /// Reads a version.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, SemverError> {
        if text.is_empty() {
            return Err(SemverError::Empty);
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err(SemverError::MissingNumbers);
        };
        let (rest, build) = rest
            .split_once('+')
            .map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest
            .split_once('-')
            .map_or((rest, None), |(rest, pre)| (rest, Some(pre)));
        let numbers = [
            number(major, NumberPart::Major)?,
            number(minor, NumberPart::Minor)?,
            number(patch, NumberPart::Patch)?,
        ];
        let pre = match pre {
            Some(pre) => pre
                .split('.')
                .map(identifier)
                .collect::<std::result::Result<_, _>>()?,
            None => Vec::new(),
        };
        let build = match build {
            Some(build) => build
                .split('.')
                .map(build_part)
                .collect::<std::result::Result<_, _>>()?,
            None => Vec::new(),
        };
        Ok(Semver { numbers, pre, build })
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[derive(Clone, Copy)]
enum NumberPart {
    Major,
    Minor,
    Patch,
}

impl NumberPart {
    /// Within a sentence, and at its beginning.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            NumberPart::Major => ("major", "Major"),
            NumberPart::Minor => ("minor", "Minor"),
            NumberPart::Patch => ("patch", "Patch"),
        }
    }
}

fn number(text: &str, part: NumberPart) -> std::result::Result<u64, SemverError> {
    let (lower, capital) = part.names();
    let text_of = || text.to_owned();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(SemverError::InvalidNumber {
            part: lower,
            text: text_of(),
        });
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(SemverError::LeadingZeros {
            part: capital,
            text: text_of(),
        });
    }
    text.parse().map_err(|source| SemverError::NumberTooLarge {
        text: text_of(),
        source,
    })
}

fn identifier(text: &str) -> std::result::Result<Identifier, SemverError> {
    if text.is_empty() {
        return Err(SemverError::EmptyPrerelease);
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(SemverError::PrereleaseLeadingZeros(text.to_owned()));
        }
        return match text.parse() {
            Ok(number) => Ok(Identifier::Number(number)),
            Err(source) => Err(SemverError::NumberTooLarge {
                text: text.to_owned(),
                source,
            }),
        };
    }
    if !text.bytes().all(is_letter) {
        return Err(SemverError::InvalidPrerelease(text.to_owned()));
    }
    Ok(Identifier::Text(text.to_owned()))
}

fn build_part(text: &str) -> std::result::Result<String, SemverError> {
    match text {
        "" => Err(SemverError::EmptyBuild),
        part if !part.bytes().all(is_letter) => Err(SemverError::InvalidBuild(part.to_owned())),
        part => Ok(part.to_owned()),
    }
}

impl Ord for Semver {
    /// What was built of it does not matter; a prerelease sorts before its release.
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.pre.cmp(&other.pre),
            })
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Semver {}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.numbers[0], self.numbers[1], self.numbers[2])?;
        for (at, part) in self.pre.iter().enumerate() {
            f.write_str(if at == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Text(text) => f.write_str(text)?,
            }
        }
        for (at, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if at == 0 { "+" } else { "." })?;
        }
        Ok(())
    }
}
