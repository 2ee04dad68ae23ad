//! The mounts of one container: which volumes it mounts, where, and with which sub paths.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use rustix::fs::{FileType, fstat};

use super::{
    create_directory::{create_host_directory, create_private_directory},
    mount_table,
    plugin::{MountedVolume, VolumeLocation},
    pod_directories::{PodDirectories, has_parent_component},
    safe_open::{self, MissingDirectories},
};
use crate::{
    environment,
    runtime::{Mount, MountPropagation, MountSource},
};

/// A validated mount of a container, before its sub path is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerMount {
    volume: String,
    /// Index in the `volumeMounts` of the container.
    index: usize,
    mounted: MountedVolume,
    /// Path in the volume; empty for the whole volume.
    sub_path: String,
    /// Path in the container.
    target: String,
    read_only: bool,
    propagation: MountPropagation,
    recursive_read_only: bool,
}

/// Why the volume mounts of a container are invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveMountsError {
    /// The container uses a volume as a block device. This node supports no volume with volumeMode Block.
    #[error("cannot find volume {volume:?} to pass into container {container:?}")]
    BlockDevice {
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
    },
    /// The volume is not mounted.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NotMounted {
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
    },
    /// `subPathExpr` refers to variables without value.
    #[error("missing value for {}", .0.join(", "))]
    MissingVariables(Vec<String>),
    /// The sub path starts at the root.
    #[error("error SubPath `{0}` must not be an absolute path")]
    AbsoluteSubPath(String),
    /// The sub path may leave the volume.
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    ParentInSubPath(String),
    /// The mode of propagation is unknown.
    #[error("invalid MountPropagation mode: {0:?}")]
    Propagation(String),
    /// The mount cannot be recursively read-only.
    #[error("failed to resolve recursive read-only mode: {0}")]
    RecursiveReadOnly(#[from] RecursiveReadOnlyError),
}

/// Why a mount cannot be recursively read-only.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecursiveReadOnlyError {
    /// The mount is writable.
    #[error("volume {0:?} requested recursive read-only mode, but it is not read-only")]
    Writable(String),
    /// Mounts are propagated.
    #[error(
        "volume {volume:?} requested recursive read-only mode, but it is not compatible with propagation {propagation:?}"
    )]
    Propagation {
        /// Name of the volume.
        volume: String,
        /// Mode of propagation.
        propagation: String,
    },
    /// The mode is unknown.
    #[error("unknown recursive read-only mode {0:?}")]
    UnknownMode(String),
}

/// Why the source of a mount cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeMountError {
    /// The directory of the volume cannot be created.
    #[error("mkdir {}: {source}", path.display())]
    CreateDirectory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The sub path cannot be created or mounted. Contains no source: it could disclose which files exist on the host.
    #[error("failed to {action} for volumeMount {volume:?} of container {container:?}")]
    SubPath {
        /// What failed.
        action: &'static str,
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
    },
}

/// Validates the volume mounts of a container. Does not touch the disk.
// upstream: pkg/kubelet/kubelet_pods.go makeMounts
pub(super) fn resolve_mounts(
    container: &Container,
    environment: &[(String, String)],
    volumes: &BTreeMap<String, MountedVolume>,
) -> Result<Vec<ContainerMount>, ResolveMountsError> {
    if let Some(device) = container.volume_devices.iter().flatten().next() {
        return Err(ResolveMountsError::BlockDevice {
            volume: device.name.clone(),
            container: container.name.clone(),
        });
    }
    let mounts = container.volume_mounts.iter().flatten().enumerate();
    let resolved = mounts.map(|(index, mount)| {
        let Some(mounted) = volumes.get(&mount.name) else {
            return Err(ResolveMountsError::NotMounted {
                volume: mount.name.clone(),
                container: container.name.clone(),
            });
        };
        let target = if mount.mount_path.starts_with('/') {
            mount.mount_path.clone()
        } else {
            format!("/{}", mount.mount_path)
        };
        Ok(ContainerMount {
            volume: mount.name.clone(),
            index,
            sub_path: resolve_sub_path(mount, environment)?,
            target,
            read_only: mount.read_only == Some(true) || mounted.read_only,
            propagation: translate_mount_propagation(mount.mount_propagation.as_deref())?,
            recursive_read_only: resolve_recursive_read_only(mount)?,
            mounted: mounted.clone(),
        })
    });
    resolved.collect()
}

/// The sub path of a mount, with `subPathExpr` expanded.
// upstream: pkg/kubelet/container/helpers.go ExpandContainerVolumeMounts
fn resolve_sub_path(
    mount: &VolumeMount,
    environment: &[(String, String)],
) -> Result<String, ResolveMountsError> {
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    let path = if expression.is_empty() {
        mount.sub_path.clone().unwrap_or_default()
    } else {
        let mut missing = std::collections::BTreeSet::new();
        let expanded = environment::expand_with(expression, |name| {
            let variable = environment.iter().rfind(|(variable, _)| variable == name);
            let value = variable.map(|(_, value)| value.clone()).unwrap_or_default();
            if value.is_empty() {
                missing.insert(name.to_owned());
            }
            Some(value)
        });
        if !missing.is_empty() {
            let missing = missing.into_iter().collect();
            return Err(ResolveMountsError::MissingVariables(missing));
        }
        expanded
    };
    if path.starts_with('/') {
        return Err(ResolveMountsError::AbsoluteSubPath(path));
    }
    if has_parent_component(&path) {
        return Err(ResolveMountsError::ParentInSubPath(path));
    }
    Ok(path)
}

