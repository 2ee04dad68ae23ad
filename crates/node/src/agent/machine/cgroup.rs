//! The limits of the cgroup that the agent itself is in: those of the container that is its machine.

use super::Eyes;

/// Where the limits of memory are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::agent) enum Cgroup {
    /// A folder of the second version.
    Unified(String),
    /// A folder of the memory controller of the first.
    Memory(String),
}

const ROOT: &str = "sys/fs/cgroup";

impl Cgroup {
    pub(super) fn find(eyes: &Eyes) -> Self {
        let text = eyes.read("proc/self/cgroup");
        let mut unified = "";
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let _ = parts.next();
            let controllers = parts.next();
            let path = parts.next().unwrap_or_default();
            let controllers = controllers.unwrap_or_default();
            if controllers.split(',').any(|name| name == "memory") {
                // Inside a container the path is the outside's, and the container's own is mounted as the root.
                let below = format!("{ROOT}/memory{path}");
                let is_there = eyes.path(&below).is_dir();
                return Cgroup::Memory(if is_there { below } else { format!("{ROOT}/memory") });
            }
            if controllers.is_empty() {
                unified = path;
            }
        }
        let below = format!("{ROOT}{}", unified.trim_end_matches('/'));
        let is_there = eyes.path(&below).is_dir();
        Cgroup::Unified(if is_there { below } else { ROOT.to_owned() })
    }

    /// The least limit of this cgroup and those above it that can be seen; none if there is none.
    pub(super) fn memory_limit(&self, eyes: &Eyes) -> Option<u64> {
        let (folder, file) = match self {
            Cgroup::Unified(folder) => (folder, "memory.max"),
            Cgroup::Memory(folder) => (folder, "memory.limit_in_bytes"),
        };
        let mut folder = folder.as_str();
        let mut least = None;
        loop {
            let limit = eyes.read(&format!("{folder}/{file}")).trim().parse::<u64>().ok();
            // The first version says "none" as the largest number of whole pages.
            let limit = limit.filter(|limit| *limit < 1 << 62);
            least = [least, limit].into_iter().flatten().min();
            match folder.rsplit_once('/') {
                Some((above, _)) if above.starts_with(ROOT) => folder = above,
                _ => return least,
            }
        }
    }

    /// What is in use, and how much of it are files that were not used lately.
    pub(super) fn memory_use(&self, eyes: &Eyes) -> Option<(u64, u64)> {
        let (folder, file, name) = match self {
            Cgroup::Unified(folder) => (folder, "memory.current", "inactive_file"),
            Cgroup::Memory(folder) => (folder, "memory.usage_in_bytes", "total_inactive_file"),
        };
        let used = eyes.read(&format!("{folder}/{file}")).trim().parse().ok()?;
        let stat = eyes.read(&format!("{folder}/memory.stat"));
        let inactive = stat
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some((used, inactive.unwrap_or(0)))
    }
}
