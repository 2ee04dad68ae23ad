//! Semantic versions.

use std::{cmp::Ordering, fmt, sync::Arc};

use super::{Implementation, no_overload};
use crate::{
    error::EvalError,
    value::{OpaqueValue, Result, Value},
};

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
            .map_err(EvalError::new),
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
fn normalize(text: &str) -> std::result::Result<String, String> {
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
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

impl Semver {
    /// Reads a version; what is wrong is told as clients know it.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest
            .split_once('+')
            .map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest
            .split_once('-')
            .map_or((rest, None), |(rest, pre)| (rest, Some(pre)));
        let numbers = [
            number(major, "major")?,
            number(minor, "minor")?,
            number(patch, "patch")?,
        ];
        let pre = pre
            .map(|pre| pre.split('.').map(identifier).collect())
            .transpose()?
            .unwrap_or_default();
        let build = build
            .map(|build| {
                build
                    .split('.')
                    .map(|part| match part {
                        "" => Err("Build meta data is empty".to_owned()),
                        part if !part.bytes().all(is_letter) => {
                            Err(format!("Invalid character(s) found in build meta data {part:?}"))
                        }
                        part => Ok(part.to_owned()),
                    })
                    .collect()
            })
            .transpose()?
            .unwrap_or_default();
        Ok(Semver { numbers, pre, build })
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn number(text: &str, what: &str) -> std::result::Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {what} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        let capital: String = what[..1].to_uppercase() + &what[1..];
        return Err(format!(
            "{capital} number must not contain leading zeroes {text:?}"
        ));
    }
    text.parse()
        .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

fn identifier(text: &str) -> std::result::Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text:?}"
            ));
        }
        return text
            .parse()
            .map(Identifier::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"));
    }
    if !text.bytes().all(is_letter) {
        return Err(format!("Invalid character(s) found in prerelease {text:?}"));
    }
    Ok(Identifier::Text(text.to_owned()))
}

impl Ord for Semver {
    /// What was built of it does not matter; one before a release comes before it.
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
