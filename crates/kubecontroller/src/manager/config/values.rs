//! Parsers for values of settings.

use std::{fmt::Display, str::FromStr, time::Duration};

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: expected a number with a unit, such as 5s, 100ms or 1m30s")]
pub struct ParseDurationError(String);

/// Parses a duration in Go's syntax, such as `5s`, `1m30s`, `100ms` or `1.5h`. `0` needs no unit.
///
/// ```
/// use std::time::Duration;
/// use kubecontroller::manager::config::parse_duration;
///
/// assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
/// assert!(parse_duration("90").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, ParseDurationError> {
    k3_duration::parse(text).map_err(|_| ParseDurationError(text.to_owned()))
}

/// Parses a duration greater than zero.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|bad| bad.to_string())?;
    if time.is_zero() {
        return Err("must be greater than 0".to_owned());
    }
    Ok(time)
}

/// Parses a duration; `0` means none.
pub(super) fn time_or_none(text: &str) -> Result<Option<Duration>, String> {
    let time = parse_duration(text).map_err(|bad| bad.to_string())?;
    Ok(Some(time).filter(|time| !time.is_zero()))
}

/// Parses a number that is at least `min`.
pub(super) fn number<N: Copy + FromStr + PartialOrd + Display>(text: &str, min: N) -> Result<N, String> {
    let number = text
        .parse()
        .map_err(|_| format!("{text:?} is not a whole number"))?;
    if number < min {
        return Err(format!("must be at least {min}"));
    }
    Ok(number)
}

/// Parses `true` or `false`.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is neither true nor false"))
}

/// Parses a listen address; none if it is empty or `0`.
pub(super) fn address(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let bad = || format!("{text:?} is not an address: expected HOST:PORT or :PORT, or 0 for none");
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    port.parse::<u16>().map_err(|_| bad())?;
    if host.contains(':') && !host.starts_with('[') {
        return Err(bad());
    }
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    Ok(Some(format!("{host}:{port}")))
}

/// Parses a comma-separated list of names.
pub(super) fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Parses a log level: a name, or a number as `-v` takes it, where larger is more verbose.
pub(in crate::manager) fn level(text: &str) -> Result<tracing::Level, String> {
    let number = match text.parse::<u8>() {
        Ok(number) => Some(number),
        // clap passes `-vv` as `-v` with the value `v`.
        Err(_) if !text.is_empty() && text.bytes().all(|byte| byte == b'v') => Some(5),
        Err(_) => None,
    };
    match number {
        Some(0..=2) => Ok(tracing::Level::INFO),
        Some(3..=4) => Ok(tracing::Level::DEBUG),
        Some(_) => Ok(tracing::Level::TRACE),
        None => match text {
            "error" => Ok(tracing::Level::ERROR),
            "warn" => Ok(tracing::Level::WARN),
            "info" => Ok(tracing::Level::INFO),
            "debug" => Ok(tracing::Level::DEBUG),
            "trace" => Ok(tracing::Level::TRACE),
            _ => Err(format!(
                "{text:?} is not a log level: expected error, warn, info, debug, trace or a number"
            )),
        },
    }
}
