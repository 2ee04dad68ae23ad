//! Changes of pods from the API: adds them to the store and triggers syncs.
// upstream: pkg/kubelet/config/config.go PodConfig

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kubecontroller::informer::Delta;

use super::{
    mirror_client::{MirrorPods, is_mirror_pod},
    queue::PodQueue,
    store::{PodEntry, PodSource, PodStore},
};
use crate::runtime::AdoptedPods;

/// Receives the pods of this node.
pub(super) struct PodConfig {
    store: Arc<PodStore>,
    queue: PodQueue,
    mirror_pods: Arc<MirrorPods>,
    adopted: AdoptedPods,
}

// --- PodConfig ---

impl PodConfig {
    pub(super) fn new(
        store: Arc<PodStore>,
        queue: PodQueue,
        mirror_pods: Arc<MirrorPods>,
        adopted: AdoptedPods,
    ) -> Self {
        PodConfig {
            store,
            queue,
            mirror_pods,
            adopted,
        }
    }

    /// Handles an informer event.
    pub(super) fn handle_pod_event(&self, delta: &Delta<Pod>) {
        let pod = delta.object();
        let Some(uid) = pod.metadata.uid.clone() else {
            return;
        };
        if is_mirror_pod(pod) {
            self.handle_mirror_pod_event(delta);
            return;
        }
        let is_removed = matches!(delta, Delta::Deleted { .. });
        let mut entries = self.store.lock();
        if is_removed && !entries.contains_key(&uid) {
            return;
        }
        self.adopted.add(&uid);
        let entry = entries
            .entry(uid.clone())
            .or_insert_with(|| PodEntry::new(Arc::clone(pod), PodSource::Api));
        entry.source = PodSource::Api;
        entry.pod = Arc::clone(pod);
        entry.is_removed = is_removed;
        entry.notify_termination();
        drop(entries);
        self.queue.enqueue(&uid);
    }

    /// Handles an informer event of a mirror pod.
    fn handle_mirror_pod_event(&self, delta: &Delta<Pod>) {
        let mirror = delta.object();
        let is_removed = matches!(delta, Delta::Deleted { .. });
        let mut changed = None;
        let mut entries = self.store.lock();
        for (uid, entry) in entries.iter_mut() {
            let is_mirror_of_entry = entry.pod.metadata.name == mirror.metadata.name
                && entry.pod.metadata.namespace == mirror.metadata.namespace;
            if let PodSource::File(mirror_pod) = &mut entry.source
                && is_mirror_of_entry
            {
                *mirror_pod = (!is_removed).then(|| Arc::clone(mirror));
                changed = Some(uid.clone());
            }
        }
        drop(entries);
        if is_removed {
            self.mirror_pods.remove(mirror);
        } else {
            self.mirror_pods.insert(mirror);
        }
        if let Some(uid) = changed {
            self.queue.enqueue(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, annotations: &Value) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": "web", "namespace": "default", "uid": uid, "annotations": annotations}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[tokio::test]
    async fn a_mirror_pod_belongs_to_its_static_pod() {
        let store = Arc::new(PodStore::default());
        let queue = PodQueue::new(Arc::clone(&store));
        let mirror_pods = Arc::new(MirrorPods::default());
        let config = PodConfig::new(
            Arc::clone(&store),
            queue.clone(),
            Arc::clone(&mirror_pods),
            AdoptedPods::default(),
        );
        let static_pod = PodEntry::new(pod("static", &json!({})), PodSource::File(None));
        store.lock().insert("static".to_owned(), static_pod);
        let mirror = pod("mirror", &json!({"kubernetes.io/config.mirror": "static"}));
        config.handle_pod_event(&Delta::Added {
            new: mirror,
            initial: true,
        });
        assert!(!store.lock().contains_key("mirror"));
        let api_pod = store.api_pod("static").unwrap();
        assert_eq!(api_pod.metadata.uid.as_deref(), Some("mirror"));
        assert_eq!(mirror_pods.list().len(), 1);
        assert_eq!(queue.next().await.unwrap().key(), "static");
    }
}
