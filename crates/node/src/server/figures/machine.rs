//! What the whole machine uses, from `/proc`.

use std::path::Path;

use k8s_openapi::jiff::Timestamp;

/// The clock ticks of a second, which Linux has promised programs for ever.
const TICKS: u64 = 100;

/// What the machine uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    /// When it was started.
    pub started: Option<Timestamp>,
    /// Time of all processors that was used since then.
    pub cpu_nanoseconds: u64,
    pub memory_total: u64,
    pub memory_used: u64,
    /// What is used without caches that can be dropped.
    pub memory_working_set: u64,
    /// The file system of the agent's folder.
    pub disk: Disk,
}

/// A file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disk {
    pub capacity: u64,
    pub available: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

/// Looks at the machine. What cannot be read is nothing.
pub(super) async fn look(folder: &Path) -> Machine {
    let read = |file| async move { tokio::fs::read_to_string(file).await.unwrap_or_default() };
    let stat = read("/proc/stat").await;
    let memory = read("/proc/meminfo").await;
    let mut machine = parse(&stat, &memory);
    if let Ok(found) = rustix::fs::statvfs(folder) {
        machine.disk = Disk {
            capacity: found.f_blocks.saturating_mul(found.f_frsize),
            available: found.f_bavail.saturating_mul(found.f_frsize),
            inodes: found.f_files,
            inodes_free: found.f_ffree,
        };
    }
    machine
}

fn parse(stat: &str, memory: &str) -> Machine {
    let mut machine = Machine::default();
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("cpu") => {
                // user nice system idle iowait irq softirq steal: all but idling and waiting.
                let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
                let used: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| ticks.get(*at)).sum();
                machine.cpu_nanoseconds = used.saturating_mul(1_000_000_000 / TICKS);
            }
            Some("btime") => {
                let seconds = words.next().and_then(|word| word.parse().ok());
                machine.started = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
            }
            _ => {}
        }
    }
    let bytes = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes: u64 = line
            .and_then(|line| line.strip_prefix(':')?.split_whitespace().next()?.parse().ok())
            .unwrap_or_default();
        kilobytes << 10
    };
    machine.memory_total = bytes("MemTotal");
    machine.memory_used = machine.memory_total.saturating_sub(bytes("MemFree"));
    machine.memory_working_set = machine.memory_used.saturating_sub(bytes("Inactive(file)"));
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        let stat = "cpu  100 1 20 9999 5 2 3 4 0 0\ncpu0 1 2 3\nbtime 1700000000\nprocesses 1\n";
        let memory = "MemTotal:  1000 kB\nMemFree:   400 kB\nInactive:  9 kB\nInactive(file):  100 kB\n";
        let machine = parse(stat, memory);
        assert_eq!(machine.cpu_nanoseconds, 1_300_000_000);
        assert_eq!(machine.started.unwrap().as_second(), 1_700_000_000);
        assert_eq!(
            (
                machine.memory_total,
                machine.memory_used,
                machine.memory_working_set
            ),
            (1000 << 10, 600 << 10, 500 << 10)
        );
        assert_eq!(parse("", "garbage"), Machine::default());
    }
}
