//! A pod that waits.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use kubecontroller::Backoff;

use super::{BackoffOptions, Moment, pod_heap::Key};
use crate::{
    object::Pod,
    plugins::{PluginId, PluginSet},
};

/// Where a pod waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueLocation {
    /// It is to be tried.
    ActiveQ,
    /// It is to be tried after a while.
    BackoffQ,
    /// The same, after a failure that was not its own.
    ErrorBackoffQ,
    /// Something has to happen first.
    UnschedulablePods,
    /// It is being tried.
    InFlight,
}

/// A pod that waits.
#[derive(Debug)]
// upstream: pkg/scheduler/framework/types.go QueuedPodInfo
pub(super) struct QueuedPodInfo {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Where it waits.
    pub location: QueueLocation,
    /// How often it was tried.
    pub attempts: u32,
    /// How often no node did.
    pub unschedulable_count: u32,
    /// Errors in a row.
    pub consecutive_errors_count: u32,
    /// When it was added to the queue.
    pub queued_at: Moment,
    /// Since when it waits.
    pub since: Moment,
    /// Who rejected it.
    pub unschedulable_plugins: PluginSet,
    /// Who keeps it from being tried at all.
    pub gating_plugin: Option<PluginId>,
    arrival: u64,
}

/// Backing off ends at full seconds, so that pods that end together are sorted by importance.
const WINDOW: Duration = Duration::from_secs(1);

impl QueuedPodInfo {
    /// A pod that is added to the queue.
    pub(super) fn new(pod: Arc<Pod>, now: Moment, arrival: u64) -> Self {
        QueuedPodInfo {
            pod,
            location: QueueLocation::InFlight,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors_count: 0,
            queued_at: now,
            since: now,
            unschedulable_plugins: PluginSet::default(),
            gating_plugin: None,
            arrival,
        }
    }

    /// The more important first, then the one that waits longer.
    pub(super) fn active_q_key(&self) -> Key {
        (
            Duration::ZERO,
            Reverse(self.pod.priority()),
            self.since,
            self.arrival,
        )
    }

    /// Orders by backoff expiration, then as in the active queue.
    pub(super) fn backoff_key(&self, backoff: &BackoffOptions) -> Key {
        (
            self.until(backoff),
            Reverse(self.pod.priority()),
            self.since,
            self.arrival,
        )
    }

    /// Whether it still backs off.
    pub(super) fn backs_off(&self, backoff: &BackoffOptions, now: Moment) -> bool {
        let preemption_attempted = self.consecutive_errors_count > 0 || self.unschedulable_count > 0;
        preemption_attempted && self.until(backoff) >= window(now)
    }

    // upstream: pkg/scheduler/backend/queue/backoff_queue.go getBackoffTime, calculateBackoffDuration
    fn until(&self, backoff: &BackoffOptions) -> Moment {
        let count = if self.consecutive_errors_count > 0 {
            self.consecutive_errors_count
        } else {
            self.unschedulable_count
        };
        if count == 0 {
            return Duration::ZERO;
        }
        let delays = Backoff::exponential(backoff.initial_backoff, backoff.max_backoff);
        window(self.since + delays.after(count))
    }
}

// upstream: pkg/scheduler/backend/queue/backoff_queue.go alignToWindow
fn window(moment: Moment) -> Moment {
    Duration::from_secs(moment.as_secs() / WINDOW.as_secs() * WINDOW.as_secs())
}