// upstream: pkg/kubelet/kubelet_pods.go translateMountPropagation
fn translate_mount_propagation(mode: Option<&str>) -> Result<MountPropagation, ResolveMountsError> {
    match mode {
        None | Some("None") => Ok(MountPropagation::Private),
        Some("HostToContainer") => Ok(MountPropagation::HostToContainer),
        Some("Bidirectional") => Ok(MountPropagation::Bidirectional),
        Some(other) => Err(ResolveMountsError::Propagation(other.to_owned())),
    }
}

/// Whether the mount and all mounts below it must be read-only. Whether the runtime supports that is not known here, so
/// `IfPossible` counts as `Disabled`; `Enabled` fails at the runtime if it does not.
// upstream: pkg/kubelet/kubelet_pods.go resolveRecursiveReadOnly
fn resolve_recursive_read_only(mount: &VolumeMount) -> Result<bool, RecursiveReadOnlyError> {
    let mode = match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => return Ok(false),
        Some(mode) => mode,
    };
    if mount.read_only != Some(true) {
        return Err(RecursiveReadOnlyError::Writable(mount.name.clone()));
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|mode| *mode != "None") {
        return Err(RecursiveReadOnlyError::Propagation {
            volume: mount.name.clone(),
            propagation: propagation.to_owned(),
        });
    }
    match mode {
        "Enabled" => Ok(true),
        "IfPossible" => Ok(false),
        other => Err(RecursiveReadOnlyError::UnknownMode(other.to_owned())),
    }
}

// --- Mounting ---

/// Creates the source of a mount on disk. Blocks on file I/O.
pub(super) fn make_mount(
    directories: &PodDirectories,
    uid: &str,
    container: &str,
    mount: ContainerMount,
) -> Result<Mount, MakeMountError> {
    let source = match &mount.mounted.location {
        VolumeLocation::Image(reference) => MountSource::Image {
            image: reference.clone(),
            sub_path: mount.sub_path.clone(),
        },
        VolumeLocation::Host(path) => {
            MountSource::Host(prepare_host_path(directories, uid, container, &mount, path)?)
        }
    };
    Ok(Mount {
        source,
        target: mount.target,
        read_only: mount.read_only,
        propagation: mount.propagation,
        recursive_read_only: mount.recursive_read_only,
    })
}

fn prepare_host_path(
    directories: &PodDirectories,
    uid: &str,
    container: &str,
    mount: &ContainerMount,
    volume_path: &Path,
) -> Result<PathBuf, MakeMountError> {
    if mount.mounted.create_when_mounted && !volume_path.exists() {
        // Not every runtime creates the directory; upstream relies on runtimes that do.
        let created = create_host_directory(volume_path, 0o755);
        created.map_err(|source| MakeMountError::CreateDirectory {
            path: volume_path.to_owned(),
            source,
        })?;
    }
    if mount.sub_path.is_empty() {
        return Ok(volume_path.to_owned());
    }
    let target = directories.volume_subpath(uid, &mount.volume, container, mount.index);
    // Log the error and hide it from the pod: it could disclose which files exist on the host.
    let hide_error = |action: &'static str, error: &io::Error| {
        tracing::warn!(
            %error,
            pod = uid,
            container,
            volume = mount.volume,
            sub_path = mount.sub_path,
            action,
            "failed to set up a subPath mount"
        );
        MakeMountError::SubPath {
            action,
            volume: mount.volume.clone(),
            container: container.to_owned(),
        }
    };
    let metadata = fs::metadata(volume_path).map_err(|error| hide_error("prepare subPath", &error))?;
    // Directories of the sub path get the mode of the volume, as upstream: then fsGroup and emptyDir modes apply to them too.
    let mode = MissingDirectories::Create(std::os::unix::fs::MetadataExt::mode(&metadata));
    let opened = safe_open::open(volume_path, Path::new(&mount.sub_path), mode)
        .map_err(|error| hide_error("create subPath directory", &error))?;
    bind_sub_path(&opened, &target).map_err(|error| hide_error("prepare subPath", &error))?;
    Ok(target)
}

/// Bind-mounts an opened sub path to a path that only the node can change. The runtime then mounts what was opened, even if the
/// container replaces the path in the volume.
// upstream: pkg/volume/util/subpath/subpath_linux.go doBindSubPath, prepareSubpathTarget
fn bind_sub_path(opened: &impl AsFd, target: &Path) -> io::Result<()> {
    let stat = fstat(opened)?;
    if mount_table::mount_at(target)?.is_some() {
        if safe_open::is_same_inode(&safe_open::lstat(target)?, &stat) {
            return Ok(());
        }
        // Lazily: a container that still runs may use the old mount.
        mount_table::lazy_unmount(target)?;
    }
    if let Some(parent) = target.parent() {
        create_private_directory(parent)?;
    }
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    // The mount point must be a directory for a directory, and a file for anything else.
    match fs::symlink_metadata(target) {
        Ok(old) if old.is_dir() && !is_directory => fs::remove_dir(target)?,
        Ok(old) if !old.is_dir() && is_directory => fs::remove_file(target)?,
        _ => {}
    }
    let created = if is_directory {
        fs::create_dir(target)
    } else {
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o640)
            .open(target)
            .map(drop)
    };
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    mount_table::bind_mount(opened.as_fd(), target)
}
