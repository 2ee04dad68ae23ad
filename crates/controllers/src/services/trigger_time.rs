//! When that happened which changes the endpoints of a service: how long it takes until proxies know is measured from there.
//!
//! Pods tell when they became ready or not, services when they were made. Of all that is new since a service was looked at
//! last, the earliest counts. Nothing is known of what happened before this process began.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::jiff::Timestamp;
use kubecontroller::Key;

use super::TRIGGER_TIME;
use crate::{
    objects::{Condition, Pod, Service},
    patch_values::truncate_to_second,
};

/// What was known of services when they were looked at last.
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

// --- Triggers ---

impl TriggerTimeTracker {
    /// A service is looked at. Says when that happened which is new.
    pub(crate) fn compute_trigger_time(
        &self,
        key: &Key,
        service: &Service,
        pods: &[Arc<Pod>],
    ) -> Option<Timestamp> {
        let made = service.metadata.creation_timestamp;
        let now = TriggerTimes {
            service: made,
            pods: pods.iter().filter_map(|pod| trigger(pod)).collect(),
        };
        let mut seen = self.seen();
        let Some(before) = seen.get(key) else {
            seen.insert(key.clone(), now);
            return made;
        };
        let new = now.pods.iter().filter_map(|(name, time)| {
            let is_new = before.pods.get(name).is_none_or(|old| time > old);
            is_new.then_some(*time)
        });
        let earliest = new.chain(made.filter(|made| Some(*made) > before.service)).min();
        seen.insert(key.clone(), now);
        earliest
    }

    /// A service is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.seen().remove(key);
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<Key, TriggerTimes>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says in annotations when that happened which is told; not at all if nobody knows.
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
    fn the_earliest_of_what_is_new_counts() {
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
        let (triggers, key) = (TriggerTimeTracker::default(), Key::new("shop", "web"));
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
