//! Mounts the volumes of pods, and updates their content periodically.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kubecontroller::events::EventType;
use tokio::time::Instant;

use super::{events::PodEventRecorder, store::PodStore, workers::NextSync};
use crate::{
    NodeFacts,
    volumes::{VolumeManager, VolumeManagerError},
};

/// Mounts the volumes of pods, and updates their content.
pub(super) struct VolumeRefresher {
    store: Arc<PodStore>,
    volumes: Arc<VolumeManager>,
    events: PodEventRecorder,
    /// Period of updates, before it is spread over the pods.
    period: Duration,
}

/// When the volumes of a pod are mounted, or their content is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeRefresh {
    /// Before a sandbox or container is started, which needs them.
    BeforeStart,
    /// If they were not refreshed for a period.
    IfDue,
}

// --- VolumeRefresher ---

impl VolumeRefresher {
    pub(super) fn new(
        store: &Arc<PodStore>,
        volumes: &Arc<VolumeManager>,
        events: &PodEventRecorder,
        period: Duration,
    ) -> Self {
        VolumeRefresher {
            store: Arc::clone(store),
            volumes: Arc::clone(volumes),
            events: events.clone(),
            period,
        }
    }

    /// Mounts volumes, or updates their content. Records an event for each failure.
    pub(super) async fn refresh(
        &self,
        uid: &str,
        pod: &Pod,
        facts: &NodeFacts,
        refresh: VolumeRefresh,
    ) -> Result<(), VolumeManagerError> {
        let period = self.period_of(uid);
        let is_due = self.store.read(uid, |entry| {
            entry.volumes_refreshed.is_none_or(|at| at.elapsed() >= period)
        });
        if refresh == VolumeRefresh::IfDue && is_due != Some(true) {
            return Ok(());
        }
        if let Err(error) = self.volumes.mount_pod_volumes(pod, facts).await {
            // One event per volume, so that repeated failures of a volume are aggregated whatever the other volumes do.
            // upstream: pkg/volume/util/operationexecutor/operation_generator.go GenerateMountVolumeFunc
            for message in error.event_messages() {
                self.events
                    .record_pod_event(pod, EventType::Warning, "FailedMount", message);
            }
            return Err(error);
        }
        self.store
            .update(uid, |entry| entry.volumes_refreshed = Some(Instant::now()));
        Ok(())
    }

    /// The time until the volumes of a pod are due; `None` if they are not mounted.
    pub(super) fn until_refresh(&self, uid: &str) -> NextSync {
        let refreshed = self.store.read(uid, |entry| entry.volumes_refreshed)??;
        let due = refreshed + self.period_of(uid);
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// The period of this pod, spread over pods to avoid bursts.
    fn period_of(&self, uid: &str) -> Duration {
        let part = uid.bytes().fold(0_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(byte))
        }) % 50;
        self.period + self.period * part / 100
    }
}
