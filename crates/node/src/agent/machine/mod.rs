//! The machine: what it is, what it has, and how much of it is in use.
//!
//! Everything is read from `/proc`, `/sys` and `/etc`, below a root that tests set. Inside a container with limits the limits
//! are what the machine has.

mod cgroup;
mod identity;
mod memory;
mod usage;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use self::{cgroup::Cgroup, memory::Memory};
pub(super) use self::{
    identity::{Identity, architecture},
    usage::{Disk, Processes},
};

/// What a machine is and has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) identity: Identity,
    /// Processors, in thousandths.
    pub(super) cpu_milli: u64,
    /// Bytes of memory.
    pub(super) memory: u64,
    /// Bytes of swap.
    pub(super) swap: u64,
    /// Bytes of huge pages, by the size of one in bytes.
    pub(super) huge_pages: BTreeMap<u64, u64>,
}

/// Where to look.
#[derive(Clone, Debug)]
pub(super) struct Eyes {
    root: PathBuf,
}

// --- Eyes ---

impl Eyes {
    /// At this machine.
    pub(super) fn new() -> Self {
        Eyes { root: "/".into() }
    }

    #[cfg(test)]
    pub(super) fn at(root: impl Into<PathBuf>) -> Self {
        Eyes { root: root.into() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A small file, or nothing.
    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    /// What the machine is and has.
    pub(super) fn machine(&self) -> Machine {
        let memory = Memory::parse(&self.read("proc/meminfo"));
        let cgroup = Cgroup::find(self);
        let limit = cgroup.memory_limit(self).unwrap_or(u64::MAX);
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Machine {
            identity: Identity::read(self),
            cpu_milli: u64::try_from(processors).unwrap_or(1) * 1000,
            memory: memory.total.min(limit),
            swap: memory.swap_total,
            huge_pages: self.huge_pages(),
        }
    }

    fn huge_pages(&self) -> BTreeMap<u64, u64> {
        const FOLDER: &str = "sys/kernel/mm/hugepages";
        let entries = std::fs::read_dir(self.path(FOLDER))
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
            let count = self.read(&format!("{FOLDER}/{name}/nr_hugepages"));
            let count: u64 = count.trim().parse().ok()?;
            Some((kib << 10, count.saturating_mul(kib << 10)))
        });
        sizes.collect()
    }

    /// How much memory there is, and how much of it is in use so that it cannot be taken back.
    pub(super) fn memory(&self) -> MemoryUse {
        let memory = Memory::parse(&self.read("proc/meminfo"));
        let cgroup = Cgroup::find(self);
        if let Some(limit) = cgroup.memory_limit(self).filter(|limit| *limit < memory.total)
            && let Some((used, inactive)) = cgroup.memory_use(self)
        {
            return MemoryUse {
                capacity: limit,
                working_set: used.saturating_sub(inactive),
            };
        }
        let used = memory.total.saturating_sub(memory.free);
        MemoryUse {
            capacity: memory.total,
            working_set: used.saturating_sub(memory.inactive_file),
        }
    }

    /// How many processes there are and may be.
    pub(super) fn processes(&self) -> Processes {
        Processes::parse(
            &self.read("proc/loadavg"),
            &self.read("proc/sys/kernel/pid_max"),
            &self.read("proc/sys/kernel/threads-max"),
        )
    }

    /// What pods are told of the machine, or get of it.
    pub(super) fn facts(&self, machine: &Machine, config: &super::Config) -> crate::Machine {
        let sizes = machine.huge_pages.keys().map(|size| match size {
            size if size % (1 << 30) == 0 => format!("{}GB", size >> 30),
            size if size % (1 << 20) == 0 => format!("{}MB", size >> 20),
            size => format!("{}KB", size >> 10),
        });
        crate::Machine {
            resolv_conf: self.resolv_conf(),
            memory: machine.memory,
            huge_page_sizes: sizes.collect(),
            pids_limit: None,
            unified_cgroups: self.path("sys/fs/cgroup/cgroup.controllers").exists(),
            seccomp_profiles: config.data_dir.join("seccomp"),
            seccomp_default: config.seccomp_default,
        }
    }

    /// Where the machine resolves names. A resolver that only listens on the loopback is of no use to pods; the one of systemd
    /// tells elsewhere whom it asks itself.
    fn resolv_conf(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.path("etc/resolv.conf")).ok()?;
        let mut servers = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("nameserver"))
            .peekable();
        let is_local = servers.peek().is_some() && servers.all(|server| server.trim().starts_with("127."));
        if is_local {
            let behind = self.read("run/systemd/resolve/resolv.conf");
            if !behind.is_empty() {
                return Some(behind);
            }
        }
        Some(text)
    }

    /// What the file system has that a folder is on.
    #[expect(clippy::unused_self, reason = "who looks at the machine has eyes")]
    pub(super) fn disk(&self, folder: &Path) -> Option<Disk> {
        Disk::of(folder)
    }
}

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryUse {
    /// What there is.
    pub(super) capacity: u64,
    /// What is not free, without files that were not used lately.
    pub(super) working_set: u64,
}

impl MemoryUse {
    /// What can still be had.
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
    fn a_machine_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
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
        let eyes = Eyes::at(root);
        let machine = eyes.machine();
        assert_eq!((machine.memory, machine.swap), (1000 << 10, 20 << 10));
        assert_eq!(machine.huge_pages, BTreeMap::from([(2 << 20, 6 << 20)]));
        assert_eq!(machine.identity.machine_id, "abc");
        assert_eq!(machine.identity.system_uuid, "abc");
        assert_eq!(machine.identity.boot_id, "b-o-o-t");
        assert_eq!(machine.identity.os_image, "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(eyes.memory().available(), 500 << 10);
    }

    #[test]
    fn the_limits_of_a_container_are_what_the_machine_has() {
        for (membership, folder) in [
            ("0::/box\n", "sys/fs/cgroup/box"),
            // The cgroup's own namespace shows the container's as the root.
            ("0::/\n", "sys/fs/cgroup"),
        ] {
            let temporary = tempfile::tempdir().unwrap();
            let root = temporary.path();
            write(root, "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 400 kB\n");
            write(root, "proc/self/cgroup", membership);
            write(root, &format!("{folder}/memory.max"), "512000\n");
            write(root, &format!("{folder}/memory.current"), "300000\n");
            write(
                root,
                &format!("{folder}/memory.stat"),
                "anon 5\ninactive_file 100000\n",
            );
            let eyes = Eyes::at(root);
            assert_eq!(eyes.machine().memory, 512_000, "{membership}");
            assert_eq!(eyes.memory().available(), 312_000, "{membership}");
        }
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        write(root, "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 400 kB\n");
        write(root, "proc/self/cgroup", "4:memory:/box\n0::/\n");
        let folder = "sys/fs/cgroup/memory/box";
        write(
            root,
            &format!("{folder}/memory.limit_in_bytes"),
            "9223372036854771712\n",
        );
        assert_eq!(Eyes::at(root).machine().memory, 1000 << 10);
        write(root, &format!("{folder}/memory.limit_in_bytes"), "512000\n");
        write(root, &format!("{folder}/memory.usage_in_bytes"), "300000\n");
        write(
            root,
            &format!("{folder}/memory.stat"),
            "total_inactive_file 100000\n",
        );
        assert_eq!(Eyes::at(root).memory().available(), 312_000);
    }
}
