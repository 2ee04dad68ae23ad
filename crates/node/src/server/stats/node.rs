//! Resource usage of the node, from `/proc`.

use std::path::Path;

use k8s_openapi::jiff::Timestamp;

/// Clock ticks per second (`USER_HZ`). Fixed by the kernel ABI.
const TICKS_PER_SECOND: u64 = 100;

/// Resource usage of the node since its boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeUsage {
    /// Boot time.
    pub started: Option<Timestamp>,
    /// CPU time of all processors since the boot.
    pub cpu_nanoseconds: u64,
    pub memory_total: u64,
    pub memory_used: u64,
    /// Used memory without inactive page cache.
    pub memory_working_set: u64,
    /// File system of the data directory.
    pub disk: FsUsage,
}

/// Capacity and free space of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FsUsage {
    pub capacity: u64,
    pub available: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

impl NodeUsage {
    /// Reads the usage. Values that cannot be read are 0.
    pub(super) async fn read(data_dir: &Path) -> Self {
        let read = |file| async move { tokio::fs::read_to_string(file).await.unwrap_or_default() };
        let stat = read("/proc/stat").await;
        let memory = read("/proc/meminfo").await;
        let mut usage = parse(&stat, &memory);
        if let Ok(found) = rustix::fs::statvfs(data_dir) {
            usage.disk = FsUsage {
                capacity: found.f_blocks.saturating_mul(found.f_frsize),
                available: found.f_bavail.saturating_mul(found.f_frsize),
                inodes: found.f_files,
                inodes_free: found.f_ffree,
            };
        }
        usage
    }
}

fn parse(stat: &str, memory: &str) -> NodeUsage {
    let mut usage = NodeUsage::default();
    for line in stat.lines() {
        let mut fields = line.split_whitespace();
        match fields.next() {
            Some("cpu") => {
                // Fields: user nice system idle iowait irq softirq steal. All but idle and iowait count as used.
                let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
                let used: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| ticks.get(*at)).sum();
                usage.cpu_nanoseconds = used.saturating_mul(1_000_000_000 / TICKS_PER_SECOND);
            }
            Some("btime") => {
                let seconds = fields.next().and_then(|field| field.parse().ok());
                usage.started = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
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
    usage.memory_total = bytes("MemTotal");
    usage.memory_used = usage.memory_total.saturating_sub(bytes("MemFree"));
    usage.memory_working_set = usage.memory_used.saturating_sub(bytes("Inactive(file)"));
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_proc_files() {
        let stat = "cpu  100 1 20 9999 5 2 3 4 0 0\ncpu0 1 2 3\nbtime 1700000000\nprocesses 1\n";
        let memory = "MemTotal:  1000 kB\nMemFree:   400 kB\nInactive:  9 kB\nInactive(file):  100 kB\n";
        let usage = parse(stat, memory);
        assert_eq!(usage.cpu_nanoseconds, 1_300_000_000);
        assert_eq!(usage.started.unwrap().as_second(), 1_700_000_000);
        assert_eq!(
            (usage.memory_total, usage.memory_used, usage.memory_working_set),
            (1000 << 10, 600 << 10, 500 << 10)
        );
        assert_eq!(parse("", "garbage"), NodeUsage::default());
    }
}
