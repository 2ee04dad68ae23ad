//! Creates directories with modes that do not depend on the umask.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::Path,
};

/// Mode of directories above volumes. Only the node enters them.
const PRIVATE_MODE: u32 = 0o750;
/// Mode of directories on the host that the node creates for a pod.
const HOST_MODE: u32 = 0o755;

/// Creates a directory, and those above it, that only the node can read.
pub(super) fn create_private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_MODE)
        .create(path)
}

/// Creates the directory of a volume with this mode, and private directories above it.
pub(super) fn create_volume_directory(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        create_private_directory(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => result?,
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Creates a directory outside the data directory of the node with this mode, and those above it.
pub(super) fn create_host_directory(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(HOST_MODE)
        .create(path)?;
    if mode != HOST_MODE {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}
