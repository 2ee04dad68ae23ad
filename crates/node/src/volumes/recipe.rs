//! What has to be on disk for a volume: asked for in the cluster, without a look at the disk.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::{
    claim, config_map, downward, empty_dir,
    error::Trouble,
    files::Files,
    host_path::Kind,
    layout::{Layout, Plugin},
    nested, projected, secret,
};
use crate::{Facts, sources::Sources};

/// What has to be done for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Recipe {
    /// A folder that is empty in the beginning.
    Folder {
        path: PathBuf,
        ready: PathBuf,
        mode: u32,
    },
    /// The same in memory, with room for so many bytes.
    Memory {
        path: PathBuf,
        ready: PathBuf,
        mode: u32,
        size: Option<u64>,
    },
    /// Files of the API, replaced all at once.
    Files {
        path: PathBuf,
        files: Files,
        medium: Medium,
        /// Folders that other volumes are mounted on.
        nested: Vec<String>,
    },
    /// Something that is there already, or is made once.
    Host {
        path: PathBuf,
        kind: Kind,
        read_only: bool,
    },
    /// A folder of a volume of the cluster that is mounted for this pod.
    Bind {
        source: PathBuf,
        path: PathBuf,
        read_only: bool,
    },
    /// The files of an image, which the runtime mounts.
    Image { reference: String },
}

/// Where files of the API are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Disk,
    /// They must not reach a disk. With room for so many bytes, if there is a limit.
    Memory(Option<u64>),
}

/// A recipe, and what its volume is called when it fails.
pub(super) struct Named {
    /// Its name in the pod, or that of the volume that its claim is bound to.
    pub(super) name: String,
    pub(super) recipe: Recipe,
    /// Whether one pod may use it at a time.
    pub(super) is_exclusive: bool,
}

/// What recipes are made of.
pub(super) struct Kitchen<'a> {
    pub(super) pod: &'a Pod,
    pub(super) uid: &'a str,
    pub(super) namespace: &'a str,
    pub(super) layout: &'a Layout,
    pub(super) sources: &'a dyn Sources,
    pub(super) facts: &'a Facts,
}

// --- Kitchen ---

impl Kitchen<'_> {
    /// The recipe of a volume.
    pub(super) async fn recipe(&self, volume: &Volume) -> Result<Named, Trouble> {
        if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() {
            return claim::recipe(self, volume).await;
        }
        let set_up = |why: String| Trouble::step("SetUp", &volume.name, &why);
        let recipe = if let Some(source) = &volume.empty_dir {
            empty_dir::recipe(self, &volume.name, source).map_err(set_up)?
        } else if let Some(source) = &volume.host_path {
            Recipe::Host {
                path: PathBuf::from(&source.path),
                kind: Kind::of(source.type_.as_deref()).map_err(set_up)?,
                read_only: false,
            }
        } else if let Some(source) = &volume.config_map {
            let files = config_map::files(self, source).await.map_err(set_up)?;
            self.of_files(Plugin::ConfigMap, volume, files, Medium::Disk)
        } else if let Some(source) = &volume.secret {
            let files = secret::files(self, source).await.map_err(set_up)?;
            self.of_files(Plugin::Secret, volume, files, self.memory())
        } else if let Some(source) = &volume.projected {
            let files = projected::files(self, source).await.map_err(set_up)?;
            self.of_files(Plugin::Projected, volume, files, self.memory())
        } else if let Some(source) = &volume.downward_api {
            let items = source.items.as_deref().unwrap_or_default();
            let files = downward::files(self.pod, self.facts, items, source.default_mode).map_err(set_up)?;
            self.of_files(Plugin::DownwardApi, volume, files, self.memory())
        } else if let Some(source) = &volume.image {
            Recipe::Image {
                reference: source.reference.clone().unwrap_or_default(),
            }
        } else {
            return Err(unsupported(&volume.name, kind(volume)));
        };
        let name = volume.name.clone();
        Ok(Named {
            name,
            recipe,
            is_exclusive: false,
        })
    }

    /// Where a volume of the pod is.
    pub(super) fn path(&self, plugin: Plugin, volume: &str) -> PathBuf {
        self.layout.volume(self.uid, plugin, volume)
    }

    /// What is secret is in memory.
    fn memory(&self) -> Medium {
        Medium::Memory(empty_dir::room(self.pod, self.facts, None))
    }

    fn of_files(&self, plugin: Plugin, volume: &Volume, files: Files, medium: Medium) -> Recipe {
        Recipe::Files {
            path: self.path(plugin, &volume.name),
            files,
            medium,
            nested: nested::folders(self.pod, &volume.name),
        }
    }
}

/// A type of volumes that the node does not have.
pub(super) fn unsupported(volume: &str, kind: &str) -> Trouble {
    Trouble::Unknown(format!(
        "failed to get Plugin from volumeSpec for volume {volume:?} err=no volume plugin matched: this node has none for {kind}"
    ))
}

/// The type of a volume: the field that is set.
fn kind(volume: &Volume) -> &'static str {
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
    set.map_or("a volume without a type", |(_, kind)| kind)
}

// --- Recipe ---

impl Recipe {
    /// Whether nothing that could change has a say in it, once it was done.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(self, Recipe::Files { .. })
    }
}
