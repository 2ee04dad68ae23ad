//! Tests of probes with a fake runtime and with real servers.

mod grpc;
mod http;
mod schedules;
mod tcp;
mod workers;

use std::time::Duration;

/// Timeout of probes that must succeed, long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(20);
