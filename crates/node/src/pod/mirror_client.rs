//! Mirror pods: the API objects of static pods.
// upstream: pkg/kubelet/pod/mirror_client.go basicMirrorClient

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};
use parking_lot::{Mutex, MutexGuard};

/// Annotation with the hash of the manifest.
pub(super) const CONFIG_HASH: &str = "kubernetes.io/config.hash";
const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// Creates and deletes mirror pods.
pub(super) struct MirrorClient {
    client: kube::Client,
    node_name: String,
}

/// The mirror pods in the API.
#[derive(Default)]
pub(super) struct MirrorPods {
    pods: Mutex<PodsByName>,
}

/// By namespace and name.
type PodsByName = HashMap<(Option<String>, Option<String>), Arc<Pod>>;

// --- MirrorClient ---

impl MirrorClient {
    pub(super) fn new(client: kube::Client, node_name: String) -> Self {
        MirrorClient { client, node_name }
    }

    /// Creates the mirror pod of a static pod. Waits for the next call while the node is not registered.
    // upstream: pkg/kubelet/pod/mirror_client.go CreateMirrorPod
    pub(super) async fn create_mirror_pod(&self, pod: &Pod) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        // Without its owner reference to the node, the mirror pod would never be garbage collected.
        let node = nodes.get_opt(&self.node_name).await?;
        let Some(uid) = node.and_then(|node| node.metadata.uid) else {
            return Ok(());
        };
        let mut mirror = pod.clone();
        mirror.metadata.uid = None;
        mirror.status = None;
        let annotations = mirror.metadata.annotations.get_or_insert_default();
        let hash = annotations.get(CONFIG_HASH).cloned().unwrap_or_default();
        annotations.insert(CONFIG_MIRROR.to_owned(), hash);
        mirror.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node_name.clone(),
            uid,
            controller: Some(true),
            block_owner_deletion: None,
        }]);
        let namespace = mirror.metadata.namespace.clone().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        match pods.create(&PostParams::default(), &mirror).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes a mirror pod. One that was deleted or replaced meanwhile is no error.
    // upstream: pkg/kubelet/pod/mirror_client.go DeleteMirrorPod
    pub(super) async fn delete_mirror_pod(&self, mirror: &Pod) -> Result<(), kube::Error> {
        let namespace = mirror.metadata.namespace.as_deref().unwrap_or_default();
        let name = mirror.metadata.name.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let delete = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: mirror.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match pods.delete(name, &delete).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }
}

// --- MirrorPods ---

impl MirrorPods {
    /// Adds a mirror pod, or replaces it.
    pub(super) fn insert(&self, mirror: &Arc<Pod>) {
        self.lock().insert(key(mirror), Arc::clone(mirror));
    }

    pub(super) fn remove(&self, mirror: &Pod) {
        self.lock().remove(&key(mirror));
    }

    pub(super) fn list(&self) -> Vec<Arc<Pod>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, PodsByName> {
        self.pods.lock()
    }
}

fn key(mirror: &Pod) -> (Option<String>, Option<String>) {
    (mirror.metadata.namespace.clone(), mirror.metadata.name.clone())
}

/// Whether a pod of the API is a mirror pod.
// upstream: pkg/kubelet/types/pod_update.go IsMirrorPod
pub(super) fn is_mirror_pod(pod: &Pod) -> bool {
    annotation(pod, CONFIG_MIRROR).is_some()
}

/// Whether a mirror pod has the content of the manifest.
// upstream: pkg/kubelet/pod/pod_manager.go IsMirrorPodOf
pub(super) fn is_mirror_pod_of(mirror: &Pod, pod: &Pod) -> bool {
    mirror.metadata.deletion_timestamp.is_none()
        && annotation(mirror, CONFIG_MIRROR) == annotation(pod, CONFIG_HASH)
}

pub(super) fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a String> {
    pod.metadata.annotations.as_ref()?.get(name)
}

#[cfg(test)]
mod tests {
    use kubecontroller::testing::FakeApi;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn mirror_pod_is_owned_by_the_node_and_deleted_by_uid() {
        let api = FakeApi::new();
        let client = MirrorClient::new(api.client(), "n1".to_owned());
        let static_pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web-n1", "namespace": "default", "uid": "hash", "annotations": {CONFIG_HASH: "hash"}},
            "spec": {"containers": [{"name": "main"}]},
        }))
        .unwrap();
        client.create_mirror_pod(&static_pod).await.unwrap();
        assert!(api.list::<Pod>().is_empty(), "the node is not registered yet");
        let node = json!({"metadata": {"name": "n1", "uid": "node-uid"}});
        api.put(&serde_json::from_value::<Node>(node).unwrap());
        client.create_mirror_pod(&static_pod).await.unwrap();
        client.create_mirror_pod(&static_pod).await.unwrap();
        let mirror: Pod = api.get("default", "web-n1").unwrap();
        assert!(is_mirror_pod(&mirror) && is_mirror_pod_of(&mirror, &static_pod));
        assert_eq!(
            mirror.metadata.owner_references.as_ref().unwrap()[0].uid,
            "node-uid"
        );
        let mut replaced = mirror.clone();
        replaced.metadata.uid = Some("another".to_owned());
        client.delete_mirror_pod(&replaced).await.unwrap();
        assert_eq!(api.list::<Pod>().len(), 1, "a pod with another UID stays");
        client.delete_mirror_pod(&mirror).await.unwrap();
        client.delete_mirror_pod(&mirror).await.unwrap();
        assert!(api.list::<Pod>().is_empty());
    }
}
