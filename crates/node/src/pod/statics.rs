//! Static pods: from files of a folder of this machine, shown in the API by mirrors.
//!
//! Promises:
//! - What is in a file runs whether there is an API or not. A file that changes is another pod, and one that goes takes its pod
//!   with it; one that cannot be read is said so, and changes nothing of what was in it before.
//! - Each has a mirror in the API, made again when somebody deletes it, and replaced when it shows another content.

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
    known::{Entry, Origin},
    worker::Shared,
};

const HASH: &str = "kubernetes.io/config.hash";
const SOURCE: &str = "kubernetes.io/config.source";
const MIRROR: &str = "kubernetes.io/config.mirror";
const SEEN: &str = "kubernetes.io/config.seen";

/// The folder of static pods.
pub(super) struct Folder {
    shared: Arc<Shared>,
    /// What each file had when it could last be read.
    files: HashMap<PathBuf, Arc<Pod>>,
}

/// Why a file is no pod.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It cannot be read.
    #[error("cannot read it: {0}")]
    Read(#[from] io::Error),
    /// It is neither YAML nor JSON.
    #[error("{0}")]
    Text(String),
    /// It is something else.
    #[error("it is not a pod: {0}")]
    NoPod(String),
}

// --- Folder ---

impl Folder {
    /// Of the settings.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Folder {
            shared,
            files: HashMap::new(),
        }
    }

    /// Reads the folder from time to time, and keeps mirrors.
    pub(super) async fn run(&mut self) {
        let every = self.shared.parts.settings.manifests_every;
        if self.shared.parts.settings.manifests.is_none() {
            return std::future::pending().await;
        }
        loop {
            self.keep_mirrors().await;
            tokio::time::sleep(every).await;
            self.read();
        }
    }

    /// Reads the folder once.
    pub(super) fn read(&mut self) {
        let Some(folder) = self.shared.parts.settings.manifests.clone() else {
            return;
        };
        let names = match list(&folder) {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "cannot read the folder of static pods");
                return;
            }
        };
        let node = self.shared.parts.facts.borrow().node_name.clone();
        self.files.retain(|path, _| names.contains(path));
        for path in names {
            let read = std::fs::read_to_string(&path).map_err(FileError::from);
            match read.and_then(|text| parse(&text, &path, &node)) {
                Ok(pod) => {
                    self.files.insert(path, Arc::new(pod));
                }
                Err(error) => tracing::warn!(file = %path.display(), %error, "cannot use a static pod"),
            }
        }
        self.compare();
    }

    /// Begins what is new, and ends what is gone.
    fn compare(&self) {
        let wanted: BTreeMap<_, _> = self
            .files
            .values()
            .filter_map(|pod| Some((pod.metadata.uid.clone()?, Arc::clone(pod))))
            .collect();
        let mut woken = Vec::new();
        let mut entries = self.shared.known.lock();
        for (uid, entry) in entries.iter_mut() {
            if matches!(entry.origin, Origin::File(_)) && !wanted.contains_key(uid) && !entry.is_gone {
                entry.is_gone = true;
                entry.tell_halt();
                woken.push(uid.clone());
            }
        }
        for (uid, mut pod) in wanted {
            let known = entries.get(&uid);
            if known.is_some_and(|known| matches!(known.origin, Origin::File(_)) && !known.is_gone) {
                continue;
            }
            let now = self.shared.parts.clock.now().to_string();
            let annotations = Arc::make_mut(&mut pod)
                .metadata
                .annotations
                .get_or_insert_default();
            annotations.insert(SEEN.to_owned(), now);
            self.shared.parts.adopted.add(&uid);
            let entry = Entry::new(pod, Origin::File(None));
            entries.insert(uid.clone(), entry);
            woken.push(uid);
        }
        drop(entries);
        for uid in woken {
            self.shared.queue.add(uid);
        }
    }

    /// Makes mirrors that are missing, and removes those that show something else or nothing.
    async fn keep_mirrors(&self) {
        let pods: Vec<_> = {
            let entries = self.shared.known.lock();
            let files = entries.values().filter_map(|entry| match &entry.origin {
                Origin::File(mirror) => Some((Arc::clone(&entry.pod), mirror.clone(), entry.is_gone)),
                _ => None,
            });
            files.collect()
        };
        for (pod, mirror, is_gone) in pods {
            let is_shown = mirror.as_ref().is_some_and(|mirror| shows(mirror, &pod));
            let done = match (is_gone, mirror) {
                (true, None) => Ok(()),
                (false, Some(_)) if is_shown => Ok(()),
                (_, Some(mirror)) => self.shared.delete_mirror(&mirror).await,
                (false, None) => self.shared.make_mirror(&pod).await,
            };
            if let Err(error) = done {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                tracing::warn!(pod = name, %error, "cannot keep the mirror of a static pod");
            }
        }
        self.shared.delete_old_mirrors().await;
    }
}

// --- Shared ---

