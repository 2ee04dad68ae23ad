//! The CPU time of processes, as the kernel counts it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::BenchError;

/// Ticks per second in `/proc/PID/stat`: the same on every Linux, whatever the kernel's own rate.
const TICKS: u64 = 100;

/// Watches this process, and a server it works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuMeter {
    server: Option<u32>,
}

/// CPU time, user and system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// By this process.
    pub(crate) own: Duration,
    /// By the server; zero without one.
    pub(crate) server: Duration,
}

// --- CpuMeter ---

impl CpuMeter {
    /// A meter of this process and, if there is one, the server with this process id.
    pub(crate) fn new(server: Option<u32>) -> Self {
        Self { server }
    }

    /// What was spent since the processes began.
    pub(crate) fn read(self) -> Result<CpuTime, BenchError> {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own = Duration::try_from(own).map_err(|_| "the CPU clock is below zero")?;
        let server = match self.server {
            Some(pid) => ticks(&std::fs::read_to_string(format!("/proc/{pid}/stat"))?)?,
            None => Duration::ZERO,
        };
        Ok(CpuTime { own, server })
    }
}

// --- CpuTime ---

impl CpuTime {
    /// What was spent since an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            own: self.own.saturating_sub(earlier.own),
            server: self.server.saturating_sub(earlier.server),
        }
    }
}

/// User and system time from the line in `/proc/PID/stat`: fields 14 and 15.
fn ticks(line: &str) -> Result<Duration, BenchError> {
    // The name of the program, in parentheses, may hold anything.
    let (_, rest) = line.rsplit_once(')').ok_or("no program name in /proc/PID/stat")?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next =
        || -> Result<u64, BenchError> { Ok(fields.next().ok_or("/proc/PID/stat is too short")?.parse()?) };
    let ticks = next()? + next()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_an_odd_name_is_read() {
        let line = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(ticks(line).unwrap(), Duration::from_secs(3));
    }

    #[test]
    fn work_is_counted() {
        let meter = CpuMeter::new(Some(std::process::id()));
        let before = meter.read().unwrap();
        let mut spent = CpuTime::default();
        while spent.own < Duration::from_millis(50) {
            spent = meter.read().unwrap().since(before);
        }
        // The two ways to count differ by a tick or two.
        assert!(spent.server >= Duration::from_millis(20), "{spent:?}");
    }
}
