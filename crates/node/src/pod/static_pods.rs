//! Static pods: read from manifest files, represented in the API by mirror pods.
//!
//! Promises:
//! - Static pods run without an API server. A changed file is a new pod; a removed file removes its pod. An unreadable file is
//!   logged, and its pod keeps running.
//! - Each static pod has a mirror pod, created again when deleted and replaced when the manifest changed.
// upstream: pkg/kubelet/config/file.go sourceFile

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use k3_api::{kinds::builtin, strategy};
use k8s_openapi::api::core::v1::{Node, Pod, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};
use serde_json::Value;

use super::{
    store::{PodEntry, PodSource},
    workers::PodWorkers,
};

const CONFIG_HASH: &str = "kubernetes.io/config.hash";
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";
const CONFIG_SEEN: &str = "kubernetes.io/config.seen";

/// Reads the manifest directory.
pub(super) struct StaticPodSource {
    workers: Arc<PodWorkers>,
    /// The last valid content of each file.
    files: HashMap<PathBuf, Arc<Pod>>,
}

/// Why a file is not a valid static pod.
#[derive(Debug, thiserror::Error)]
pub(super) enum StaticPodFileError {
    #[error("failed to read the file: {0}")]
    Read(#[from] io::Error),
    #[error("{0}")]
    Parse(String),
    #[error("not a pod: {0}")]
    NotAPod(String),
}

// --- StaticPodSource ---

impl StaticPodSource {
    pub(super) fn new(workers: Arc<PodWorkers>) -> Self {
        StaticPodSource {
            workers,
            files: HashMap::new(),
        }
    }

    /// Reads the directory periodically, and reconciles mirror pods.
    pub(super) async fn run(&mut self) {
        let every = self.workers.deps.settings.manifests_every;
        if self.workers.deps.settings.manifests.is_none() {
            return std::future::pending().await;
        }
        loop {
            self.reconcile_mirror_pods().await;
            tokio::time::sleep(every).await;
            self.read();
        }
    }

    /// Reads the directory once.
    // upstream: pkg/kubelet/config/file.go extractFromDir
    pub(super) fn read(&mut self) {
        let Some(directory) = self.workers.deps.settings.manifests.clone() else {
            return;
        };
        let names = match list_manifests(&directory) {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "failed to read the static pod directory");
                return;
            }
        };
        let node = self.workers.deps.facts.borrow().node_name.clone();
        self.files.retain(|path, _| names.contains(path));
        for path in names {
            let read = std::fs::read_to_string(&path).map_err(StaticPodFileError::from);
            match read.and_then(|text| parse_manifest(&text, &path, &node)) {
                Ok(pod) => {
                    self.files.insert(path, Arc::new(pod));
                }
                Err(error) => tracing::warn!(file = %path.display(), %error, "invalid static pod manifest"),
            }
        }
        self.update_store();
    }

    /// Adds new pods to the store, and marks the pods of removed files as removed.
    fn update_store(&self) {
        let desired: BTreeMap<_, _> = self
            .files
            .values()
            .filter_map(|pod| Some((pod.metadata.uid.clone()?, Arc::clone(pod))))
            .collect();
        let mut changed = Vec::new();
        let mut entries = self.workers.store.lock();
        for (uid, entry) in entries.iter_mut() {
            if matches!(entry.source, PodSource::File(_)) && !desired.contains_key(uid) && !entry.is_removed {
                entry.is_removed = true;
                entry.notify_termination();
                changed.push(uid.clone());
            }
        }
        for (uid, mut pod) in desired {
            let existing = entries.get(&uid);
            if existing
                .is_some_and(|existing| matches!(existing.source, PodSource::File(_)) && !existing.is_removed)
            {
                continue;
            }
            let now = self.workers.deps.clock.now().to_string();
            let annotations = Arc::make_mut(&mut pod)
                .metadata
                .annotations
                .get_or_insert_default();
            annotations.insert(CONFIG_SEEN.to_owned(), now);
            self.workers.deps.adopted.add(&uid);
            let entry = PodEntry::new(pod, PodSource::File(None));
            entries.insert(uid.clone(), entry);
            changed.push(uid);
        }
        drop(entries);
        for uid in changed {
            self.workers.queue.add(uid);
        }
    }

    /// Creates missing mirror pods, and deletes outdated ones.
    // upstream: pkg/kubelet/kubelet.go tryReconcileMirrorPods
    async fn reconcile_mirror_pods(&self) {
        let pods: Vec<_> = {
            let entries = self.workers.store.lock();
            let files = entries.values().filter_map(|entry| match &entry.source {
                PodSource::File(mirror) => Some((Arc::clone(&entry.pod), mirror.clone(), entry.is_removed)),
                _ => None,
            });
            files.collect()
        };
        for (pod, mirror, is_removed) in pods {
            let is_current = mirror
                .as_ref()
                .is_some_and(|mirror| mirrors_content(mirror, &pod));
            let done = match (is_removed, mirror) {
                (true, None) => Ok(()),
                (false, Some(_)) if is_current => Ok(()),
                (_, Some(mirror)) => self.workers.delete_mirror_pod(&mirror).await,
                (false, None) => self.workers.create_mirror_pod(&pod).await,
            };
            if let Err(error) = done {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                tracing::warn!(pod = name, %error, "failed to reconcile a mirror pod");
            }
        }
        self.workers.delete_orphaned_mirror_pods().await;
    }
}

