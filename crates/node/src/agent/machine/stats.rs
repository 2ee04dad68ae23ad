//! Stats of file systems and processes.

use std::path::Path;

/// Number of processes, and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct RlimitStats {
    pub(in crate::agent) running: u64,
    pub(in crate::agent) max_pid: u64,
}

/// Capacity and free space of a file system.
// upstream: pkg/kubelet/cadvisor/cadvisor_linux.go getFsInfo
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct FsInfo {
    pub(in crate::agent) capacity: u64,
    pub(in crate::agent) available: u64,
    pub(in crate::agent) inodes: u64,
    pub(in crate::agent) inodes_free: u64,
    /// Device number, to compare file systems.
    pub(in crate::agent) device: u64,
}

impl RlimitStats {
    pub(super) fn parse(load: &str, pids: &str, threads: &str) -> Self {
        let running = load
            .split_whitespace()
            .nth(3)
            .and_then(|tasks| tasks.split_once('/'));
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let max_pid = [number(pids), number(threads)].into_iter().flatten().min();
        RlimitStats {
            running: running.and_then(|(_, all)| all.parse().ok()).unwrap_or(0),
            max_pid: max_pid.unwrap_or(0),
        }
    }

    /// Number of processes that can still be started.
    pub(in crate::agent) fn available(&self) -> u64 {
        self.max_pid.saturating_sub(self.running)
    }
}

impl FsInfo {
    pub(super) fn of_directory(directory: &Path) -> Option<Self> {
        let stat = rustix::fs::statvfs(directory).ok()?;
        let block_size = stat.f_frsize;
        Some(FsInfo {
            capacity: stat.f_blocks.saturating_mul(block_size),
            available: stat.f_bavail.saturating_mul(block_size),
            inodes: stat.f_files,
            inodes_free: stat.f_ffree,
            device: rustix::fs::stat(directory).map_or(0, |stat| stat.st_dev),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_process_count_and_limit() {
        let processes = RlimitStats::parse("0.1 0.2 0.3 2/345 6789\n", "32768\n", "96000\n");
        assert_eq!(
            (processes.running, processes.max_pid, processes.available()),
            (345, 32_768, 32_423)
        );
    }
}