impl Shared {
    /// The API has said something of a mirror.
    pub(super) fn heard_mirror(&self, mirror: &Arc<Pod>, is_gone: bool) {
        let mut woken = None;
        let mut entries = self.known.lock();
        for (uid, entry) in entries.iter_mut() {
            let is_its = entry.pod.metadata.name == mirror.metadata.name
                && entry.pod.metadata.namespace == mirror.metadata.namespace;
            if let Origin::File(known) = &mut entry.origin
                && is_its
            {
                *known = (!is_gone).then(|| Arc::clone(mirror));
                woken = Some(uid.clone());
            }
        }
        drop(entries);
        let key = (mirror.metadata.namespace.clone(), mirror.metadata.name.clone());
        let mut mirrors = self
            .mirrors
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if is_gone {
            mirrors.remove(&key);
        } else {
            mirrors.insert(key, Arc::clone(mirror));
        }
        drop(mirrors);
        if let Some(uid) = woken {
            self.queue.add(uid);
        }
    }

    /// Deletes mirrors of files that are gone.
    async fn delete_old_mirrors(&self) {
        let mirrors: Vec<_> = {
            let mirrors = self
                .mirrors
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            mirrors.values().cloned().collect()
        };
        for mirror in mirrors {
            let is_wanted = self.known.lock().values().any(|entry| {
                matches!(entry.origin, Origin::File(_))
                    && !entry.is_gone
                    && entry.pod.metadata.name == mirror.metadata.name
                    && entry.pod.metadata.namespace == mirror.metadata.namespace
            });
            if !is_wanted && let Err(error) = self.delete_mirror(&mirror).await {
                tracing::warn!(%error, "cannot delete the mirror of a static pod that is gone");
            }
        }
    }

    async fn delete_mirror(&self, mirror: &Pod) -> Result<(), kube::Error> {
        let namespace = mirror.metadata.namespace.as_deref().unwrap_or_default();
        let name = mirror.metadata.name.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.parts.client.clone(), namespace);
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

    async fn make_mirror(&self, pod: &Pod) -> Result<(), kube::Error> {
        let node_name = self.parts.facts.borrow().node_name.clone();
        let nodes: Api<Node> = Api::all(self.parts.client.clone());
        // Without its node it would be nobody's, and stay for ever.
        let Some(node) = nodes.get_opt(&node_name).await? else {
            return Ok(());
        };
        let mut mirror = pod.clone();
        mirror.metadata.uid = None;
        mirror.status = None;
        let annotations = mirror.metadata.annotations.get_or_insert_default();
        let hash = annotations.get(HASH).cloned().unwrap_or_default();
        annotations.insert(MIRROR.to_owned(), hash);
        mirror.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: node_name,
            uid: node.metadata.uid.unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]);
        let namespace = mirror.metadata.namespace.clone().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.parts.client.clone(), &namespace);
        match pods.create(&PostParams::default(), &mirror).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether a pod of the API only shows a static one.
pub(super) fn is_mirror(pod: &Pod) -> bool {
    annotation(pod, MIRROR).is_some()
}

/// Whether a mirror shows this content.
fn shows(mirror: &Pod, pod: &Pod) -> bool {
    mirror.metadata.deletion_timestamp.is_none() && annotation(mirror, MIRROR) == annotation(pod, HASH)
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a String> {
    pod.metadata.annotations.as_ref()?.get(name)
}

/// The files that count, in order: those whose names do not begin with a dot.
fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
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

/// The pod in a file, as it is run on a node.
fn parse(text: &str, path: &Path, node: &str) -> Result<Pod, FileError> {
    let mut value: Value =
        serde_saphyr::from_str(text).map_err(|error| FileError::Text(error.to_string()))?;
    if value["kind"] != "Pod" {
        return Err(FileError::NoPod(format!("its kind is {}", value["kind"])));
    }
    // What the API would have filled in.
    if let Some(kind) = builtin().kind("", "v1", "Pod") {
        strategy::for_kind(kind).set_defaults(&mut value);
    }
    let no_pod = |error: serde_json::Error| FileError::NoPod(error.to_string());
    let mut pod: Pod = kubecontroller::decode::from_value(&value).map_err(no_pod)?;
    if pod.metadata.name.as_ref().is_none_or(String::is_empty) || pod.spec.is_none() {
        return Err(FileError::NoPod("it has no name, or no spec".to_owned()));
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
    annotations.insert(HASH.to_owned(), uid);
    annotations.insert(SOURCE.to_owned(), "file".to_owned());
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

/// FNV-1a of 128 bits.
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
    fn a_file_becomes_a_pod_of_this_node() {
        let path = Path::new("/etc/web.yaml");
        let pod = parse(WEB, path, "Node1").unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("web-node1"));
        assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
        let uid = pod.metadata.uid.clone().unwrap();
        assert_eq!(uid.len(), 32);
        assert_eq!(annotation(&pod, HASH), Some(&uid));
        assert_eq!(annotation(&pod, SOURCE).map(String::as_str), Some("file"));
        let spec = pod.spec.unwrap();
        assert_eq!(spec.node_name.as_deref(), Some("Node1"));
        assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
        assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("Always"));
        let other = parse(&WEB.replace("busybox", "busybox:1"), path, "Node1").unwrap();
        assert_ne!(other.metadata.uid, Some(uid));
    }

    #[test]
    fn what_is_no_pod_says_so() {
        let path = Path::new("/etc/web.yaml");
        assert!(parse("{", path, "n").is_err());
        let node = parse("kind: Node\napiVersion: v1\n", path, "n").unwrap_err();
        assert_eq!(node.to_string(), "it is not a pod: its kind is \"Node\"");
        assert!(parse("kind: Pod\nmetadata: {}\nspec: {containers: []}\n", path, "n").is_err());
    }
}
