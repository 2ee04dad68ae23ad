//! Log levels as flags and files write them.

use k3_config::ValueError;

/// Parses a log level: a name, or a number as `-v` takes it, where larger is more verbose.
pub(in crate::manager) fn parse_level(text: &str) -> Result<tracing::Level, ValueError> {
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
            _ => Err(ValueError::other(format!(
                "{text:?} is not a log level: expected error, warn, info, debug, trace or a number"
            ))),
        },
    }
}
