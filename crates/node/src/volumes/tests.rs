//! Tests of the volume manager with real disks and mounts. They need `CAP_SYS_ADMIN`.

mod sub_paths;
mod tear_down;
mod volume_types;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};
use kubecontroller::Clock;
use serde_json::{Value, json};

use super::{VolumeManager, VolumeManagerError, mount_table};
use crate::{
    NodeFacts, PodIdentity,
    runtime::{Mount, MountSource},
    sources::fake::FakeObjectSources,
};

/// The volume manager of a node, and the objects that its pods refer to.
struct VolumeFixture {
    temp: tempfile::TempDir,
    sources: Arc<FakeObjectSources>,
    volumes: VolumeManager,
}

impl VolumeFixture {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let sources = Arc::new(FakeObjectSources::default());
        let volumes = VolumeManager::new(
            temp.path().join("node"),
            Arc::<FakeObjectSources>::clone(&sources),
            Clock::system(),
        );
        VolumeFixture {
            temp,
            sources,
            volumes,
        }
    }

    /// The volume manager after a restart of the agent.
    fn restart(&self) -> VolumeManager {
        VolumeManager::new(
            self.node_directory(),
            Arc::<FakeObjectSources>::clone(&self.sources),
            Clock::system(),
        )
    }

    fn node_directory(&self) -> PathBuf {
        self.temp.path().join("node")
    }

    fn pod_directory(&self) -> PathBuf {
        self.node_directory().join("pods/u1")
    }

    fn volume_path(&self, plugin: &str, name: &str) -> PathBuf {
        self.pod_directory()
            .join(format!("volumes/kubernetes.io~{plugin}/{name}"))
    }

    async fn mount_volumes(&self, pod: &Pod) -> Result<(), VolumeManagerError> {
        self.volumes.mount_pod_volumes(pod, &facts()).await
    }

    async fn make_mounts(&self, pod: &Pod) -> Result<Vec<Mount>, VolumeManagerError> {
        let environment = [("POD".to_owned(), "web".to_owned())];
        self.volumes
            .make_mounts(pod, only_container(pod), &environment)
            .await
    }

    /// Host path of the only mount of the container.
    async fn mounted_path(&self, pod: &Pod) -> Result<PathBuf, VolumeManagerError> {
        let mounts = self.make_mounts(pod).await?;
        match &mounts[0].source {
            MountSource::Host(path) => Ok(path.clone()),
            MountSource::Image { .. } => panic!("an image volume has no host path"),
        }
    }

    fn mount_count(&self) -> usize {
        mount_table::mounts_below(self.temp.path()).unwrap().len()
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

impl Drop for VolumeFixture {
    /// Unmounts everything, also after a failed test.
    fn drop(&mut self) {
        for mount in mount_table::mounts_below(self.temp.path())
            .unwrap_or_default()
            .iter()
            .rev()
        {
            let _ = mount_table::lazy_unmount(&mount.path);
        }
    }
}

fn facts() -> NodeFacts {
    NodeFacts {
        node_name: "n".to_owned(),
        allocatable: [("memory".to_owned(), "64Mi".parse().unwrap())].into(),
        node_labels: [("kubernetes.io/hostname".to_owned(), "n".to_owned())].into(),
        ..NodeFacts::default()
    }
}

fn identity() -> PodIdentity {
    PodIdentity {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u1".into(),
    }
}

/// A pod with these volumes and one container with these mounts.
fn pod(volumes: Value, mounts: Value) -> Pod {
    pod_with(&json!({}), volumes, mounts)
}

/// Adds further fields to the spec.
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

fn only_container(pod: &Pod) -> &Container {
    &pod.spec.as_ref().unwrap().containers[0]
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn event_messages(result: Result<(), VolumeManagerError>) -> Vec<String> {
    result.unwrap_err().event_messages()
}
