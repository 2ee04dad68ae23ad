//! Resource usage from cgroups, for runtimes without `ListContainerStats`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::container_config::CgroupVersion;

/// Mount point of cgroups.
const ROOT: &str = "/sys/fs/cgroup";

/// Usage of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CgroupStats {
    pub(super) cpu_nanoseconds: u64,
    pub(super) memory: u64,
    pub(super) working_set: u64,
    pub(super) pids: u64,
}

/// Detects the cgroup version. Hybrid hosts count as v1, because v1 controllers limit there.
pub(super) fn detect_cgroup_version() -> CgroupVersion {
    if Path::new(ROOT).join("cgroup.controllers").exists() {
        CgroupVersion::V2
    } else {
        CgroupVersion::V1
    }
}

/// Returns the usage of the cgroup of a process.
pub(super) fn cgroup_stats(process: u32, cgroups: CgroupVersion) -> io::Result<CgroupStats> {
    let memberships = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
    read(Path::new(ROOT), &memberships, cgroups)
}

/// Returns bytes received and sent in the network namespace of a process, without loopback.
pub(super) fn traffic(process: u32) -> io::Result<(u64, u64)> {
    Ok(sum_traffic(&fs::read_to_string(format!(
        "/proc/{process}/net/dev"
    ))?))
}

fn read(root: &Path, memberships: &str, cgroups: CgroupVersion) -> io::Result<CgroupStats> {
    match cgroups {
        CgroupVersion::V1 => read_v1(root, memberships),
        CgroupVersion::V2 => read_v2(root, memberships),
    }
}

fn read_v2(root: &Path, memberships: &str) -> io::Result<CgroupStats> {
    let path = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or(io::ErrorKind::NotFound)?;
    let directory = below(root, path);
    let memory = number(&directory.join("memory.current"))?;
    let inactive = field(&directory.join("memory.stat"), "inactive_file")?;
    Ok(CgroupStats {
        cpu_nanoseconds: field(&directory.join("cpu.stat"), "usage_usec")?.saturating_mul(1_000),
        memory,
        working_set: memory.saturating_sub(inactive),
        // The pids controller may be disabled.
        pids: number(&directory.join("pids.current")).unwrap_or_default(),
    })
}

fn read_v1(root: &Path, memberships: &str) -> io::Result<CgroupStats> {
    let directory = |controller: &str| -> io::Result<PathBuf> {
        let path = memberships
            .lines()
            .find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let controllers = fields.next()?;
                let path = fields.next()?;
                controllers
                    .split(',')
                    .any(|name| name == controller)
                    .then_some(path)
            })
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(below(&root.join(controller), path))
    };
    let memory_directory = directory("memory")?;
    let memory = number(&memory_directory.join("memory.usage_in_bytes"))?;
    let inactive = field(&memory_directory.join("memory.stat"), "total_inactive_file")?;
    Ok(CgroupStats {
        cpu_nanoseconds: number(&directory("cpuacct")?.join("cpuacct.usage"))?,
        memory,
        working_set: memory.saturating_sub(inactive),
        pids: directory("pids")
            .and_then(|directory| number(&directory.join("pids.current")))
            .unwrap_or_default(),
    })
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn number(file: &Path) -> io::Result<u64> {
    parse(&fs::read_to_string(file)?)
}

fn field(file: &Path, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(file)?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .ok_or(io::ErrorKind::NotFound)?;
    parse(value)
}

fn parse(text: &str) -> io::Result<u64> {
    text.trim().parse().map_err(io::Error::other)
}

/// Sums the interfaces of `/proc/net/dev`.
fn sum_traffic(text: &str) -> (u64, u64) {
    let mut sum = (0, 0);
    for line in text.lines() {
        let Some((name, counters)) = line.split_once(':') else {
            continue;
        };
        if name.trim() == "lo" {
            continue;
        }
        let counters: Vec<u64> = counters
            .split_whitespace()
            .map_while(|text| text.parse().ok())
            .collect();
        if let [received, _, _, _, _, _, _, _, sent, ..] = counters[..] {
            sum = (sum.0 + received, sum.1 + sent);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn reads_cgroup_v1_and_v2() {
        let expected = CgroupStats {
            cpu_nanoseconds: 5_000,
            memory: 100,
            working_set: 70,
            pids: 3,
        };
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "pods/a/cpu.stat", "usage_usec 5\nuser_usec 4\n");
        write(root, "pods/a/memory.current", "100\n");
        write(root, "pods/a/memory.stat", "anon 1\ninactive_file 30\n");
        write(root, "pods/a/pids.current", "3\n");
        assert_eq!(read(root, "0::/pods/a\n", CgroupVersion::V2).unwrap(), expected);

        write(root, "cpuacct/b/cpuacct.usage", "5000\n");
        write(root, "memory/b/memory.usage_in_bytes", "100\n");
        write(
            root,
            "memory/b/memory.stat",
            "inactive_file 1\ntotal_inactive_file 30\n",
        );
        write(root, "pids/b/pids.current", "3\n");
        let memberships = "9:memory:/b\n4:cpu,cpuacct:/b\n3:pids:/b\n1:name=systemd:/x\n0::/\n";
        assert_eq!(read(root, memberships, CgroupVersion::V1).unwrap(), expected);
    }

    #[test]
    fn requires_cgroup_membership() {
        assert!(read(Path::new("/nonexistent"), "", CgroupVersion::V1).is_err());
        assert!(read(Path::new("/nonexistent"), "0::/a", CgroupVersion::V2).is_err());
    }

    #[test]
    fn network_bytes_exclude_loopback() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  \
                    eth0: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n  eth1:1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n";
        assert_eq!(sum_traffic(text), (11, 22));
    }
}
