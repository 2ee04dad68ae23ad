//! Manifest files of static pods. Blocks on file I/O.
// upstream: pkg/kubelet/config/file.go extractFromDir

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use k3_api::{kinds::builtin, strategy};
use k8s_openapi::api::core::v1::{Pod, Toleration};
use serde_json::Value;

use super::mirror_client::CONFIG_HASH;

/// Annotation with the source of a pod.
// upstream: pkg/kubelet/types/pod_update.go GetPodSource
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

/// The last valid content of each manifest file.
#[derive(Default)]
pub(super) struct ManifestFiles {
    pods: HashMap<PathBuf, Arc<Pod>>,
}

/// Why a file is not a valid static pod.
#[derive(Debug, thiserror::Error)]
enum StaticPodFileError {
    #[error("failed to read the file: {0}")]
    Read(#[from] io::Error),
    #[error("{0}")]
    Parse(String),
    #[error("not a pod: {0}")]
    NotAPod(String),
}

// --- ManifestFiles ---

impl ManifestFiles {
    /// Reads a directory. The content of a file that became invalid stays.
    pub(super) fn read(&mut self, directory: &Path, node: &str) {
        let names = match list_manifests(directory) {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "failed to read the static pod directory");
                return;
            }
        };
        self.pods.retain(|path, _| names.contains(path));
        for path in names {
            let read = fs::read_to_string(&path).map_err(StaticPodFileError::from);
            match read.and_then(|text| parse_manifest(&text, &path, node)) {
                Ok(pod) => {
                    self.pods.insert(path, Arc::new(pod));
                }
                Err(error) => tracing::warn!(file = %path.display(), %error, "invalid static pod manifest"),
            }
        }
    }

    /// The pods of the manifests.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }
}

/// The manifest files in order; hidden files are ignored.
fn list_manifests(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
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
