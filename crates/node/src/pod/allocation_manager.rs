//! The resources of the node: which pods it admits, and which resources their containers get (in-place resize, KEP-1287).
// upstream: pkg/kubelet/allocation/allocation_manager.go manager

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use kubecontroller::events::EventType;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{
    admission::{self, Rejection},
    allocation_state::{PodResourceInfo, ResizeRejection},
    events::PodEventRecorder,
    status::{self, PodSnapshot},
    store::{AdmissionState, PodStore, had_containers},
};
use crate::{NodeFacts, blocking::run_blocking, volumes::PodDirectories};

/// Admits pods, and allocates resources to them.
pub(super) struct AllocationManager {
    store: Arc<PodStore>,
    events: PodEventRecorder,
    facts: watch::Receiver<Arc<NodeFacts>>,
    directories: PodDirectories,
    /// Whether new pods are rejected because the node shuts down.
    is_shutting_down: watch::Receiver<bool>,
    /// Serializes decisions: two pods that fit alone may not fit together. Held from reading the other pods until the decision is in
    /// the store.
    lock: Mutex<()>,
}

/// Whether a pod may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodAdmission {
    Admitted,
    /// Rejected by this call, for this reason.
    Rejected(Rejection),
    /// Rejected before, or removed.
    Inactive,
}

// --- AllocationManager ---

impl AllocationManager {
    pub(super) fn new(
        store: Arc<PodStore>,
        events: PodEventRecorder,
        facts: watch::Receiver<Arc<NodeFacts>>,
        directories: PodDirectories,
        is_shutting_down: watch::Receiver<bool>,
    ) -> Self {
        AllocationManager {
            store,
            events,
            facts,
            directories,
            is_shutting_down,
            lock: Mutex::default(),
        }
    }

    /// Decides whether the node admits a pod. A pod that already has containers here was admitted before a restart.
    // upstream: pkg/kubelet/allocation/allocation_manager.go canAdmitPod, AddPod
    pub(super) fn add_pod(&self, uid: &str, snapshot: &PodSnapshot) -> PodAdmission {
        let Some((pod, admission)) = self
            .store
            .read(uid, |entry| (Arc::clone(&entry.pod), entry.admission.clone()))
        else {
            return PodAdmission::Inactive;
        };
        match admission {
            AdmissionState::Admitted => return PodAdmission::Admitted,
            AdmissionState::Rejected => return PodAdmission::Inactive,
            AdmissionState::Pending => {}
        }
        let _guard = self.lock.lock();
        let has_containers =
            !snapshot.sandboxes.is_empty() || !snapshot.containers.is_empty() || had_containers(&pod);
        let rejection = if has_containers || pod.status.as_ref().is_some_and(status::is_terminal) {
            None
        } else {
            let facts = self.facts.borrow().clone();
            let is_shutting_down = *self.is_shutting_down.borrow();
            if is_shutting_down {
                Some(admission::shutdown_rejection())
            } else {
                admission::rejection(&pod, &self.active_pods(uid), &facts)
            }
        };
        let state = match &rejection {
            Some(_) => AdmissionState::Rejected,
            None => AdmissionState::Admitted,
        };
        self.store.update(uid, |entry| entry.admission = state);
        let Some((reason, message)) = rejection else {
            return PodAdmission::Admitted;
        };
        self.events
            .record_pod_event(&pod, EventType::Warning, &reason, message.clone());
        PodAdmission::Rejected((reason, message))
    }

    /// Allocates the resources of the spec if the node has them. Otherwise keeps the previous allocation and records the reason.
    // upstream: pkg/kubelet/allocation/allocation_manager.go handlePodResourcesResize
    pub(super) async fn handle_pod_resources_resize(&self, uid: &str) {
        let Some((pod, mut resource_info)) = self.read_resource_info(uid).await else {
            return;
        };
        if resource_info.allocated.is_empty() {
            resource_info.allocate(&pod);
            self.store
                .update(uid, |entry| entry.resource_info = Some(resource_info.clone()));
            self.persist(uid, resource_info).await;
            return;
        }
        if !resource_info.differs_from(&pod) {
            self.store.update(uid, |entry| entry.resize_rejection = None);
            self.report_resize_completion(uid, &pod, &resource_info);
            return;
        }
        match self.allocate(uid, &pod, resource_info) {
            Ok(resource_info) => {
                self.persist(uid, resource_info).await;
                self.events.record_pod_event(
                    &pod,
                    EventType::Normal,
                    "ResizeStarted",
                    resize_event_message("Pod resize started", &pod, None),
                );
            }
            Err(rejection) => self.report_resize_rejection(uid, &pod, rejection),
        }
    }

