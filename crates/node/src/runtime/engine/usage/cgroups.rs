//! The kernel's figures of a process's cgroup, in both versions.

use std::{
    fs,
    path::{Path, PathBuf},
};

const ROOT: &str = "/sys/fs/cgroup";

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) cpu_nanoseconds: u64,
    pub(super) memory: u64,
    pub(super) memory_working_set: u64,
    pub(super) pids: u64,
}

/// The cgroups of a process: a folder for each controller, or one for all.
#[derive(Debug, PartialEq, Eq)]
enum Cgroups {
    V1 {
        cpu: PathBuf,
        memory: PathBuf,
        pids: PathBuf,
    },
    V2(PathBuf),
}

/// The figures of the cgroup that a process is in; `None` if it has ended.
pub(super) fn read(pid: i32) -> Option<Counted> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    match find(Path::new(ROOT), &text)? {
        Cgroups::V1 { cpu, memory, pids } => {
            let used = number(&memory.join("memory.usage_in_bytes"))?;
            Some(Counted {
                cpu_nanoseconds: number(&cpu.join("cpuacct.usage"))?,
                memory: used,
                memory_working_set: used
                    .saturating_sub(entry(&memory.join("memory.stat"), "total_inactive_file")),
                pids: number(&pids.join("pids.current")).unwrap_or(0),
            })
        }
        Cgroups::V2(folder) => {
            let used = number(&folder.join("memory.current"))?;
            Some(Counted {
                cpu_nanoseconds: entry(&folder.join("cpu.stat"), "usage_usec") * 1_000,
                memory: used,
                memory_working_set: used.saturating_sub(entry(&folder.join("memory.stat"), "inactive_file")),
                pids: number(&folder.join("pids.current")).unwrap_or(0),
            })
        }
    }
}

/// Reads `/proc/PID/cgroup`: lines of `number:controllers:path`. A machine with both versions counts in the first.
fn find(root: &Path, text: &str) -> Option<Cgroups> {
    let lines: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
        .collect();
    let folder = |controller: &str| {
        let (_, path) = lines
            .iter()
            .find(|(names, _)| names.split(',').any(|name| name == controller))?;
        Some(root.join(controller).join(path.trim_start_matches('/')))
    };
    if let Some(memory) = folder("memory") {
        return Some(Cgroups::V1 {
            cpu: folder("cpuacct")?,
            pids: folder("pids").unwrap_or_else(|| memory.clone()),
            memory,
        });
    }
    let (_, path) = lines.iter().find(|(names, _)| names.is_empty())?;
    Some(Cgroups::V2(root.join(path.trim_start_matches('/'))))
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// A line `name number` of a file; nothing is zero.
fn entry(file: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(found, _)| *found == name)
        .and_then(|(_, number)| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let root = Path::new("/r");
        let first = "9:name=systemd:/docker/a\n8:pids:/docker/a\n3:cpu,cpuacct:/docker/a\n2:memory:/docker/a\n0::/docker/a\n";
        assert_eq!(
            find(root, first),
            Some(Cgroups::V1 {
                cpu: "/r/cpuacct/docker/a".into(),
                memory: "/r/memory/docker/a".into(),
                pids: "/r/pids/docker/a".into(),
            })
        );
        assert_eq!(
            find(root, "0::/system.slice/docker-a.scope\n"),
            Some(Cgroups::V2("/r/system.slice/docker-a.scope".into()))
        );
        assert_eq!(find(root, ""), None);
    }

    #[test]
    fn this_process_uses_something() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let counted = read(pid).unwrap();
        assert!(counted.memory > 0 && counted.cpu_nanoseconds > 0, "{counted:?}");
    }
}
