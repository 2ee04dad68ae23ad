//! Resource usage of containers, read from cgroups: the engine's stats call takes a second per container.

mod cgroups;
mod stats_target;

use std::{collections::HashMap, path::PathBuf, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use self::stats_target::{StatsTarget, read_stats};
use super::{
    DockerRuntime,
    container_labels::{ContainerKind, ContainerLabels},
    responses::ContainerInspect,
};
use crate::{
    blocking::run_blocking,
    runtime::{ContainerStats, RuntimeError},
};

/// Lifetime of a measured writable layer size: measuring walks all its files.
const SIZE_TTL: Duration = Duration::from_mins(1);

/// Writable layer sizes by container ID, with the time of measurement.
#[derive(Debug, Default)]
pub(super) struct WritableLayerSizes(Mutex<HashMap<String, (Instant, u64)>>);

impl DockerRuntime {
    /// Measures all owned running containers.
    pub(super) async fn measure_containers(&self) -> Result<Vec<ContainerStats>, RuntimeError> {
        let mut all = self.inspect_all(ContainerKind::Sandbox).await?;
        all.extend(self.inspect_all(ContainerKind::Container).await?);
        let now = Instant::now();
        let running: Vec<_> = all
            .iter()
            .filter_map(|inspected| self.running(inspected, now))
            .collect();
        let read_all = move || running.into_iter().filter_map(read_stats).collect::<Vec<_>>();
        let measured = run_blocking(read_all).await;
        let mut usages = Vec::new();
        let mut sizes = self.sizes.0.lock();
        sizes.retain(|id, _| measured.iter().any(|(cached, ..)| cached == id));
        for (id, was_measured, usage) in measured {
            if was_measured {
                sizes.insert(id, (now, usage.writable_layer));
            }
            usages.push(usage);
        }
        Ok(usages)
    }

    fn running(&self, inspected: &ContainerInspect, now: Instant) -> Option<StatsTarget> {
        if !inspected.state.running || inspected.state.pid <= 0 {
            return None;
        }
        let labels = ContainerLabels::read(&inspected.config.labels)?;
        let sizes = self.sizes.0.lock();
        let cached = sizes.get(&inspected.id).copied();
        let is_recent = cached.is_some_and(|(at, _)| now.duration_since(at) < SIZE_TTL);
        Some(StatsTarget {
            id: inspected.id.clone(),
            pid: inspected.state.pid,
            directory_to_measure: (!is_recent && labels.kind == ContainerKind::Container)
                .then(|| inspected.graph_driver.data.get("UpperDir").map(PathBuf::from))
                .flatten(),
            writable_layer_size: cached.map_or(0, |(_, size)| size),
            labels,
        })
    }
}
