//! How much the server does at once, and for how long.

use std::time::Duration;

use clap::Args;
use k3_apiserver::Limits;

#[derive(Debug, Args)]
#[command(next_help_heading = "How much at once")]
pub(crate) struct LimitFlags {
    /// How many reads are served at once; more are refused with 429. 0 is no limit. Watches do not count, and
    /// system:masters, nodes and the control plane are never refused
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().reads)]
    max_requests_inflight: usize,

    /// How many writes are served at once; more are refused with 429. 0 is no limit
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().writes)]
    max_mutating_requests_inflight: usize,

    /// How many watches a user may have open; more are refused with 429. 0 is no limit, and system:masters has
    /// none
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().watches_per_user)]
    max_watches_per_user: usize,

    /// How long a request may take, with its body, until it is answered with 504: a number with a unit, such as
    /// 60s or 1m30s. Watches and the like are not meant. A request may ask for less with ?timeout=
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    request_timeout: Duration,
}

// --- LimitFlags ---

impl LimitFlags {
    /// What the server is told.
    pub(in crate::commands) fn limits(&self) -> Limits {
        Limits {
            reads: self.max_requests_inflight,
            writes: self.max_mutating_requests_inflight,
            watches_per_user: self.max_watches_per_user,
            request_time: self.request_timeout,
        }
    }
}

/// A duration as Go writes it.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = k3_apiserver::parse_duration(text)?;
    if parsed.is_zero() {
        return Err("must be more than nothing, such as 60s".to_owned());
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_upstream_has_them() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for wrong in ["60", "soon", "0s", "-1s", ""] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
