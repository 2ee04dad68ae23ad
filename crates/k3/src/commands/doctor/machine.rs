//! Checks of the clock and limits of this machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kubecontroller::Clock;
use rustix::process::{Resource, getrlimit};

use super::{check::DoctorCheck, server::ServerState};

const CLOCK: &str = "clock";
const FILES: &str = "open files";
/// Earlier times mean that the clock is not set.
const BEGINNING: Duration = Duration::from_hours(56 * 365 * 24);
/// Maximum clock skew for certificates and leases.
const SKEW: Duration = Duration::from_secs(5);
/// Each connection and each watch is an open file.
const FEW_FILES: u64 = 4096;

pub(super) fn clock(running: &ServerState) -> DoctorCheck {
    let time = match running {
        ServerState::Running { time, .. } => *time,
        ServerState::NotRunning(_) => None,
    };
    compare_clocks(Clock::system().system_time(), time)
}

fn compare_clocks(now: SystemTime, server: Option<SystemTime>) -> DoctorCheck {
    let advice = "synchronize it with chrony or systemd-timesyncd: certificates and leases depend on it";
    if now.duration_since(UNIX_EPOCH).unwrap_or_default() < BEGINNING {
        return DoctorCheck::fail(CLOCK, "not set", advice);
    }
    let Some(server) = server else {
        return DoctorCheck::ok(CLOCK, "it is set");
    };
    // The server's Date header has whole seconds.
    let apart = now
        .duration_since(server)
        .unwrap_or_else(|error| error.duration());
    if apart > SKEW {
        let found = format!("it differs from the server's by {} s", apart.as_secs());
        return DoctorCheck::fail(CLOCK, found, advice);
    }
    DoctorCheck::ok(CLOCK, "it is set and agrees with the server")
}

pub(super) fn open_files() -> DoctorCheck {
    match getrlimit(Resource::Nofile).maximum {
        Some(max) if max < FEW_FILES => DoctorCheck::warn(
            FILES,
            format!("limited to {max}"),
            "raise the hard limit: `ulimit -Hn`, or LimitNOFILE= in the systemd unit",
        ),
        Some(max) => DoctorCheck::ok(FILES, format!("limit {max}")),
        None => DoctorCheck::ok(FILES, "unlimited"),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::check::CheckStatus, *};

    #[test]
    fn fails_for_an_unset_or_skewed_clock() {
        let now = UNIX_EPOCH + BEGINNING + Duration::from_hours(24 * 400);
        assert_eq!(compare_clocks(UNIX_EPOCH, None).status, CheckStatus::Fail);
        assert_eq!(compare_clocks(now, None).status, CheckStatus::Ok);
        assert_eq!(
            compare_clocks(now, Some(now - Duration::from_secs(1))).status,
            CheckStatus::Ok
        );
        for away in [now - Duration::from_mins(1), now + Duration::from_mins(1)] {
            assert_eq!(compare_clocks(now, Some(away)).status, CheckStatus::Fail);
        }
    }
}
