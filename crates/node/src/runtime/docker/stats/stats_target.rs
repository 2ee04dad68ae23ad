//! Measures one container. Blocks on file I/O.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    super::container_labels::{ContainerKind, ContainerLabels},
    cgroups,
};
use crate::runtime::ContainerStats;

/// A running container to measure.
pub(super) struct StatsTarget {
    pub(super) labels: ContainerLabels,
    pub(super) id: String,
    pub(super) pid: i32,
    /// Directory of the writable layer, if it is due for measurement.
    pub(super) directory_to_measure: Option<PathBuf>,
    pub(super) writable_layer_size: u64,
}

/// Returns the ID, whether the writable layer was measured, and the stats; `None` if the container has exited.
pub(super) fn read_stats(running: StatsTarget) -> Option<(String, bool, ContainerStats)> {
    let cgroup_stats = cgroups::read(running.pid)?;
    let is_sandbox = running.labels.kind == ContainerKind::Sandbox;
    let writable_layer_size = running.directory_to_measure.as_deref().map(size_of);
    let usage = ContainerStats {
        pod: running.labels.pod,
        name: if is_sandbox {
            String::new()
        } else {
            running.labels.name
        },
        cpu_nanoseconds: cgroup_stats.cpu_nanoseconds,
        memory: cgroup_stats.memory,
        memory_working_set: cgroup_stats.memory_working_set,
        writable_layer: writable_layer_size.unwrap_or(running.writable_layer_size),
        pids: cgroup_stats.pids,
        network: is_sandbox.then(|| traffic(running.pid)).flatten(),
    };
    Some((running.id, writable_layer_size.is_some(), usage))
}

/// Returns bytes received and sent in the network namespace of a process, without loopback.
fn traffic(pid: i32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
    Some(sum_traffic(&text))
}

fn sum_traffic(text: &str) -> (u64, u64) {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(name, _)| name.trim() != "lo")
        .fold((0, 0), |(received, sent), (_, read_stats)| {
            let read_stats: Vec<u64> = read_stats
                .split_whitespace()
                .filter_map(|figure| figure.parse().ok())
                .collect();
            let figure = |at: usize| read_stats.get(at).copied().unwrap_or(0);
            (received + figure(0), sent + figure(8))
        })
}

/// Returns the disk usage of the files in a directory. Symbolic links are not followed.
fn size_of(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut size = 0;
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            size += metadata.blocks() * 512;
            if metadata.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_bytes_exclude_loopback() {
        let text = "Inter-|   Receive                |  Transmit\n face |bytes    packets |bytes\n\
                    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n\
                    eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n\
                    eth1:1 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0\n";
        assert_eq!(sum_traffic(text), (1_001, 2_002));
    }

    #[test]
    fn directory_size_is_recursive() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("deep")).unwrap();
        fs::write(directory.path().join("deep/file"), vec![1; 100_000]).unwrap();
        let size = size_of(directory.path());
        assert!((100_000..200_000).contains(&size), "{size}");
    }
}
