//! Types of values, with errors that name the value and what is expected.

use std::{error::Error, fmt::Display, str::FromStr, time::Duration};

/// Why a value is invalid. Unlike errors of other parsers, it is shown without the value in front.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// Not a duration.
    #[error("{0:?} is not a duration: expected a number with a unit, such as 5s, 100ms or 1m30s")]
    NotADuration(String),
    /// Zero or less.
    #[error("must be greater than 0")]
    NotPositive,
    /// A part of a second.
    #[error("must be whole seconds")]
    NotWholeSeconds,
    /// Not an integer.
    #[error("{0:?} is not a whole number")]
    NotAWholeNumber(String),
    /// Not a number.
    #[error("{0:?} is not a number")]
    NotANumber(String),
    /// Too small.
    #[error("must be at least {0}")]
    TooSmall(String),
    /// Neither `true` nor `false`.
    #[error("{0:?} is neither true nor false")]
    NotASwitch(String),
    /// Not a listen address.
    #[error("{0:?} is not an address: expected HOST:PORT or :PORT, or 0 for none")]
    NotAnAddress(String),
    /// The error of a type that the program defines.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

// --- ValueError ---

impl ValueError {
    /// An error of a type of the program.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }
}

/// Parses a duration in Go's syntax, such as `5s`, `1m30s`, `100ms` or `1.5h`. `0` needs no unit.
///
/// ```
/// use std::time::Duration;
/// use k3_config::parse_duration;
///
/// assert_eq!(parse_duration("1m30s").unwrap(), Duration::from_secs(90));
/// assert!(parse_duration("90").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, ValueError> {
    k3_duration::parse(text).map_err(|_| ValueError::NotADuration(text.to_owned()))
}

/// Parses a duration greater than zero.
pub fn positive_duration(text: &str) -> Result<Duration, ValueError> {
    optional_duration(text)?.ok_or(ValueError::NotPositive)
}

/// Parses a duration; `0` means none.
pub fn optional_duration(text: &str) -> Result<Option<Duration>, ValueError> {
    let duration = parse_duration(text)?;
    Ok(Some(duration).filter(|duration| !duration.is_zero()))
}

/// Parses a number that is at least `min`.
pub fn whole_number<N: Copy + FromStr + PartialOrd + Display>(text: &str, min: N) -> Result<N, ValueError> {
    let number = text
        .parse()
        .map_err(|_| ValueError::NotAWholeNumber(text.to_owned()))?;
    if number < min {
        return Err(ValueError::TooSmall(min.to_string()));
    }
    Ok(number)
}

/// Parses `true` or `false`.
pub fn switch(text: &str) -> Result<bool, ValueError> {
    text.parse().map_err(|_| ValueError::NotASwitch(text.to_owned()))
}

/// Parses a listen address; none if it is empty or `0`.
pub fn listen_address(text: &str) -> Result<Option<String>, ValueError> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let bad = || ValueError::NotAnAddress(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    port.parse::<u16>().map_err(|_| bad())?;
    if host.contains(':') && !host.starts_with('[') {
        return Err(bad());
    }
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    Ok(Some(format!("{host}:{port}")))
}

/// Parses a comma-separated list of names.
pub fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
