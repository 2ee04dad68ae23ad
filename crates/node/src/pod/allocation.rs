//! Decides whether a resized pod gets the resources of its current spec (in-place resize, KEP-1287).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kubecontroller::events::EventType;
use serde_json::{Map, Value, json};

use super::{
    admission,
    allocation_state::{PodResourceInfo, ResizeRejection},
    workers::PodWorkers,
};

// --- PodWorkers ---

impl PodWorkers {
    /// Allocates the resources of the spec if the node has them. Otherwise keeps the previous allocation and records the reason.
    // upstream: pkg/kubelet/allocation/allocation_manager.go handlePodResourcesResize
    pub(super) async fn handle_resize(&self, uid: &str) {
        let directory = self.deps.settings.directory(uid);
        let pod_and_info = self.store.update(uid, |entry| {
            let resource_info = entry
                .resource_info
                .get_or_insert_with(|| PodResourceInfo::read(&directory));
            (Arc::clone(&entry.pod), resource_info.clone())
        });
        let Some((pod, mut resource_info)) = pod_and_info else {
            return;
        };
        if resource_info.allocated.is_empty() {
            resource_info.allocate(&pod);
            self.store_allocation(uid, resource_info);
            return;
        }
        if !resource_info.differs_from(&pod) {
            self.store.update(uid, |entry| entry.resize_rejection = None);
            self.report_resize_completion(uid, &pod, &resource_info);
            return;
        }
        let _guard = self.admission_lock.lock().await;
        let facts = self.deps.facts.borrow().clone();
        let others = self.active_pods(uid);
        let rejection = match admission::infeasible_request(&pod, &facts) {
            Some(message) => Some(ResizeRejection::Infeasible(message)),
            None => admission::insufficient_resource(&pod, &others, &facts)
                .map(|(_, message)| ResizeRejection::Deferred(message)),
        };
        let generation = pod.metadata.generation;
        let Some(rejection) = rejection else {
            resource_info.allocate(&pod);
            self.store_allocation(uid, resource_info);
            self.store.update(uid, |entry| {
                entry.resize_rejection = None;
                entry.resize_error.clear();
                entry.is_resizing = true;
            });
            self.events.record_pod_event(
                &pod,
                EventType::Normal,
                "ResizeStarted",
                resize_event_message("Pod resize started", &pod, None),
            );
            return;
        };
        let is_new = self.store.update(uid, |entry| {
            let new = Some((rejection.clone(), generation));
            let is_new = entry.resize_rejection != new;
            entry.resize_rejection = new;
            is_new
        });
        if is_new == Some(true) {
            let (reason, condition_reason, message) = match rejection {
                ResizeRejection::Infeasible(message) => ("ResizeInfeasible", "Infeasible", message),
                ResizeRejection::Deferred(message) => ("ResizeDeferred", "Deferred", message),
            };
            let message =
                resize_event_message(&format!("Pod resize {condition_reason}"), &pod, Some(&message));
            self.events
                .record_pod_event(&pod, EventType::Warning, reason, message);
        }
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

    fn store_allocation(&self, uid: &str, resource_info: PodResourceInfo) {
        let directory = self.deps.settings.directory(uid);
        if let Err(error) = resource_info.write(&directory) {
            tracing::warn!(pod = uid, %error, "failed to persist allocated resources");
        }
        self.store
            .update(uid, |entry| entry.resource_info = Some(resource_info));
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