// --- PodWorkers ---

impl PodWorkers {
    /// Handles an informer event of a mirror pod.
    pub(super) fn handle_mirror_pod_event(&self, mirror: &Arc<Pod>, is_removed: bool) {
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
        let key = (mirror.metadata.namespace.clone(), mirror.metadata.name.clone());
        let mut mirrors = self
            .mirrors
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if is_removed {
            mirrors.remove(&key);
        } else {
            mirrors.insert(key, Arc::clone(mirror));
        }
        drop(mirrors);
        if let Some(uid) = changed {
            self.queue.add(uid);
        }
    }

    /// Deletes mirror pods of removed manifests.
    async fn delete_orphaned_mirror_pods(&self) {
        let mirrors: Vec<_> = {
            let mirrors = self
                .mirrors
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            mirrors.values().cloned().collect()
        };
        for mirror in mirrors {
            let has_static_pod = self.store.lock().values().any(|entry| {
                matches!(entry.source, PodSource::File(_))
                    && !entry.is_removed
                    && entry.pod.metadata.name == mirror.metadata.name
                    && entry.pod.metadata.namespace == mirror.metadata.namespace
            });
            if !has_static_pod && let Err(error) = self.delete_mirror_pod(&mirror).await {
                tracing::warn!(%error, "failed to delete an orphaned mirror pod");
            }
        }
    }

    async fn delete_mirror_pod(&self, mirror: &Pod) -> Result<(), kube::Error> {
        let namespace = mirror.metadata.namespace.as_deref().unwrap_or_default();
        let name = mirror.metadata.name.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.deps.client.clone(), namespace);
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

    async fn create_mirror_pod(&self, pod: &Pod) -> Result<(), kube::Error> {
        let node_name = self.deps.facts.borrow().node_name.clone();
        let nodes: Api<Node> = Api::all(self.deps.client.clone());
        // Without its owner reference to the node, the mirror pod would never be garbage collected.
        let Some(node) = nodes.get_opt(&node_name).await? else {
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
            name: node_name,
            uid: node.metadata.uid.unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]);
        let namespace = mirror.metadata.namespace.clone().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.deps.client.clone(), &namespace);
        match pods.create(&PostParams::default(), &mirror).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether a pod of the API is a mirror pod.
// upstream: pkg/kubelet/types/pod_update.go IsMirrorPod
pub(super) fn is_mirror_pod(pod: &Pod) -> bool {
    annotation(pod, CONFIG_MIRROR).is_some()
}

