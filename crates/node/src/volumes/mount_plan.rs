//! What to set up for a volume: read from the API, without touching the disk.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::{
    config_map, downward_api, empty_dir,
    error::MountFailure,
    host_path::HostPathType,
    nested_mounts,
    payload::VolumePayload,
    persistent_volume_claim,
    pod_directories::{PodDirectories, VolumePlugin},
    projected, secret,
};
use crate::{NodeFacts, sources::ObjectSources};

/// What to set up for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MountPlan {
    /// An emptyDir on disk.
    EmptyDir {
        path: PathBuf,
        /// Created after the volume was set up.
        ready_file: PathBuf,
        mode: u32,
    },
    /// An emptyDir with medium `Memory`: a tmpfs.
    MemoryEmptyDir {
        path: PathBuf,
        ready_file: PathBuf,
        mode: u32,
        /// Size limit in bytes.
        size: Option<u64>,
    },
    /// Files from API objects, replaced atomically.
    Files {
        path: PathBuf,
        payload: VolumePayload,
        medium: FileMedium,
        /// Directories or files in this volume that other volumes are mounted on.
        nested_mount_points: Vec<String>,
    },
    /// A host path. Exists already, or is created according to its type.
    HostPath {
        path: PathBuf,
        path_type: HostPathType,
        read_only: bool,
    },
    /// A `local` PersistentVolume, bind-mounted into the directory of the pod.
    Local {
        source: PathBuf,
        path: PathBuf,
        read_only: bool,
    },
    /// Files of an image (KEP-4639). The container runtime mounts them.
    Image { reference: String },
}

/// Where files of API objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileMedium {
    Disk,
    /// A tmpfs, because the files are secret. With a size limit in bytes, if any.
    Memory(Option<u64>),
}

/// A mount plan, and the names that events and access checks need.
pub(super) struct NamedMountPlan {
    /// Upstream's `volumeSpecName`: the name of the PersistentVolume, or of the volume in the pod if it has no claim.
    pub(super) spec_name: String,
    pub(super) plan: MountPlan,
    pub(super) is_read_write_once_pod: bool,
}

/// What the mount plans of one pod are computed from.
pub(super) struct VolumeContext<'a> {
    pub(super) pod: &'a Pod,
    pub(super) uid: &'a str,
    pub(super) namespace: &'a str,
    pub(super) directories: &'a PodDirectories,
    pub(super) sources: &'a dyn ObjectSources,
    pub(super) facts: &'a NodeFacts,
}

// --- VolumeContext ---

