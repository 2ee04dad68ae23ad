//! `local` PersistentVolumes, bind-mounted into the directory of the pod.

use std::{
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use async_trait::async_trait;

use crate::volumes::{
    create_directory::create_private_directory,
    mount_table,
    ownership::GroupAccess,
    plugin::{MountedVolume, Mounter, MounterArgs, MounterError, PathError, VolumeContext, VolumePlugin},
    pod_directories::has_parent_component,
    safe_open::{self, MissingDirectories},
    spec::VolumeSpec,
};

pub(super) struct LocalVolumePlugin;

struct LocalVolumeMounter {
    source: PathBuf,
    path: PathBuf,
    read_only: bool,
}

/// Why a PersistentVolume cannot be mounted.
#[derive(Debug, thiserror::Error)]
enum LocalVolumeError {
    #[error("LocalVolume volume {0:?} path is empty")]
    EmptyPath(String),
    #[error("invalid path: {0} must not contain '..'")]
    ParentComponent(String),
}

// --- LocalVolumePlugin ---

#[async_trait]
impl VolumePlugin for LocalVolumePlugin {
    fn plugin_name(&self) -> &'static str {
        "kubernetes.io/local-volume"
    }

    fn can_support(&self, spec: &VolumeSpec<'_>) -> bool {
        spec.persistent_volume_spec()
            .is_some_and(|spec| spec.local.is_some())
    }

    async fn new_mounter(
        &self,
        spec: &VolumeSpec<'_>,
        context: &VolumeContext<'_>,
    ) -> Result<Box<dyn Mounter>, MounterError> {
        let name = spec.name();
        let source = spec.persistent_volume_spec().and_then(|spec| spec.local.as_ref());
        let source = source.map(|source| source.path.as_str()).unwrap_or_default();
        if source.is_empty() {
            return Err(LocalVolumeError::EmptyPath(name.to_owned()).into());
        }
        if has_parent_component(source) {
            return Err(LocalVolumeError::ParentComponent(source.to_owned()).into());
        }
        Ok(Box::new(LocalVolumeMounter {
            source: PathBuf::from(source),
            path: context.volume_path(self.plugin_name(), name),
            read_only: spec.read_only,
        }))
    }
}

// --- LocalVolumeMounter ---

impl LocalVolumeMounter {
    fn bind_mount(&self, args: &MounterArgs<'_>) -> io::Result<()> {
        let path = &self.path;
        if mount_table::mount_at(path)?.is_some() {
            return Ok(());
        }
        create_private_directory(path)?;
        let source_fd = safe_open::open(&self.source, Path::new(""), MissingDirectories::Fail)?;
        // Count before mounting: the new mount would be counted too.
        let other_mounts = mount_table::count_mount_refs(&self.source)?;
        mount_table::bind_mount(source_fd.as_fd(), path)?;
        if self.read_only {
            return mount_table::remount_read_only(path);
        }
        match args.fs_group {
            // Only the first pod sets the group: another group would take the volume away from the pods that use it.
            Some(group) if other_mounts == 0 => group.apply(path, GroupAccess::ReadWrite),
            _ => Ok(()),
        }
    }
}

impl Mounter for LocalVolumeMounter {
    // upstream: pkg/volume/local/local.go SetUpAt
    fn set_up(&self, args: &MounterArgs<'_>) -> Result<MountedVolume, MounterError> {
        self.bind_mount(args)
            .map_err(|error| PathError::new(&self.source, error))?;
        Ok(MountedVolume {
            read_only: self.read_only,
            ..MountedVolume::at(&self.path)
        })
    }
}