/// Whether a mirror pod has the content of the manifest.
fn mirrors_content(mirror: &Pod, pod: &Pod) -> bool {
    mirror.metadata.deletion_timestamp.is_none()
        && annotation(mirror, CONFIG_MIRROR) == annotation(pod, CONFIG_HASH)
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a String> {
    pod.metadata.annotations.as_ref()?.get(name)
}

/// The manifest files in order; hidden files are ignored.
fn list_manifests(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_hidden = path
            .file_name()
            .is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if !is_hidden && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Parses a manifest, and applies the defaults of static pods.
// upstream: pkg/kubelet/config/common.go applyDefaults, tryDecodeSinglePod
fn parse_manifest(text: &str, path: &Path, node: &str) -> Result<Pod, StaticPodFileError> {
    let mut value: Value =
        serde_saphyr::from_str(text).map_err(|error| StaticPodFileError::Parse(error.to_string()))?;
    if value["kind"] != "Pod" {
        return Err(StaticPodFileError::NotAPod(format!("kind is {}", value["kind"])));
    }
    // The defaults that the API server would set.
    if let Some(kind) = builtin().kind("", "v1", "Pod") {
        strategy::for_kind(kind).set_defaults(&mut value);
    }
    let no_pod = |error: serde_json::Error| StaticPodFileError::NotAPod(error.to_string());
    let mut pod: Pod = kubecontroller::decode::from_value(&value).map_err(no_pod)?;
    if pod.metadata.name.as_ref().is_none_or(String::is_empty) || pod.spec.is_none() {
        return Err(StaticPodFileError::NotAPod(
            "metadata.name and spec are required".to_owned(),
        ));
    }
    let uid = match pod.metadata.uid.clone().filter(|uid| !uid.is_empty()) {
        Some(uid) => uid,
        None => hash(&format!("{value}host:{node}file:{}", path.display())),
    };
    let name = pod.metadata.name.clone().unwrap_or_default();
    pod.metadata.name = Some(format!("{name}-{}", node.to_lowercase()));
    pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
    pod.metadata.uid = Some(uid.clone());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_HASH.to_owned(), uid);
    annotations.insert(CONFIG_SOURCE.to_owned(), "file".to_owned());
    if let Some(spec) = &mut pod.spec {
        spec.node_name = Some(node.to_owned());
        spec.tolerations.get_or_insert_default().push(Toleration {
            operator: Some("Exists".to_owned()),
            effect: Some("NoExecute".to_owned()),
            ..Toleration::default()
        });
    }
    pod.status = None;
    Ok(pod)
}

/// 128-bit FNV-1a.
fn hash(text: &str) -> String {
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b_u128;
    let fold = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(prime);
    format!("{:032x}", text.bytes().fold(start, fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: busybox}]}\n";

    #[test]
    fn manifest_becomes_a_pod_of_this_node() {
        let path = Path::new("/etc/web.yaml");
        let pod = parse_manifest(WEB, path, "Node1").unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("web-node1"));
        assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
        let uid = pod.metadata.uid.clone().unwrap();
        assert_eq!(uid.len(), 32);
        assert_eq!(annotation(&pod, CONFIG_HASH), Some(&uid));
        assert_eq!(annotation(&pod, CONFIG_SOURCE).map(String::as_str), Some("file"));
        let spec = pod.spec.unwrap();
        assert_eq!(spec.node_name.as_deref(), Some("Node1"));
        assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
        assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("Always"));
        let other = parse_manifest(&WEB.replace("busybox", "busybox:1"), path, "Node1").unwrap();
        assert_ne!(other.metadata.uid, Some(uid));
    }

    #[test]
    fn rejects_manifests_that_are_not_pods() {
        let path = Path::new("/etc/web.yaml");
        assert!(parse_manifest("{", path, "n").is_err());
        let node = parse_manifest("kind: Node\napiVersion: v1\n", path, "n").unwrap_err();
        assert_eq!(node.to_string(), "not a pod: kind is \"Node\"");
        assert!(parse_manifest("kind: Pod\nmetadata: {}\nspec: {containers: []}\n", path, "n").is_err());
    }
}
