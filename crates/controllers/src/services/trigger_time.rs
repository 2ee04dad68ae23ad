//! The trigger time of endpoint changes (annotation `endpoints.kubernetes.io/last-change-trigger-time`), for measuring
//! programming latency.
//!
//! A pod's time is the last change of its Ready condition, a Service's its creation. Of all times that are new since the last sync, the
//! earliest counts. Times from before this process started are unknown.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use k3_workloads::{Condition, Pod};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::Key;
use parking_lot::{Mutex, MutexGuard};

use super::TRIGGER_TIME;
use crate::{objects::Service, patch_values::truncate_to_second};

/// Times of Services and pods at the last sync.
// upstream: staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go TriggerTimeTracker
#[derive(Debug, Default)]
pub(crate) struct TriggerTimeTracker {
    seen: Mutex<HashMap<Key, TriggerTimes>>,
}

#[derive(Debug)]
struct TriggerTimes {
    service: Option<Timestamp>,
    /// By the names of pods.
    pods: HashMap<Box<str>, Timestamp>,
}

// --- TriggerTimeTracker ---

impl TriggerTimeTracker {
    /// The trigger time of a sync.
    // upstream: staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go ComputeEndpointLastChangeTriggerTime
    pub(crate) fn compute_trigger_time(
        &self,
        key: &Key,
        service: &Service,
        pods: &[Arc<Pod>],
    ) -> Option<Timestamp> {
        let written = service.metadata.creation_timestamp;
        let now = TriggerTimes {
            service: written,
            pods: pods.iter().filter_map(|pod| trigger(pod)).collect(),
        };
        let mut seen = self.seen();
        let Some(before) = seen.get(key) else {
            seen.insert(key.clone(), now);
            return written;
        };
        let new = now.pods.iter().filter_map(|(name, time)| {
            let is_new = before.pods.get(name).is_none_or(|old| time > old);
            is_new.then_some(*time)
        });
        let earliest = new
            .chain(written.filter(|written| Some(*written) > before.service))
            .min();
        seen.insert(key.clone(), now);
        earliest
    }

    /// Removes a deleted Service.
    pub(crate) fn forget(&self, key: &Key) {
        self.seen().remove(key);
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<Key, TriggerTimes>> {
        self.seen.lock()
    }
}

/// Sets the trigger time annotation, or removes it if the time is unknown.
// upstream: staging/src/k8s.io/endpointslice/utils.go addTriggerTimeAnnotation
pub(crate) fn mark(notes: &mut BTreeMap<Box<str>, Box<str>>, time: Option<Timestamp>) {
    match time {
        Some(time) => notes.insert(TRIGGER_TIME.into(), truncate_to_second(time).to_string().into()),
        None => notes.remove(TRIGGER_TIME),
    };
}

fn trigger(pod: &Pod) -> Option<(Box<str>, Timestamp)> {
    let ready = Condition::find(&pod.status.conditions, "Ready")?;
    Some((pod.metadata.name.clone(), ready.last_transition_time?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn uses_the_earliest_new_trigger_time() {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
        let service = |second| {
            let metadata = json!({"creationTimestamp": at(second)});
            serde_json::from_value::<Service>(json!({"metadata": metadata})).unwrap()
        };
        let pod = |name: &str, second| {
            let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": at(second)});
            let pod = json!({"metadata": {"name": name}, "status": {"conditions": [ready]}});
            Arc::new(serde_json::from_value::<Pod>(pod).unwrap())
        };
        let triggers = TriggerTimeTracker::default();
        let key = Key::new("shop", "web");
        let compute_trigger_time = |service: &Service, pods: &[Arc<Pod>]| {
            triggers
                .compute_trigger_time(&key, service, pods)
                .map(|time| time.to_string())
        };
        assert_eq!(compute_trigger_time(&service(5), &[pod("a", 7)]), Some(at(5)));
        assert_eq!(compute_trigger_time(&service(5), &[pod("a", 7)]), None);
        assert_eq!(
            compute_trigger_time(&service(5), &[pod("a", 9), pod("b", 8), pod("c", 10)]),
            Some(at(8))
        );
        assert_eq!(compute_trigger_time(&service(5), &[pod("a", 9)]), None);
        triggers.forget(&key);
        assert_eq!(compute_trigger_time(&service(20), &[]), Some(at(20)));
    }
}
