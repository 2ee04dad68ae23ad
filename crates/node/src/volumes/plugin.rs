//! Volume plugins: what a volume type implements.
//!
//! Promises:
//! - A plugin reads API objects only in [`VolumePlugin::new_mounter`], and touches the disk only in [`Mounter::set_up`].
//! - A plugin mounts only at its own directory, [`VolumeContext::volume_path`]. Tearing down (`tear_down`) is therefore the same for all
//!   plugins: it works from what is on disk, also after a restart.
// upstream: pkg/volume/plugins.go VolumePlugin

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use async_trait::async_trait;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};

use super::{error::MountFailure, ownership::FsGroup, pod_directories::PodDirectories, spec::VolumeSpec};
use crate::{NodeFacts, sources::ObjectSources};

/// A volume type.
#[async_trait]
pub(super) trait VolumePlugin: Send + Sync {
    /// Upstream's name: `kubernetes.io/...`. Names the directory of the plugin's volumes.
    fn plugin_name(&self) -> &'static str;

    /// Whether this plugin sets up the volume.
    fn can_support(&self, spec: &VolumeSpec<'_>) -> bool;

    /// Whether the volume must be set up again periodically, because API objects that it contains may change.
    fn requires_remount(&self) -> bool {
        false
    }

    /// Prepares to set up a volume. Reads the API objects that the volume refers to. Called for supported volumes only.
    async fn new_mounter(
        &self,
        spec: &VolumeSpec<'_>,
        context: &VolumeContext<'_>,
    ) -> Result<Box<dyn Mounter>, MounterError>;
}

/// Why a plugin cannot prepare or set up a volume: each plugin has its own error types. The message is the reason of the event.
pub(super) type MounterError = Box<dyn std::error::Error + Send + Sync>;

/// Sets up one volume on disk.
// upstream: pkg/volume/volume.go Mounter
pub(super) trait Mounter: Send {
    /// Sets up or updates the volume. Idempotent. Blocks on file I/O.
    fn set_up(&self, args: &MounterArgs<'_>) -> Result<MountedVolume, MounterError>;
}

/// File I/O at a path failed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub(super) struct PathError {
    path: PathBuf,
    source: io::Error,
}

/// What volumes of one pod are set up with.
// upstream: pkg/volume/volume.go MounterArgs
pub(super) struct MounterArgs<'a> {
    /// Names timestamped directories of atomic writes.
    pub(super) now: Timestamp,
    pub(super) fs_group: Option<FsGroup>,
    /// Whether the warning that secrets are on disk was logged.
    pub(super) warned_secrets_on_disk: &'a AtomicBool,
}

/// What the volumes of one pod are computed from.
pub(super) struct VolumeContext<'a> {
    pub(super) pod: &'a Pod,
    pub(super) uid: &'a str,
    pub(super) namespace: &'a str,
    pub(super) directories: &'a PodDirectories,
    pub(super) sources: &'a dyn ObjectSources,
    pub(super) facts: &'a NodeFacts,
}

/// A volume that containers can mount.
// upstream: pkg/kubelet/container/runtime.go VolumeInfo
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountedVolume {
    pub(super) location: VolumeLocation,
    /// Mounted read-only, even if the container does not ask for it.
    pub(super) read_only: bool,
    /// Whether the path is a host directory that is created when a container mounts it.
    pub(super) create_when_mounted: bool,
    /// Whether the volume is deleted with its pod, and counts as ephemeral storage of the pod.
    pub(super) is_ephemeral: bool,
}

/// Where the content of a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumeLocation {
    /// A path on the host.
    Host(PathBuf),
    /// An image reference.
    Image(String),
}

/// The plugins of a node.
// upstream: pkg/volume/plugins.go VolumePluginMgr
pub(super) struct VolumePluginManager {
    plugins: Vec<Box<dyn VolumePlugin>>,
}

// --- VolumeContext ---

impl VolumeContext<'_> {
    /// Directory of a volume of the pod.
    pub(super) fn volume_path(&self, plugin_name: &str, volume: &str) -> PathBuf {
        self.directories.volume(self.uid, plugin_name, volume)
    }
}

// --- MountedVolume ---

impl MountedVolume {
    /// A writable volume in a host directory that outlives the pod.
    pub(super) fn at(path: &Path) -> Self {
        MountedVolume {
            location: VolumeLocation::Host(path.to_owned()),
            read_only: false,
            create_when_mounted: false,
            is_ephemeral: false,
        }
    }
}

// --- VolumePluginManager ---

impl VolumePluginManager {
    pub(super) fn new(plugins: Vec<Box<dyn VolumePlugin>>) -> Self {
        VolumePluginManager { plugins }
    }

    /// The plugin of a volume.
    // upstream: pkg/volume/plugins.go FindPluginBySpec
    pub(super) fn find_plugin_by_spec(
        &self,
        spec: &VolumeSpec<'_>,
    ) -> Result<&dyn VolumePlugin, MountFailure> {
        let plugin = self.plugins.iter().find(|plugin| plugin.can_support(spec));
        plugin.map(|plugin| &**plugin).ok_or_else(|| {
            let name = spec.name();
            let volume_type = spec.volume_type();
            MountFailure::Unprocessed(format!(
                "failed to get Plugin from volumeSpec for volume {name:?} err=no volume plugin matched: this node has none for {volume_type}"
            ))
        })
    }
}

// --- PathError ---

impl PathError {
    pub(super) fn new(path: &Path, source: io::Error) -> Self {
        PathError {
            path: path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::core::v1::Volume;
    use serde_json::{Value, json};

    use super::{super::plugins, *};

    fn spec_json(source: &Value) -> Volume {
        let mut volume = source.clone();
        volume["name"] = json!("v");
        serde_json::from_value(volume).unwrap()
    }

    #[test]
    fn each_volume_type_has_one_plugin() {
        let all = plugins::probe_volume_plugins();
        let names: BTreeSet<_> = all.iter().map(|plugin| plugin.plugin_name()).collect();
        assert_eq!(names.len(), all.len(), "two plugins share a directory");
        for source in [
            json!({"configMap": {}}),
            json!({"downwardAPI": {}}),
            json!({"emptyDir": {}}),
            json!({"hostPath": {"path": "/"}}),
            json!({"image": {}}),
            json!({"projected": {}}),
            json!({"secret": {}}),
        ] {
            let volume = spec_json(&source);
            let spec = VolumeSpec::from_volume(&volume);
            let supporting = all.iter().filter(|plugin| plugin.can_support(&spec));
            assert_eq!(supporting.count(), 1, "{source}");
        }
    }

    #[test]
    fn names_the_type_of_unsupported_volumes() {
        let manager = VolumePluginManager::new(plugins::probe_volume_plugins());
        for (source, volume_type) in [
            (json!({"nfs": {"server": "s", "path": "/"}}), "nfs"),
            (
                json!({"scaleIO": {"gateway": "g", "system": "s", "secretRef": {}}}),
                "scaleIO",
            ),
            (json!({}), "a volume without a type"),
        ] {
            let volume = spec_json(&source);
            let failure = manager
                .find_plugin_by_spec(&VolumeSpec::from_volume(&volume))
                .err();
            let message = format!(
                "failed to get Plugin from volumeSpec for volume \"v\" err=no volume plugin matched: this node has none for {volume_type}"
            );
            assert_eq!(failure, Some(MountFailure::Unprocessed(message)));
        }
    }
}
