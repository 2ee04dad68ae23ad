//! Volumes of whole pods, on a real disk, with real mounts.

mod attacks;
mod end;
mod kinds;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};
use kubecontroller::Clock;
use serde_json::{Value, json};

use super::{VolumeError, Volumes, mount_table};
use crate::{
    Facts, PodIdentity,
    runtime::{Mount, MountSource},
    sources::memory::MemorySources,
};

/// A node's folder, and what its pods refer to.
struct World {
    folder: tempfile::TempDir,
    sources: Arc<MemorySources>,
    volumes: Volumes,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = Arc::new(MemorySources::default());
        let volumes = Volumes::new(
            folder.path().join("node"),
            Arc::<MemorySources>::clone(&sources),
            Clock::system(),
        );
        World {
            folder,
            sources,
            volumes,
        }
    }

    /// The agent, after a restart.
    fn restarted(&self) -> Volumes {
        Volumes::new(
            self.node(),
            Arc::<MemorySources>::clone(&self.sources),
            Clock::system(),
        )
    }

    fn node(&self) -> PathBuf {
        self.folder.path().join("node")
    }

    fn pod_folder(&self) -> PathBuf {
        self.node().join("pods/u1")
    }

    /// Where a volume is.
    fn volume(&self, plugin: &str, name: &str) -> PathBuf {
        self.pod_folder()
            .join(format!("volumes/kubernetes.io~{plugin}/{name}"))
    }

    async fn prepare(&self, pod: &Pod) -> Result<(), VolumeError> {
        self.volumes.prepare(pod, &facts(), &[]).await
    }

    async fn mounts(&self, pod: &Pod) -> Result<Vec<Mount>, VolumeError> {
        let environment = [("POD".to_owned(), "web".to_owned())];
        self.volumes.mounts(pod, container(pod), &environment).await
    }

    /// Where the only mount of a container is from.
    async fn mounted(&self, pod: &Pod) -> Result<PathBuf, VolumeError> {
        let mounts = self.mounts(pod).await?;
        match &mounts[0].source {
            MountSource::Host(path) => Ok(path.clone()),
            MountSource::Image { .. } => panic!("an image"),
        }
    }

    fn mount_count(&self) -> usize {
        mount_table::at_or_below(self.folder.path()).unwrap().len()
    }

    fn put_config_map(&self, name: &str, data: &Value) {
        let map = json!({"metadata": {"namespace": "shop", "name": name}, "data": data});
        self.sources
            .put_config_map(serde_json::from_value::<ConfigMap>(map).unwrap());
    }

    fn put_secret(&self, name: &str, data: &Value) {
        let secret = json!({"metadata": {"namespace": "shop", "name": name}, "data": data});
        self.sources
            .put_secret(serde_json::from_value::<Secret>(secret).unwrap());
    }
}

impl Drop for World {
    /// A test that failed leaves no mounts.
    fn drop(&mut self) {
        for mounted in mount_table::at_or_below(self.folder.path())
            .unwrap_or_default()
            .iter()
            .rev()
        {
            let _ = mount_table::detach(&mounted.path);
        }
    }
}

fn facts() -> Facts {
    Facts {
        node_name: "n".to_owned(),
        allocatable: [("memory".to_owned(), "64Mi".parse().unwrap())].into(),
        node_labels: [("kubernetes.io/hostname".to_owned(), "n".to_owned())].into(),
        ..Facts::default()
    }
}

fn identity() -> PodIdentity {
    PodIdentity {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u1".into(),
    }
}

/// A pod with volumes, and what its only container mounts.
fn pod(volumes: Value, mounts: Value) -> Pod {
    pod_with(&json!({}), volumes, mounts)
}

fn pod_with(more: &Value, volumes: Value, mounts: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "u1", "labels": {"app": "web"}},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c"}]}
    });
    pod["spec"]["volumes"] = volumes;
    pod["spec"]["containers"][0]["volumeMounts"] = mounts;
    for (key, value) in more.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn container(pod: &Pod) -> &Container {
    &pod.spec.as_ref().unwrap().containers[0]
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// What a pod waits for, as events tell it.
fn events(result: Result<(), VolumeError>) -> Vec<String> {
    result.unwrap_err().events()
}
