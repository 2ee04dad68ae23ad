//! Capacity and stats of the host (cadvisor's part in upstream).
//!
//! Everything is read from `/proc`, `/sys` and `/etc`, below a root directory that tests set. If the agent runs in a container with
//! limits, its limits are the capacity of the node.
// upstream: pkg/kubelet/cadvisor/cadvisor_linux.go MachineInfo

mod cgroup;
mod identity;
mod meminfo;
mod stats;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use self::{cgroup::Cgroup, meminfo::Meminfo};
pub(super) use self::{
    identity::{MachineIdentity, architecture},
    stats::{FsInfo, RlimitStats},
};

/// Identity and capacity of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MachineInfo {
    pub(super) identity: MachineIdentity,
    /// CPU in millicores.
    pub(super) cpu_milli: u64,
    /// Memory in bytes.
    pub(super) memory: u64,
    /// Swap in bytes.
    pub(super) swap: u64,
    /// Total bytes of huge pages, by page size in bytes.
    pub(super) huge_pages: BTreeMap<u64, u64>,
}

/// Reads the files of the host below a root directory.
#[derive(Clone, Debug)]
pub(super) struct MachineReader {
    root: PathBuf,
}

// --- MachineReader ---

impl MachineReader {
    /// Reads this host.
    pub(super) fn new() -> Self {
        MachineReader { root: "/".into() }
    }

    #[cfg(test)]
    pub(super) fn at(root: impl Into<PathBuf>) -> Self {
        MachineReader { root: root.into() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Content of a file; empty if it cannot be read. Hosts lack some of the files.
    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_else(|error| {
            if error.kind() != std::io::ErrorKind::NotFound {
                tracing::debug!(path, %error, "failed to read a file of the host");
            }
            String::new()
        })
    }

    /// Identity and capacity of the host.
    pub(super) fn machine(&self) -> MachineInfo {
        let memory = Meminfo::parse(&self.read("proc/meminfo"));
        let cgroup = Cgroup::find(self);
        let limit = cgroup.memory_limit(self).unwrap_or(u64::MAX);
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        MachineInfo {
            identity: MachineIdentity::read(self),
            cpu_milli: u64::try_from(processors).unwrap_or(1) * 1000,
            memory: memory.total.min(limit),
            swap: memory.swap_total,
            huge_pages: self.huge_pages(),
        }
    }

    fn huge_pages(&self) -> BTreeMap<u64, u64> {
        const DIRECTORY: &str = "sys/kernel/mm/hugepages";
        let entries = std::fs::read_dir(self.path(DIRECTORY))
            .into_iter()
            .flatten()
            .flatten();
        let sizes = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib: u64 = name
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()?;
            let count = self.read(&format!("{DIRECTORY}/{name}/nr_hugepages"));
            let count: u64 = count.trim().parse().ok()?;
            Some((kib << 10, count.saturating_mul(kib << 10)))
        });
        sizes.collect()
    }

    /// Capacity and working set of memory: of the cgroup if it has a limit, else of the host.
    pub(super) fn memory(&self) -> MemoryStats {
        let memory = Meminfo::parse(&self.read("proc/meminfo"));
        let cgroup = Cgroup::find(self);
        if let Some(limit) = cgroup.memory_limit(self).filter(|limit| *limit < memory.total)
            && let Some((used, inactive)) = cgroup.memory_usage(self)
        {
            return MemoryStats {
                capacity: limit,
                working_set: used.saturating_sub(inactive),
            };
        }
        let used = memory.total.saturating_sub(memory.free);
        MemoryStats {
            capacity: memory.total,
            working_set: used.saturating_sub(memory.inactive_file),
        }
    }

    /// Number of processes, and its limit.
    pub(super) fn rlimit_stats(&self) -> RlimitStats {
        RlimitStats::parse(
            &self.read("proc/loadavg"),
            &self.read("proc/sys/kernel/pid_max"),
            &self.read("proc/sys/kernel/threads-max"),
        )
    }

    /// Facts about the host for pods.
    pub(super) fn host_facts(&self, machine: &MachineInfo, config: &super::AgentConfig) -> crate::HostFacts {
        let sizes = machine.huge_pages.keys().map(|size| match size {
            size if size % (1 << 30) == 0 => format!("{}GB", size >> 30),
            size if size % (1 << 20) == 0 => format!("{}MB", size >> 20),
            size => format!("{}KB", size >> 10),
        });
        crate::HostFacts {
            resolv_conf: self.resolv_conf(),
            memory: machine.memory,
            huge_page_sizes: sizes.collect(),
            pids_limit: None,
            unified_cgroups: self.path("sys/fs/cgroup/cgroup.controllers").exists(),
            seccomp_profiles: config.data_dir.join("seccomp"),
            seccomp_default: config.seccomp_default,
        }
    }

    /// The `resolv.conf` for pods. Pods cannot reach a resolver on the loopback address of the host; systemd-resolved lists its own
    /// name servers in another file.
    fn resolv_conf(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.path("etc/resolv.conf")).ok()?;
        let mut servers = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("nameserver"))
            .peekable();
        let is_local = servers.peek().is_some() && servers.all(|server| server.trim().starts_with("127."));
        if is_local {
            let upstream_servers = self.read("run/systemd/resolve/resolv.conf");
            if !upstream_servers.is_empty() {
                return Some(upstream_servers);
            }
        }
        Some(text)
    }

    /// The file system of a directory.
    #[expect(
        clippy::unused_self,
        reason = "all stats of the host are read through the reader"
    )]
    pub(super) fn fs_info(&self, directory: &Path) -> Option<FsInfo> {
        FsInfo::of_directory(directory)
    }
}

