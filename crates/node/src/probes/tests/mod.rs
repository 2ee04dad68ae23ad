//! Probes, with a runtime in memory and with real servers.

mod grpc;
mod http;
mod schedules;
mod tcp;
mod workers;

use std::time::Duration;

/// Long enough for what is on this machine, also when it is busy.
const LIMIT: Duration = Duration::from_secs(20);