    /// Allocates the resources of the spec, if the node has them.
    fn allocate(
        &self,
        uid: &str,
        pod: &Pod,
        mut resource_info: PodResourceInfo,
    ) -> Result<PodResourceInfo, ResizeRejection> {
        let _guard = self.lock.lock();
        let facts = self.facts.borrow().clone();
        if let Some(message) = admission::infeasible_request(pod, &facts) {
            return Err(ResizeRejection::Infeasible(message));
        }
        if let Some((_, message)) = admission::insufficient_resource(pod, &self.active_pods(uid), &facts) {
            return Err(ResizeRejection::Deferred(message));
        }
        resource_info.allocate(pod);
        self.store.update(uid, |entry| {
            entry.resource_info = Some(resource_info.clone());
            entry.resize_rejection = None;
            entry.resize_error.clear();
            entry.is_resizing = true;
        });
        Ok(resource_info)
    }

    /// Keeps the reason of a rejection, and records one event for it.
    fn report_resize_rejection(&self, uid: &str, pod: &Pod, rejection: ResizeRejection) {
        let is_new = self.store.update(uid, |entry| {
            let new = Some((rejection.clone(), pod.metadata.generation));
            let is_new = entry.resize_rejection != new;
            entry.resize_rejection = new;
            is_new
        });
        if is_new != Some(true) {
            return;
        }
        let (reason, condition_reason, message) = match rejection {
            ResizeRejection::Infeasible(message) => ("ResizeInfeasible", "Infeasible", message),
            ResizeRejection::Deferred(message) => ("ResizeDeferred", "Deferred", message),
        };
        let message = resize_event_message(&format!("Pod resize {condition_reason}"), pod, Some(&message));
        self.events
            .record_pod_event(pod, EventType::Warning, reason, message);
    }

    /// Records one event when all containers were updated to their allocation.
    fn report_resize_completion(&self, uid: &str, pod: &Pod, resource_info: &PodResourceInfo) {
        let is_done = self.store.update(uid, |entry| {
            let is_done = entry.is_resizing && !resource_info.is_in_progress();
            entry.is_resizing &= !is_done;
            is_done
        });
        if is_done == Some(true) {
            self.events.record_pod_event(
                pod,
                EventType::Normal,
                "ResizeCompleted",
                resize_event_message("Pod resize completed", pod, None),
            );
        }
    }

    /// A pod and its persisted resources, which are read from its directory once.
    async fn read_resource_info(&self, uid: &str) -> Option<(Arc<Pod>, PodResourceInfo)> {
        let (pod, known) = self
            .store
            .read(uid, |entry| (Arc::clone(&entry.pod), entry.resource_info.clone()))?;
        if let Some(known) = known {
            return Some((pod, known));
        }
        let directory = self.directories.pod(uid);
        let persisted = run_blocking(move || PodResourceInfo::read(&directory)).await;
        let persisted = persisted.unwrap_or_else(|error| {
            tracing::warn!(pod = uid, %error, "failed to read persisted resources of a pod: it is treated as new on this node");
            PodResourceInfo::default()
        });
        let resource_info = self
            .store
            .update(uid, |entry| entry.resource_info.get_or_insert(persisted).clone())?;
        Some((pod, resource_info))
    }

    /// Records the resources that a container was started or updated with.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go setActuatedContainerResources
    pub(super) async fn set_actuated_resources(&self, uid: &str, container: &Container) {
        let resources = container.resources.clone().unwrap_or_default();
        let updated = self.store.update(uid, |entry| {
            let resource_info = entry.resource_info.get_or_insert_default();
            resource_info.actuated.insert(container.name.clone(), resources);
            resource_info.clone()
        });
        if let Some(resource_info) = updated {
            self.persist(uid, resource_info).await;
        }
    }

    async fn persist(&self, uid: &str, resource_info: PodResourceInfo) {
        let directory = self.directories.pod(uid);
        if let Err(error) = run_blocking(move || resource_info.write(&directory)).await {
            tracing::warn!(pod = uid, %error, "failed to persist resources of a pod");
        }
    }

    /// The other pods that use resources of this node, with their allocated resources.
    // upstream: pkg/kubelet/allocation/allocation_manager.go getAllocatedPods
    fn active_pods(&self, except: &str) -> Vec<Pod> {
        let entries = self.store.lock();
        let others = entries
            .iter()
            .filter(|(uid, entry)| *uid != except && entry.is_active());
        others
            .map(|(_, entry)| entry.with_allocated_resources())
            .collect()
    }
}

/// Message of a resize event: the resources as JSON.
fn resize_event_message(prefix: &str, pod: &Pod, error: Option<&str>) -> String {
    let no_spec = k8s_openapi::api::core::v1::PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let list = |containers: &[k8s_openapi::api::core::v1::Container]| {
        let resources = |container: &k8s_openapi::api::core::v1::Container| json!({"name": container.name, "resources": container.resources.clone().unwrap_or_default()});
        Value::Array(containers.iter().map(resources).collect())
    };
    let mut summary = Map::new();
    if let Some(init) = spec.init_containers.as_ref().filter(|init| !init.is_empty()) {
        summary.insert("initContainers".to_owned(), list(init));
    }
    summary.insert("containers".to_owned(), list(&spec.containers));
    summary.insert(
        "generation".to_owned(),
        pod.metadata.generation.unwrap_or(0).into(),
    );
    if let Some(error) = error {
        summary.insert("error".to_owned(), error.into());
    }
    format!("{prefix}: {}", Value::Object(summary))
}

