//! Flags of logging.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::LogLevel;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogFlags {
    /// Log level: error, warn, info, debug or trace, with overrides per module, as in `info,k3_apiserver=debug`.
    /// `k3 log-level` changes it while the server runs
    #[arg(long, default_value = "info", value_name = "LEVELS")]
    pub(crate) log_level: LogLevel,

    /// klog verbosity, as in Kubernetes components: debug from 4, trace from 8
    #[arg(short = 'v', long = "v", value_name = "N", default_value_t = 0)]
    pub(crate) verbosity: u8,

    /// Log at debug level, in colour, to standard error; overrides the other log settings
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub(crate) debug: bool,

    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,

    /// File to log to instead of standard error. Created if missing, readable by its owner only
    #[arg(long, value_name = "FILE")]
    pub(crate) log_path: Option<PathBuf>,

    /// Maximum size of that file, such as 100Mi; then it is rotated to FILE.1, FILE.1 to FILE.2, and so on
    #[arg(long, value_name = "BYTES", default_value = "100Mi", value_parser = bytes)]
    pub(crate) log_max_size: u64,

    /// Number of rotated files to keep
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) log_max_files: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text
    Text,
    /// One JSON object per line
    Json,
}

// --- LogFlags ---

impl LogFlags {
    /// The level, raised by verbosity and --debug.
    pub(crate) fn level(&self) -> LogLevel {
        let details = if self.debug { 4 } else { 0 };
        self.log_level.clone().with_verbosity(self.verbosity.max(details))
    }
}

/// Parses a number of bytes with an optional suffix Ki, Mi or Gi.
fn bytes(text: &str) -> Result<u64, &'static str> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let unit = units
        .iter()
        .find_map(|(name, shift)| Some((text.strip_suffix(name)?, *shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let number: u64 = number
        .parse()
        .map_err(|_| "not a number of bytes, such as 10485760 or 10Mi")?;
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes >= 1024 => Ok(bytes),
        Some(_) => Err("must be at least 1024"),
        None => Err("too large"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("10Mi"), Ok(10 << 20));
        for odd in [
            "",
            "Mi",
            "10MB",
            "-1",
            "100",
            "99999999999999999999",
            "99999999999Gi",
        ] {
            assert!(bytes(odd).is_err(), "{odd}");
        }
    }
}
