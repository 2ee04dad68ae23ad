//! Takes a pod's volumes away. All of it may wait for the disk.

use std::{fs, io, path::Path};

use super::{error::VolumeError, layout::Layout, mount_table, tree};

/// Takes away what was mounted for a pod, and its volumes. The folders of its containers stay.
pub(super) fn release(layout: &Layout, uid: &str) -> Result<(), VolumeError> {
    let sub_paths = layout.sub_paths(uid);
    let volumes = layout.volumes(uid);
    // `volume-subpaths/<volume>/<container>/<index>` and `volumes/<type>/<volume>` are ours. What is mounted deeper was mounted by
    // a container, or by somebody at the machine.
    unmount(&sub_paths, 3)?;
    unmount(&volumes, 2)?;
    for folder in [sub_paths, volumes, layout.pod(uid).join("plugins")] {
        remove_folder(&folder)?;
    }
    Ok(())
}

/// Takes away everything of a pod.
pub(super) fn tear_down(layout: &Layout, uid: &str) -> Result<(), VolumeError> {
    release(layout, uid)?;
    remove_folder(&layout.pod(uid))
}

/// Takes away everything of all pods under a node's folder, whose agent has ended, and then the folder.
pub fn remove_node_folder(root: &Path) -> Result<(), VolumeError> {
    let layout = Layout::new(root.to_path_buf());
    for uid in left_behind(&layout)? {
        tear_down(&layout, &uid)?;
    }
    remove_folder(root)
}

/// Unmounts what is mounted so many folders below a folder.
fn unmount(folder: &Path, depth: usize) -> Result<(), VolumeError> {
    let read = |error| VolumeError::disk("cannot see what is mounted in", folder, error);
    let mounts = mount_table::at_or_below(folder).map_err(read)?;
    if mounts.is_empty() {
        return Ok(());
    }
    let real = fs::canonicalize(folder).map_err(read)?;
    // What was mounted last is on top.
    for mounted in mounts.iter().rev() {
        let below = mounted
            .path
            .strip_prefix(&real)
            .map_or(0, |below| below.components().count());
        if below != depth {
            return Err(VolumeError::Foreign(mounted.path.display().to_string()));
        }
        mount_table::take_away(&mounted.path)
            .map_err(|error| VolumeError::disk("cannot unmount", &mounted.path, error))?;
    }
    Ok(())
}

/// Removes a folder with all in it, unless something is mounted there.
pub fn remove_folder(folder: &Path) -> Result<(), VolumeError> {
    let mounts = mount_table::at_or_below(folder)
        .map_err(|error| VolumeError::disk("cannot see what is mounted in", folder, error))?;
    if let Some(mounted) = mounts.first() {
        return Err(VolumeError::Foreign(mounted.path.display().to_string()));
    }
    tree::remove(folder).map_err(|error| VolumeError::disk("cannot remove", folder, error))
}

/// The uids of pods that have folders.
pub(super) fn left_behind(layout: &Layout) -> Result<Vec<String>, VolumeError> {
    let pods = layout.pods();
    let read = |error| VolumeError::disk("cannot read", &pods, error);
    let entries = match fs::read_dir(&pods) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(read)?,
    };
    let mut uids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(read)?;
        if entry.file_type().map_err(read)?.is_dir() {
            uids.extend(entry.file_name().into_string());
        }
    }
    uids.sort();
    Ok(uids)
}
