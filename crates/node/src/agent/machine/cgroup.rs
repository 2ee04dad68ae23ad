//! Memory limit and usage of the agent's own cgroup, for an agent that runs in a container.

use super::MachineReader;

/// Cgroup directory with the memory controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::agent) enum Cgroup {
    /// Directory of cgroup v2.
    Unified(String),
    /// Directory of the memory controller of cgroup v1.
    Memory(String),
}

const ROOT: &str = "sys/fs/cgroup";

impl Cgroup {
    pub(super) fn find(machine_reader: &MachineReader) -> Self {
        let text = machine_reader.read("proc/self/cgroup");
        let mut unified = "";
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let _ = parts.next();
            let controllers = parts.next();
            let path = parts.next().unwrap_or_default();
            let controllers = controllers.unwrap_or_default();
            if controllers.split(',').any(|name| name == "memory") {
                // In a container the path may be that of the host, while the cgroup of the container is mounted as the root.
                let below = format!("{ROOT}/memory{path}");
                let exists = machine_reader.path(&below).is_dir();
                return Cgroup::Memory(if exists { below } else { format!("{ROOT}/memory") });
            }
            if controllers.is_empty() {
                unified = path;
            }
        }
        let below = format!("{ROOT}{}", unified.trim_end_matches('/'));
        let exists = machine_reader.path(&below).is_dir();
        Cgroup::Unified(if exists { below } else { ROOT.to_owned() })
    }

    /// The lowest limit of this cgroup and its visible ancestors, if any.
    pub(super) fn memory_limit(&self, machine_reader: &MachineReader) -> Option<u64> {
        let (directory, file) = match self {
            Cgroup::Unified(directory) => (directory, "memory.max"),
            Cgroup::Memory(directory) => (directory, "memory.limit_in_bytes"),
        };
        let mut directory = directory.as_str();
        let mut lowest = None;
        loop {
            let limit = machine_reader
                .read(&format!("{directory}/{file}"))
                .trim()
                .parse::<u64>()
                .ok();
            // Cgroup v1 reports the largest page-aligned number if there is no limit.
            let limit = limit.filter(|limit| *limit < 1 << 62);
            lowest = [lowest, limit].into_iter().flatten().min();
            match directory.rsplit_once('/') {
                Some((parent, _)) if parent.starts_with(ROOT) => directory = parent,
                _ => return lowest,
            }
        }
    }

    /// Memory usage, and the inactive page cache in it.
    pub(super) fn memory_usage(&self, machine_reader: &MachineReader) -> Option<(u64, u64)> {
        let (directory, file, name) = match self {
            Cgroup::Unified(directory) => (directory, "memory.current", "inactive_file"),
            Cgroup::Memory(directory) => (directory, "memory.usage_in_bytes", "total_inactive_file"),
        };
        let used = machine_reader
            .read(&format!("{directory}/{file}"))
            .trim()
            .parse()
            .ok()?;
        let stat = machine_reader.read(&format!("{directory}/memory.stat"));
        let inactive = stat
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some((used, inactive.unwrap_or(0)))
    }
}
