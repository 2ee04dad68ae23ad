//! What containers use, read where the kernel counts it: asking the engine takes it a second for each.

mod cgroups;

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::Instant};

use super::{
    Engine,
    answer::Inspected,
    names::{Kind, Marks},
};
use crate::runtime::{ContainerUsage, RuntimeError};

/// How long the size of what a container wrote is believed: all its files have to be looked at for it.
const SIZE_LASTS: Duration = Duration::from_mins(1);

/// Sizes by container, and when they were measured.
#[derive(Debug, Default)]
pub(super) struct Sizes(Mutex<HashMap<String, (Instant, u64)>>);

/// A container that runs, and where its figures are.
struct Running {
    marks: Marks,
    id: String,
    pid: i32,
    /// The folder of what it wrote, if it must be measured again.
    to_measure: Option<PathBuf>,
    written: u64,
}

impl Engine {
    /// What our containers use now.
    pub(super) async fn measure(&self) -> Result<Vec<ContainerUsage>, RuntimeError> {
        let mut all = self.look(Kind::Sandbox).await?;
        all.extend(self.look(Kind::Container).await?);
        let now = Instant::now();
        let running: Vec<_> = all.iter().filter_map(|seen| self.running(seen, now)).collect();
        let measured = spawn_blocking(move || running.into_iter().filter_map(figures).collect::<Vec<_>>())
            .await
            .map_err(|error| {
                RuntimeError::Refused(format!("cannot read the figures of containers: {error}"))
            })?;
        let mut usages = Vec::new();
        let mut sizes = self.sizes.0.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.retain(|id, _| measured.iter().any(|(known, ..)| known == id));
        for (id, was_measured, usage) in measured {
            if was_measured {
                sizes.insert(id, (now, usage.writable_layer));
            }
            usages.push(usage);
        }
        Ok(usages)
    }

    fn running(&self, seen: &Inspected, now: Instant) -> Option<Running> {
        if !seen.state.running || seen.state.pid <= 0 {
            return None;
        }
        let marks = Marks::read(&seen.config.labels)?;
        let sizes = self.sizes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sizes.get(&seen.id).copied();
        let is_fresh = known.is_some_and(|(at, _)| now.duration_since(at) < SIZE_LASTS);
        Some(Running {
            id: seen.id.clone(),
            pid: seen.state.pid,
            to_measure: (!is_fresh && marks.kind == Kind::Container)
                .then(|| seen.graph_driver.data.get("UpperDir").map(PathBuf::from))
                .flatten(),
            written: known.map_or(0, |(_, size)| size),
            marks,
        })
    }
}

/// The id, whether what it wrote was measured, and the figures; `None` if it has ended meanwhile.
fn figures(running: Running) -> Option<(String, bool, ContainerUsage)> {
    let counted = cgroups::read(running.pid)?;
    let is_sandbox = running.marks.kind == Kind::Sandbox;
    let written = running.to_measure.as_deref().map(size_of);
    let usage = ContainerUsage {
        pod: running.marks.pod,
        name: if is_sandbox {
            String::new()
        } else {
            running.marks.name
        },
        cpu_nanoseconds: counted.cpu_nanoseconds,
        memory: counted.memory,
        memory_working_set: counted.memory_working_set,
        writable_layer: written.unwrap_or(running.written),
        pids: counted.pids,
        network: is_sandbox.then(|| traffic(running.pid)).flatten(),
    };
    Some((running.id, written.is_some(), usage))
}

/// Bytes received and sent by the network of a process, without its loopback.
fn traffic(pid: i32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
    Some(sum_traffic(&text))
}

fn sum_traffic(text: &str) -> (u64, u64) {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(name, _)| name.trim() != "lo")
        .fold((0, 0), |(received, sent), (_, figures)| {
            let figures: Vec<u64> = figures
                .split_whitespace()
                .filter_map(|figure| figure.parse().ok())
                .collect();
            let figure = |at: usize| figures.get(at).copied().unwrap_or(0);
            (received + figure(0), sent + figure(8))
        })
}

/// What the files in a folder take on disk. Links are not followed.
fn size_of(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut size = 0;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            size += metadata.blocks() * 512;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_that_of_all_but_the_loopback() {
        let text = "Inter-|   Receive                |  Transmit\n face |bytes    packets |bytes\n\
                    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n\
                    eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n\
                    eth1:1 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0\n";
        assert_eq!(sum_traffic(text), (1_001, 2_002));
    }

    #[test]
    fn the_size_of_a_folder_is_that_of_all_below_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        fs::write(folder.path().join("deep/file"), vec![1; 100_000]).unwrap();
        let size = size_of(folder.path());
        assert!((100_000..200_000).contains(&size), "{size}");
    }
}
