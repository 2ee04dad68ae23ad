//! How much of a machine is in use.

use std::path::Path;

/// Processes there are, and may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct Processes {
    pub(in crate::agent) running: u64,
    pub(in crate::agent) most: u64,
}

/// A file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct Disk {
    pub(in crate::agent) capacity: u64,
    pub(in crate::agent) available: u64,
    pub(in crate::agent) inodes: u64,
    pub(in crate::agent) inodes_free: u64,
    /// The same for folders on the same file system.
    pub(in crate::agent) device: u64,
}

impl Processes {
    pub(super) fn parse(load: &str, pids: &str, threads: &str) -> Self {
        let running = load
            .split_whitespace()
            .nth(3)
            .and_then(|tasks| tasks.split_once('/'));
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let most = [number(pids), number(threads)].into_iter().flatten().min();
        Processes {
            running: running.and_then(|(_, all)| all.parse().ok()).unwrap_or(0),
            most: most.unwrap_or(0),
        }
    }

    /// How many more there may be.
    pub(in crate::agent) fn available(&self) -> u64 {
        self.most.saturating_sub(self.running)
    }
}

impl Disk {
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let about = rustix::fs::statvfs(folder).ok()?;
        let size = about.f_frsize;
        Some(Disk {
            capacity: about.f_blocks.saturating_mul(size),
            available: about.f_bavail.saturating_mul(size),
            inodes: about.f_files,
            inodes_free: about.f_ffree,
            device: rustix::fs::stat(folder).map_or(0, |about| about.st_dev),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_counted() {
        let processes = Processes::parse("0.1 0.2 0.3 2/345 6789\n", "32768\n", "96000\n");
        assert_eq!(
            (processes.running, processes.most, processes.available()),
            (345, 32_768, 32_423)
        );
    }
}
