//! Whether a pod gets the resources it asks for now.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kubecontroller::events::EventType;
use serde_json::{Map, Value, json};

use super::{
    admission,
    resize::{Kept, Refusal},
    worker::Shared,
};

// --- Shared ---

impl Shared {
    /// Grants what a pod asks for, if this node has it; if not, keeps why. What was granted before stays until then.
    pub(super) async fn resize(&self, uid: &str) {
        let folder = self.parts.settings.folder(uid);
        let found = self.known.change(uid, |entry| {
            let kept = entry.kept.get_or_insert_with(|| Kept::read(&folder));
            (Arc::clone(&entry.pod), kept.clone())
        });
        let Some((pod, mut kept)) = found else {
            return;
        };
        if kept.allocated.is_empty() {
            kept.grant(&pod);
            self.keep(uid, kept);
            return;
        }
        if !kept.differs(&pod) {
            self.known.change(uid, |entry| entry.refusal = None);
            self.tell_when_done(uid, &pod, &kept);
            return;
        }
        let _fitting = self.fitting.lock().await;
        let facts = self.parts.facts.borrow().clone();
        let others = self.active_pods(uid);
        let refusal = match admission::never_fits(&pod, &facts) {
            Some(message) => Some(Refusal::Infeasible(message)),
            None => {
                admission::does_not_fit(&pod, &others, &facts).map(|(_, message)| Refusal::Deferred(message))
            }
        };
        let generation = pod.metadata.generation;
        let Some(refusal) = refusal else {
            kept.grant(&pod);
            self.keep(uid, kept);
            self.known.change(uid, |entry| {
                entry.refusal = None;
                entry.resize_error.clear();
                entry.is_resizing = true;
            });
            self.teller.pod(
                &pod,
                EventType::Normal,
                "ResizeStarted",
                said("Pod resize started", &pod, None),
            );
            return;
        };
        let is_news = self.known.change(uid, |entry| {
            let news = Some((refusal.clone(), generation));
            let is_news = entry.refusal != news;
            entry.refusal = news;
            is_news
        });
        if is_news == Some(true) {
            let (reason, word, message) = match refusal {
                Refusal::Infeasible(message) => ("ResizeInfeasible", "Infeasible", message),
                Refusal::Deferred(message) => ("ResizeDeferred", "Deferred", message),
            };
            let message = said(&format!("Pod resize {word}"), &pod, Some(&message));
            self.teller.pod(&pod, EventType::Warning, reason, message);
        }
    }

    /// Tells once that containers were given what was granted.
    fn tell_when_done(&self, uid: &str, pod: &Pod, kept: &Kept) {
        let is_done = self.known.change(uid, |entry| {
            let is_done = entry.is_resizing && !kept.is_in_progress();
            entry.is_resizing &= !is_done;
            is_done
        });
        if is_done == Some(true) {
            self.teller.pod(
                pod,
                EventType::Normal,
                "ResizeCompleted",
                said("Pod resize completed", pod, None),
            );
        }
    }

    fn keep(&self, uid: &str, kept: Kept) {
        let folder = self.parts.settings.folder(uid);
        if let Err(error) = kept.write(&folder) {
            tracing::warn!(pod = uid, %error, "cannot keep what a pod was granted");
        }
        self.known.change(uid, |entry| entry.kept = Some(kept));
    }
}

/// What users are told of a change of resources: what it is about, as JSON.
fn said(prefix: &str, pod: &Pod, error: Option<&str>) -> String {
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