/// Capacity and usage of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryStats {
    /// Total memory.
    pub(super) capacity: u64,
    /// Used memory without inactive page cache.
    pub(super) working_set: u64,
}

impl MemoryStats {
    /// Memory that is available.
    pub(super) fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.working_set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn reads_machine_info() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        write(
            root,
            "proc/meminfo",
            "MemTotal: 1000 kB\nMemFree: 400 kB\nInactive(file): 100 kB\nSwapTotal: 20 kB\n",
        );
        write(root, "etc/machine-id", "abc\n");
        write(root, "proc/sys/kernel/random/boot_id", "b-o-o-t\n");
        write(
            root,
            "etc/os-release",
            "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
        );
        write(
            root,
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "3\n",
        );
        let machine_reader = MachineReader::at(root);
        let machine = machine_reader.machine();
        assert_eq!((machine.memory, machine.swap), (1000 << 10, 20 << 10));
        assert_eq!(machine.huge_pages, BTreeMap::from([(2 << 20, 6 << 20)]));
        assert_eq!(machine.identity.machine_id, "abc");
        assert_eq!(machine.identity.system_uuid, "abc");
        assert_eq!(machine.identity.boot_id, "b-o-o-t");
        assert_eq!(machine.identity.os_image, "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(machine_reader.memory().available(), 500 << 10);
    }

    #[test]
    fn cgroup_limits_are_the_capacity() {
        for (membership, directory) in [
            ("0::/box\n", "sys/fs/cgroup/box"),
            // In a cgroup namespace the cgroup of the container is the root.
            ("0::/\n", "sys/fs/cgroup"),
        ] {
            let temporary = tempfile::tempdir().unwrap();
            let root = temporary.path();
            write(root, "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 400 kB\n");
            write(root, "proc/self/cgroup", membership);
            write(root, &format!("{directory}/memory.max"), "512000\n");
            write(root, &format!("{directory}/memory.current"), "300000\n");
            write(
                root,
                &format!("{directory}/memory.stat"),
                "anon 5\ninactive_file 100000\n",
            );
            let machine_reader = MachineReader::at(root);
            assert_eq!(machine_reader.machine().memory, 512_000, "{membership}");
            assert_eq!(machine_reader.memory().available(), 312_000, "{membership}");
        }
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        write(root, "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 400 kB\n");
        write(root, "proc/self/cgroup", "4:memory:/box\n0::/\n");
        let directory = "sys/fs/cgroup/memory/box";
        write(
            root,
            &format!("{directory}/memory.limit_in_bytes"),
            "9223372036854771712\n",
        );
        assert_eq!(MachineReader::at(root).machine().memory, 1000 << 10);
        write(root, &format!("{directory}/memory.limit_in_bytes"), "512000\n");
        write(root, &format!("{directory}/memory.usage_in_bytes"), "300000\n");
        write(
            root,
            &format!("{directory}/memory.stat"),
            "total_inactive_file 100000\n",
        );
        assert_eq!(MachineReader::at(root).memory().available(), 312_000);
    }
}