#[cfg(test)]
mod tests {
    use kubecontroller::{events::EventBroadcaster, testing::FakeApi};

    use super::{super::store::PodEntry, super::store::PodSource, *};

    struct Fixture {
        store: Arc<PodStore>,
        directory: tempfile::TempDir,
        is_shutting_down: watch::Sender<bool>,
        facts: watch::Sender<Arc<NodeFacts>>,
    }

    impl Fixture {
        fn new() -> Self {
            let facts = NodeFacts {
                allocatable: [("cpu".to_owned(), "1".parse().unwrap())].into(),
                ..NodeFacts::default()
            };
            Fixture {
                store: Arc::default(),
                directory: tempfile::tempdir().unwrap(),
                is_shutting_down: watch::Sender::new(false),
                facts: watch::Sender::new(Arc::new(facts)),
            }
        }

        /// The allocation manager of an agent process.
        fn manager(&self) -> AllocationManager {
            let events = EventBroadcaster::new(FakeApi::new().client());
            AllocationManager::new(
                Arc::clone(&self.store),
                PodEventRecorder::new(events.recorder("kubelet")),
                self.facts.subscribe(),
                PodDirectories::new(self.directory.path().to_owned()),
                self.is_shutting_down.subscribe(),
            )
        }

        fn put(&self, uid: &str, cpu: &str) {
            let container = json!({"name": "main", "resources": {"requests": {"cpu": cpu}}});
            let pod = json!({"metadata": {"name": uid, "uid": uid}, "spec": {"containers": [container]}});
            let pod = Arc::new(serde_json::from_value(pod).unwrap());
            self.store
                .lock()
                .insert(uid.to_owned(), PodEntry::new(pod, PodSource::Api));
        }

        fn allocated_cpu(&self, uid: &str) -> Option<String> {
            let resource_info = self.store.read(uid, |entry| entry.resource_info.clone())??;
            let requests = resource_info.allocated.get("main")?.requests.clone()?;
            Some(requests.get("cpu")?.0.clone())
        }
    }

    #[tokio::test]
    async fn of_two_pods_that_fit_alone_one_is_rejected() {
        let fixture = Fixture::new();
        let manager = fixture.manager();
        fixture.put("a", "600m");
        fixture.put("b", "600m");
        let snapshot = PodSnapshot::default();
        let admissions = std::thread::scope(|scope| {
            let add = |uid: &'static str| {
                let manager = &manager;
                let snapshot = &snapshot;
                scope.spawn(move || (uid, manager.add_pod(uid, snapshot)))
            };
            ["a", "b"].map(add).map(|thread| thread.join().unwrap())
        });
        let admitted = |(_, admission): &&(&str, PodAdmission)| *admission == PodAdmission::Admitted;
        assert_eq!(admissions.iter().filter(admitted).count(), 1, "{admissions:?}");
        let rejected = admissions.iter().find(
            |(_, admission)| matches!(admission, PodAdmission::Rejected((reason, _)) if reason == "OutOfcpu"),
        );
        let (rejected, _) = rejected.unwrap();
        assert_eq!(manager.add_pod(rejected, &snapshot), PodAdmission::Inactive);
        assert_eq!(manager.add_pod("unknown", &snapshot), PodAdmission::Inactive);
    }

    #[tokio::test]
    async fn rejects_new_pods_during_shutdown() {
        let fixture = Fixture::new();
        let manager = fixture.manager();
        fixture.put("a", "1m");
        fixture.is_shutting_down.send_replace(true);
        let admission = manager.add_pod("a", &PodSnapshot::default());
        assert!(
            matches!(&admission, PodAdmission::Rejected((reason, _)) if reason == "NodeShutdown"),
            "{admission:?}"
        );
    }

    #[tokio::test]
    async fn allocation_survives_a_restart_of_the_agent() {
        let fixture = Fixture::new();
        fixture.put("a", "500m");
        fixture.manager().handle_pod_resources_resize("a").await;
        assert_eq!(fixture.allocated_cpu("a").as_deref(), Some("500m"));
        // The spec asks for more than the node has: the resize is infeasible, and the persisted allocation holds.
        fixture.put("a", "2");
        fixture.manager().handle_pod_resources_resize("a").await;
        assert_eq!(fixture.allocated_cpu("a").as_deref(), Some("500m"));
        let rejection = fixture.store.read("a", |entry| entry.resize_rejection.clone());
        assert!(
            matches!(rejection, Some(Some((ResizeRejection::Infeasible(_), _)))),
            "{rejection:?}"
        );
    }
}
