//! `activeDeadlineSeconds`: pods that run for too long are terminated.
// upstream: pkg/kubelet/active_deadline.go activeDeadlineHandler

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kubecontroller::{Clock, events::EventType};

use super::{events::PodEventRecorder, status::TerminationCause, store::PodStore, time};

/// Reason and message of a pod that exceeded its deadline.
// upstream: pkg/kubelet/active_deadline.go ShouldEvict
const REASON: &str = "DeadlineExceeded";
const MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// Terminates pods that exceed their deadline.
pub(super) struct ActiveDeadlineHandler {
    store: Arc<PodStore>,
    events: PodEventRecorder,
    clock: Clock,
}

// --- ActiveDeadlineHandler ---

impl ActiveDeadlineHandler {
    pub(super) fn new(store: Arc<PodStore>, events: PodEventRecorder, clock: Clock) -> Self {
        ActiveDeadlineHandler { store, events, clock }
    }

    /// Requests the termination of a pod that exceeded its deadline.
    // upstream: pkg/kubelet/active_deadline.go pastActiveDeadline
    pub(super) fn check(&self, uid: &str) {
        let is_over = self
            .deadline(uid)
            .is_some_and(|deadline| self.clock.now() >= deadline);
        if !is_over {
            return;
        }
        let pod = self.store.update(uid, |entry| {
            entry.termination_cause.get_or_insert_with(|| TerminationCause {
                reason: REASON.to_owned(),
                message: MESSAGE.to_owned(),
                disruption: false,
            });
            Arc::clone(&entry.pod)
        });
        if let Some(pod) = pod {
            self.events
                .record_pod_event(&pod, EventType::Normal, REASON, MESSAGE);
        }
    }

    /// Time until the deadline, if the pod has one.
    pub(super) fn until(&self, uid: &str) -> Option<Duration> {
        Some(time::duration_until(self.clock.now(), self.deadline(uid)?))
    }

    fn deadline(&self, uid: &str) -> Option<Timestamp> {
        self.store.read(uid, |entry| {
            let seconds = entry.pod.spec.as_ref()?.active_deadline_seconds?;
            let status = entry.previous.as_ref().or(entry.pod.status.as_ref())?;
            let started = status.start_time.as_ref()?.0;
            Some(time::add_duration(
                started,
                Duration::from_secs(u64::try_from(seconds).ok()?),
            ))
        })?
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kubecontroller::{events::EventBroadcaster, testing::FakeApi};
    use serde_json::json;

    use super::{super::store::PodEntry, super::store::PodSource, *};
    use crate::runtime::fake;

    #[tokio::test(start_paused = true)]
    async fn terminates_a_pod_when_its_deadline_has_passed() {
        let clock = fake::clock();
        let store = Arc::new(PodStore::default());
        let started = clock.now().to_string();
        for (uid, deadline) in [("limited", json!(60)), ("unlimited", json!(null))] {
            let pod = json!({
                "metadata": {"name": uid, "uid": uid},
                "spec": {"containers": [], "activeDeadlineSeconds": deadline},
                "status": {"startTime": started},
            });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let entry = PodEntry::new(Arc::new(pod), PodSource::Api);
            store.lock().insert(uid.to_owned(), entry);
        }
        let events = EventBroadcaster::new(FakeApi::new().client());
        let events = PodEventRecorder::new(events.recorder("kubelet"));
        let handler = ActiveDeadlineHandler::new(Arc::clone(&store), events, clock);
        let is_terminated = |uid: &str| store.read(uid, PodEntry::is_termination_requested) == Some(true);
        handler.check("limited");
        assert!(!is_terminated("limited"));
        assert_eq!(handler.until("limited"), Some(Duration::from_mins(1)));
        assert_eq!(handler.until("unlimited"), None);
        tokio::time::advance(Duration::from_mins(1)).await;
        handler.check("limited");
        handler.check("unlimited");
        assert!(is_terminated("limited") && !is_terminated("unlimited"));
    }
}
