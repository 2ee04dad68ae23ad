//! Unmounts and removes the volumes of a pod. All functions block on file I/O.

use std::{fs, io, path::Path};

use super::{directory_walk, error::VolumeManagerError, mount_table, pod_directories::PodDirectories};

/// Depth of sub path mounts below `volume-subpaths`: `<volume>/<container>/<index>`.
const SUB_PATH_DEPTH: usize = 3;
/// Depth of volume mounts below `volumes`: `<plugin>/<volume>`.
const VOLUME_DEPTH: usize = 2;

/// Unmounts and removes the volumes of a pod. The directories of its containers stay.
// upstream: pkg/volume/emptydir/empty_dir.go TearDownAt
pub(super) fn unmount_pod_volumes(directories: &PodDirectories, uid: &str) -> Result<(), VolumeManagerError> {
    let sub_paths = directories.volume_subpaths(uid);
    let volumes = directories.volumes(uid);
    // Sub paths first: they are bind mounts of volumes.
    unmount_at_depth(&sub_paths, SUB_PATH_DEPTH)?;
    unmount_at_depth(&volumes, VOLUME_DEPTH)?;
    for directory in [sub_paths, volumes, directories.pod(uid).join("plugins")] {
        remove_directory(&directory)?;
    }
    Ok(())
}

/// Unmounts the volumes of a pod and removes its directory.
pub(super) fn remove_pod_directory(
    directories: &PodDirectories,
    uid: &str,
) -> Result<(), VolumeManagerError> {
    unmount_pod_volumes(directories, uid)?;
    remove_directory(&directories.pod(uid))
}

/// Removes the data directory of a node whose agent has stopped, with the volumes of all its pods.
pub fn remove_node_directory(root: &Path) -> Result<(), VolumeManagerError> {
    let directories = PodDirectories::new(root.to_path_buf());
    for uid in list_pods_from_disk(&directories)? {
        remove_pod_directory(&directories, &uid)?;
    }
    remove_directory(root)
}

/// Unmounts the mounts that are exactly `depth` levels below a directory. The node creates no others, so any other mount belongs
/// to a container or an administrator and is an error.
fn unmount_at_depth(directory: &Path, depth: usize) -> Result<(), VolumeManagerError> {
    let list_failed = |error| VolumeManagerError::io("failed to list mounts in", directory, error);
    let mounts = mount_table::mounts_below(directory).map_err(list_failed)?;
    if mounts.is_empty() {
        return Ok(());
    }
    let real_path = fs::canonicalize(directory).map_err(list_failed)?;
    // Last mounted first: it may be on top of an earlier one.
    for mount in mounts.iter().rev() {
        let mount_depth = mount
            .path
            .strip_prefix(&real_path)
            .map_or(0, |relative| relative.components().count());
        if mount_depth != depth {
            return Err(VolumeManagerError::ForeignMount(mount.path.display().to_string()));
        }
        mount_table::unmount(&mount.path)
            .map_err(|error| VolumeManagerError::io("failed to unmount", &mount.path, error))?;
    }
    Ok(())
}

/// Removes a directory tree, unless something is mounted in it.
pub fn remove_directory(directory: &Path) -> Result<(), VolumeManagerError> {
    let mounts = mount_table::mounts_below(directory)
        .map_err(|error| VolumeManagerError::io("failed to list mounts in", directory, error))?;
    if let Some(mount) = mounts.first() {
        return Err(VolumeManagerError::ForeignMount(mount.path.display().to_string()));
    }
    directory_walk::remove_all(directory)
        .map_err(|error| VolumeManagerError::io("failed to remove", directory, error))
}

/// UIDs of pods that have a directory, sorted.
// upstream: pkg/kubelet/kubelet_pods.go listPodsFromDisk
pub(super) fn list_pods_from_disk(directories: &PodDirectories) -> Result<Vec<String>, VolumeManagerError> {
    let pods = directories.pods();
    let read_failed = |error| VolumeManagerError::io("failed to read", &pods, error);
    let entries = match fs::read_dir(&pods) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(read_failed)?,
    };
    let mut uids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(read_failed)?;
        if entry.file_type().map_err(read_failed)?.is_dir() {
            uids.extend(entry.file_name().into_string());
        }
    }
    uids.sort();
    Ok(uids)
}
