//! Resource usage of a process's cgroup, in cgroup v1 and v2.

use std::{
    fs,
    path::{Path, PathBuf},
};

const ROOT: &str = "/sys/fs/cgroup";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CgroupStats {
    pub(super) cpu_nanoseconds: u64,
    pub(super) memory: u64,
    pub(super) memory_working_set: u64,
    pub(super) pids: u64,
}

/// The cgroups of a process: one directory per controller (v1), or one for all (v2).
#[derive(Debug, PartialEq, Eq)]
enum ProcessCgroups {
    V1 {
        cpu: PathBuf,
        memory: PathBuf,
        pids: PathBuf,
    },
    V2(PathBuf),
}

/// Returns the usage of the cgroup of a process; `None` if it has exited.
pub(super) fn read(pid: i32) -> Option<CgroupStats> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    match find(Path::new(ROOT), &text)? {
        ProcessCgroups::V1 { cpu, memory, pids } => {
            let usage = number(&memory.join("memory.usage_in_bytes"))?;
            Some(CgroupStats {
                cpu_nanoseconds: number(&cpu.join("cpuacct.usage"))?,
                memory: usage,
                memory_working_set: usage
                    .saturating_sub(entry(&memory.join("memory.stat"), "total_inactive_file")),
                pids: number(&pids.join("pids.current")).unwrap_or(0),
            })
        }
        ProcessCgroups::V2(directory) => {
            let usage = number(&directory.join("memory.current"))?;
            Some(CgroupStats {
                cpu_nanoseconds: entry(&directory.join("cpu.stat"), "usage_usec") * 1_000,
                memory: usage,
                memory_working_set: usage
                    .saturating_sub(entry(&directory.join("memory.stat"), "inactive_file")),
                pids: number(&directory.join("pids.current")).unwrap_or(0),
            })
        }
    }
}

/// Parses `/proc/PID/cgroup`: lines of `number:controllers:path`. Hybrid hosts use the v1 controllers.
fn find(root: &Path, text: &str) -> Option<ProcessCgroups> {
    let lines: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
        .collect();
    let directory = |controller: &str| {
        let (_, path) = lines
            .iter()
            .find(|(names, _)| names.split(',').any(|name| name == controller))?;
        Some(root.join(controller).join(path.trim_start_matches('/')))
    };
    if let Some(memory) = directory("memory") {
        return Some(ProcessCgroups::V1 {
            cpu: directory("cpuacct")?,
            pids: directory("pids").unwrap_or_else(|| memory.clone()),
            memory,
        });
    }
    let (_, path) = lines.iter().find(|(names, _)| names.is_empty())?;
    Some(ProcessCgroups::V2(root.join(path.trim_start_matches('/'))))
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Returns the value of a line `name value`; 0 if missing.
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
    fn finds_v1_and_v2_cgroups() {
        let root = Path::new("/r");
        let first = "9:name=systemd:/docker/a\n8:pids:/docker/a\n3:cpu,cpuacct:/docker/a\n2:memory:/docker/a\n0::/docker/a\n";
        assert_eq!(
            find(root, first),
            Some(ProcessCgroups::V1 {
                cpu: "/r/cpuacct/docker/a".into(),
                memory: "/r/memory/docker/a".into(),
                pids: "/r/pids/docker/a".into(),
            })
        );
        assert_eq!(
            find(root, "0::/system.slice/docker-a.scope\n"),
            Some(ProcessCgroups::V2("/r/system.slice/docker-a.scope".into()))
        );
        assert_eq!(find(root, ""), None);
    }

    #[test]
    fn reads_usage_of_this_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let counted = read(pid).unwrap();
        assert!(counted.memory > 0 && counted.cpu_nanoseconds > 0, "{counted:?}");
    }
}
