//! What can be told about the log.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::LogLevel;

/// Where the log goes, and how much is said.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The log")]
pub(crate) struct LogFlags {
    /// How much is written: error, warn, info, debug or trace, and more or less for single modules, as in
    /// `info,k3_apiserver=debug`. `k3 log-level` changes it while the server runs
    #[arg(long, default_value = "info", value_name = "LEVELS")]
    pub(crate) log_level: LogLevel,

    /// How much more is written, as programs of Kubernetes count it: from 4 on details, from 8 on everything
    #[arg(short = 'v', long = "v", value_name = "N", default_value_t = 0)]
    pub(crate) verbosity: u8,

    /// Write details too, in colours and to standard error, whatever else is said about the log
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub(crate) debug: bool,

    /// How lines look: for people, or one JSON object each
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,

    /// File to write to instead of standard error. It is made if it is not there, and its owner's alone
    #[arg(long, value_name = "FILE")]
    pub(crate) log_path: Option<PathBuf>,

    /// How long that file may become, such as 100Mi; then it is put aside as FILE.1, the one before as FILE.2, and so on
    #[arg(long, value_name = "BYTES", default_value = "100Mi", value_parser = bytes)]
    pub(crate) log_max_size: u64,

    /// How many files that were put aside are kept
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) log_max_files: u32,
}

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For programs: a JSON object a line
    Json,
}

// --- LogFlags ---

impl LogFlags {
    /// The level with what the verbosity adds.
    pub(crate) fn level(&self) -> LogLevel {
        let details = if self.debug { 4 } else { 0 };
        self.log_level.clone().with_verbosity(self.verbosity.max(details))
    }
}

/// So many bytes: a number, with Ki, Mi or Gi behind it or not.
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
        Some(_) => Err("less than a kilobyte: a file would hold a line or two"),
        None => Err("too large"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
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
