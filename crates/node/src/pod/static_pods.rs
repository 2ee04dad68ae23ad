//! Static pods: read from manifest files, represented in the API by mirror pods.
//!
//! Promises:
//! - Static pods run without an API server. A changed file is a new pod; a removed file removes its pod. An unreadable file is
//!   logged, and its pod keeps running.
//! - Each static pod has a mirror pod, created again when deleted and replaced when the manifest changed.
// upstream: pkg/kubelet/config/file.go sourceFile

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use kubecontroller::Clock;

use super::{
    manifests::ManifestFiles,
    mirror_client::{MirrorClient, MirrorPods, is_mirror_pod_of},
    queue::PodQueue,
    store::{PodEntry, PodSource, PodStore},
};
use crate::{blocking::run_blocking, runtime::AdoptedPods};

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
            files = self.read(files).await;
        }
    }

    /// Reads the directory once.
    pub(super) async fn read(&self, mut files: ManifestFiles) -> ManifestFiles {
        let Some(directory) = self.directory.clone() else {
            return files;
        };
        let node = self.node_name.clone();
        let files = run_blocking(move || {
            files.read(&directory, &node);
            files
        })
        .await;
        self.update_store(&files);
        files
    }

    /// Adds new pods to the store, and marks the pods of removed files as removed.
    fn update_store(&self, files: &ManifestFiles) {
        let desired: BTreeMap<_, _> = files
            .pods()
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
