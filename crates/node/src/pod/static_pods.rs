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
    time::Duration,
};

use k3_api::{kinds::builtin, strategy};
use k8s_openapi::api::core::v1::{Pod, Toleration};
use kubecontroller::Clock;
use serde_json::Value;

use super::{
    mirror_client::{CONFIG_HASH, MirrorClient, MirrorPods, is_mirror_pod_of},
    queue::PodQueue,
    store::{PodEntry, PodSource, PodStore},
};
use crate::runtime::AdoptedPods;

const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
const CONFIG_SEEN: &str = "kubernetes.io/config.seen";

/// Reads the manifest directory.
pub(super) struct StaticPodSource {
    pub store: Arc<PodStore>,
    pub queue: PodQueue,
    pub mirror_pods: Arc<MirrorPods>,
    pub mirror_client: MirrorClient,
    pub adopted: AdoptedPods,
    pub clock: Clock,
    pub node_name: String,
    /// Directory of manifests, if configured.
    pub directory: Option<PathBuf>,
    /// Period of reading the directory.
    pub period: Duration,
}

/// The last valid content of each manifest file.
pub(super) type ManifestFiles = HashMap<PathBuf, Arc<Pod>>;

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
    /// Reads the directory periodically, and reconciles mirror pods.
    pub(super) async fn run(&self, mut files: ManifestFiles) {
        if self.directory.is_none() {
            return std::future::pending().await;
        }
        loop {
            self.reconcile_mirror_pods().await;
            tokio::time::sleep(self.period).await;
            self.read(&mut files);
        }
    }

    /// Reads the directory once.
    // upstream: pkg/kubelet/config/file.go extractFromDir
    pub(super) fn read(&self, files: &mut ManifestFiles) {
        let Some(directory) = &self.directory else {
            return;
        };
        let names = match list_manifests(directory) {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "failed to read the static pod directory");
                return;
            }
        };
        files.retain(|path, _| names.contains(path));
        for path in names {
            let read = std::fs::read_to_string(&path).map_err(StaticPodFileError::from);
            match read.and_then(|text| parse_manifest(&text, &path, &self.node_name)) {
                Ok(pod) => {
                    files.insert(path, Arc::new(pod));
                }
                Err(error) => tracing::warn!(file = %path.display(), %error, "invalid static pod manifest"),
            }
        }
        self.update_store(files);
    }

    /// Adds new pods to the store, and marks the pods of removed files as removed.
    fn update_store(&self, files: &ManifestFiles) {
        let desired: BTreeMap<_, _> = files
            .values()
            .filter_map(|pod| Some((pod.metadata.uid.clone()?, Arc::clone(pod))))
            .collect();
        let mut changed = Vec::new();
        let mut entries = self.store.lock();
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
            let now = self.clock.now().to_string();
            let annotations = Arc::make_mut(&mut pod)
                .metadata
                .annotations
                .get_or_insert_default();
            annotations.insert(CONFIG_SEEN.to_owned(), now);
            self.adopted.add(&uid);
            let entry = PodEntry::new(pod, PodSource::File(None));
            entries.insert(uid.clone(), entry);
            changed.push(uid);
        }
        drop(entries);
        for uid in changed {
            self.queue.enqueue(&uid);
        }
    }

    /// Creates missing mirror pods, and deletes outdated ones.
    // upstream: pkg/kubelet/kubelet.go tryReconcileMirrorPods
    async fn reconcile_mirror_pods(&self) {
        let pods: Vec<_> = {
            let entries = self.store.lock();
            let files = entries.values().filter_map(|entry| match &entry.source {
                PodSource::File(mirror) => Some((Arc::clone(&entry.pod), mirror.clone(), entry.is_removed)),
                _ => None,
            });
            files.collect()
        };
        for (pod, mirror, is_removed) in pods {
            let is_current = mirror
                .as_ref()
                .is_some_and(|mirror| is_mirror_pod_of(mirror, &pod));
            let done = match (is_removed, mirror) {
                (true, None) => Ok(()),
                (false, Some(_)) if is_current => Ok(()),
                (_, Some(mirror)) => self.mirror_client.delete_mirror_pod(&mirror).await,
                (false, None) => self.mirror_client.create_mirror_pod(&pod).await,
            };
            if let Err(error) = done {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                tracing::warn!(pod = name, %error, "failed to reconcile a mirror pod");
            }
        }
        self.delete_orphaned_mirror_pods().await;
    }

    /// Deletes mirror pods of removed manifests.
    async fn delete_orphaned_mirror_pods(&self) {
        for mirror in self.mirror_pods.list() {
            let has_static_pod = self.store.lock().values().any(|entry| {
                matches!(entry.source, PodSource::File(_))
                    && !entry.is_removed
                    && entry.pod.metadata.name == mirror.metadata.name
                    && entry.pod.metadata.namespace == mirror.metadata.namespace
            });
            if !has_static_pod && let Err(error) = self.mirror_client.delete_mirror_pod(&mirror).await {
                tracing::warn!(%error, "failed to delete an orphaned mirror pod");
            }
        }
    }
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
    use super::{super::mirror_client::annotation, *};

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
