//! Request limits.

use std::time::Duration;

use clap::Args;
use k3_apiserver::Limits;

use crate::duration::parse_positive;

#[derive(Debug, Args)]
#[command(next_help_heading = "Request limits")]
pub(crate) struct LimitFlags {
    /// Maximum number of concurrent reads; more are rejected with 429. 0 is no limit. Watches do not count, and
    /// system:masters, nodes and the control plane are never rejected
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().reads)]
    max_requests_inflight: usize,

    /// Maximum number of concurrent writes; more are rejected with 429. 0 is no limit
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().writes)]
    max_mutating_requests_inflight: usize,

    /// Maximum number of watches per user; more are rejected with 429. 0 is no limit, and system:masters has
    /// none
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().watches_per_user)]
    max_watches_per_user: usize,

    /// Timeout of a request including its body, such as 60s or 1m30s, after which it is answered with 504. Watches and
    /// other long-running requests are exempt. A request may ask for less with ?timeout=
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_positive)]
    request_timeout: Duration,
}

// --- LimitFlags ---

impl LimitFlags {
    pub(in crate::commands) fn limits(&self) -> Limits {
        Limits {
            reads: self.max_requests_inflight,
            writes: self.max_mutating_requests_inflight,
            watches_per_user: self.max_watches_per_user,
            request_time: self.request_timeout,
        }
    }
}