impl VolumeContext<'_> {
    /// Plans a volume. Fetches the API objects that the volume refers to.
    // upstream: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go processPodVolumes
    pub(super) async fn mount_plan(&self, volume: &Volume) -> Result<NamedMountPlan, MountFailure> {
        if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() {
            return persistent_volume_claim::mount_plan(self, volume).await;
        }
        let set_up_failed = |reason: String| MountFailure::step_failed("SetUp", &volume.name, &reason);
        let plan = if let Some(source) = &volume.empty_dir {
            empty_dir::mount_plan(self, &volume.name, source).map_err(set_up_failed)?
        } else if let Some(source) = &volume.host_path {
            MountPlan::HostPath {
                path: PathBuf::from(&source.path),
                path_type: HostPathType::parse(source.type_.as_deref()).map_err(set_up_failed)?,
                read_only: false,
            }
        } else if let Some(source) = &volume.config_map {
            let payload = config_map::volume_payload(self, source)
                .await
                .map_err(set_up_failed)?;
            self.plan_files(VolumePlugin::ConfigMap, volume, payload, FileMedium::Disk)
        } else if let Some(source) = &volume.secret {
            let payload = secret::volume_payload(self, source)
                .await
                .map_err(set_up_failed)?;
            self.plan_files(VolumePlugin::Secret, volume, payload, self.memory_medium())
        } else if let Some(source) = &volume.projected {
            let payload = projected::collect_data(self, source)
                .await
                .map_err(set_up_failed)?;
            self.plan_files(VolumePlugin::Projected, volume, payload, self.memory_medium())
        } else if let Some(source) = &volume.downward_api {
            let items = source.items.as_deref().unwrap_or_default();
            let payload = downward_api::collect_data(self.pod, self.facts, items, source.default_mode)
                .map_err(set_up_failed)?;
            self.plan_files(VolumePlugin::DownwardApi, volume, payload, self.memory_medium())
        } else if let Some(source) = &volume.image {
            MountPlan::Image {
                reference: source.reference.clone().unwrap_or_default(),
            }
        } else {
            return Err(no_plugin_matched(&volume.name, volume_type(volume)));
        };
        let spec_name = volume.name.clone();
        Ok(NamedMountPlan {
            spec_name,
            plan,
            is_read_write_once_pod: false,
        })
    }

    /// Directory of a volume of the pod.
    pub(super) fn volume_path(&self, plugin: VolumePlugin, volume: &str) -> PathBuf {
        self.directories.volume(self.uid, plugin, volume)
    }

    /// The medium of secret files. The tmpfs counts as memory of the pod, so it gets the limit of a memory emptyDir.
    fn memory_medium(&self) -> FileMedium {
        FileMedium::Memory(empty_dir::calculate_memory_size(self.pod, self.facts, None))
    }

    fn plan_files(
        &self,
        plugin: VolumePlugin,
        volume: &Volume,
        payload: VolumePayload,
        medium: FileMedium,
    ) -> MountPlan {
        MountPlan::Files {
            path: self.volume_path(plugin, &volume.name),
            payload,
            medium,
            nested_mount_points: nested_mounts::nested_mount_points(self.pod, &volume.name),
        }
    }
}

/// The error for a volume type that the node does not support.
// upstream: pkg/volume/plugins.go FindPluginBySpec
pub(super) fn no_plugin_matched(volume: &str, volume_type: &str) -> MountFailure {
    MountFailure::Unprocessed(format!(
        "failed to get Plugin from volumeSpec for volume {volume:?} err=no volume plugin matched: this node has none for {volume_type}"
    ))
}

/// The type of a volume: the name of the field that is set.
fn volume_type(volume: &Volume) -> &'static str {
    let fields = [
        (volume.aws_elastic_block_store.is_some(), "awsElasticBlockStore"),
        (volume.azure_disk.is_some(), "azureDisk"),
        (volume.azure_file.is_some(), "azureFile"),
        (volume.cephfs.is_some(), "cephfs"),
        (volume.cinder.is_some(), "cinder"),
        (volume.csi.is_some(), "csi"),
        (volume.fc.is_some(), "fc"),
        (volume.flex_volume.is_some(), "flexVolume"),
        (volume.flocker.is_some(), "flocker"),
        (volume.gce_persistent_disk.is_some(), "gcePersistentDisk"),
        (volume.git_repo.is_some(), "gitRepo"),
        (volume.glusterfs.is_some(), "glusterfs"),
        (volume.iscsi.is_some(), "iscsi"),
        (volume.nfs.is_some(), "nfs"),
        (volume.photon_persistent_disk.is_some(), "photonPersistentDisk"),
        (volume.portworx_volume.is_some(), "portworxVolume"),
        (volume.quobyte.is_some(), "quobyte"),
        (volume.rbd.is_some(), "rbd"),
        (volume.scale_io.is_some(), "scaleIO"),
        (volume.storageos.is_some(), "storageos"),
        (volume.vsphere_volume.is_some(), "vsphereVolume"),
    ];
    let set = fields.into_iter().find(|(is_set, _)| *is_set);
    set.map_or("a volume without a type", |(_, field)| field)
}

// --- MountPlan ---

impl MountPlan {
    /// Whether the volume must be set up again periodically, because API objects that it contains may change.
    // upstream: pkg/volume/configmap/configmap.go RequiresRemount
    pub(super) fn requires_remount(&self) -> bool {
        matches!(self, MountPlan::Files { .. })
    }
}
