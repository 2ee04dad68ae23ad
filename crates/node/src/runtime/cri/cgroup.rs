//! Figures of the kernel, for what a runtime does not tell.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::container_config::Cgroups;

/// Where cgroups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// What a cgroup uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) cpu_nanoseconds: u64,
    pub(super) memory: u64,
    pub(super) working_set: u64,
    pub(super) pids: u64,
}

/// Which cgroups this machine has. Both at once count as the first: its controllers are the ones that limit.
pub(super) fn version() -> Cgroups {
    if Path::new(ROOT).join("cgroup.controllers").exists() {
        Cgroups::V2
    } else {
        Cgroups::V1
    }
}

/// What the cgroup of a process uses.
pub(super) fn figures(process: u32, cgroups: Cgroups) -> io::Result<Figures> {
    let memberships = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
    read(Path::new(ROOT), &memberships, cgroups)
}

/// Bytes that came and went over the network that a process sees, without its loopback.
pub(super) fn traffic(process: u32) -> io::Result<(u64, u64)> {
    Ok(sum_traffic(&fs::read_to_string(format!(
        "/proc/{process}/net/dev"
    ))?))
}

fn read(root: &Path, memberships: &str, cgroups: Cgroups) -> io::Result<Figures> {
    match cgroups {
        Cgroups::V1 => read_v1(root, memberships),
        Cgroups::V2 => read_v2(root, memberships),
    }
}

fn read_v2(root: &Path, memberships: &str) -> io::Result<Figures> {
    let path = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or(io::ErrorKind::NotFound)?;
    let folder = below(root, path);
    let memory = number(&folder.join("memory.current"))?;
    let inactive = field(&folder.join("memory.stat"), "inactive_file")?;
    Ok(Figures {
        cpu_nanoseconds: field(&folder.join("cpu.stat"), "usage_usec")?.saturating_mul(1_000),
        memory,
        working_set: memory.saturating_sub(inactive),
        // A controller that may be missing.
        pids: number(&folder.join("pids.current")).unwrap_or_default(),
    })
}

fn read_v1(root: &Path, memberships: &str) -> io::Result<Figures> {
    let folder = |controller: &str| -> io::Result<PathBuf> {
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
    let memory_folder = folder("memory")?;
    let memory = number(&memory_folder.join("memory.usage_in_bytes"))?;
    let inactive = field(&memory_folder.join("memory.stat"), "total_inactive_file")?;
    Ok(Figures {
        cpu_nanoseconds: number(&folder("cpuacct")?.join("cpuacct.usage"))?,
        memory,
        working_set: memory.saturating_sub(inactive),
        pids: folder("pids")
            .and_then(|folder| number(&folder.join("pids.current")))
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

/// The sum over the interfaces in a file such as `/proc/net/dev`.
fn sum_traffic(text: &str) -> (u64, u64) {
    let mut sum = (0, 0);
    for line in text.lines() {
        let Some((name, figures)) = line.split_once(':') else {
            continue;
        };
        if name.trim() == "lo" {
            continue;
        }
        let figures: Vec<u64> = figures
            .split_whitespace()
            .map_while(|text| text.parse().ok())
            .collect();
        if let [received, _, _, _, _, _, _, _, sent, ..] = figures[..] {
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
    fn figures_of_both_versions_are_read() {
        let expected = Figures {
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
        assert_eq!(read(root, "0::/pods/a\n", Cgroups::V2).unwrap(), expected);

        write(root, "cpuacct/b/cpuacct.usage", "5000\n");
        write(root, "memory/b/memory.usage_in_bytes", "100\n");
        write(
            root,
            "memory/b/memory.stat",
            "inactive_file 1\ntotal_inactive_file 30\n",
        );
        write(root, "pids/b/pids.current", "3\n");
        let memberships = "9:memory:/b\n4:cpu,cpuacct:/b\n3:pids:/b\n1:name=systemd:/x\n0::/\n";
        assert_eq!(read(root, memberships, Cgroups::V1).unwrap(), expected);
    }

    #[test]
    fn a_process_in_no_cgroup_has_no_figures() {
        assert!(read(Path::new("/nonexistent"), "", Cgroups::V1).is_err());
        assert!(read(Path::new("/nonexistent"), "0::/a", Cgroups::V2).is_err());
    }

    #[test]
    fn traffic_is_counted_without_the_loopback() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  \
                    eth0: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n  eth1:1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n";
        assert_eq!(sum_traffic(text), (11, 22));
    }
}
