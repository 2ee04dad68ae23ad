//! The log directories of pods. Blocks on file I/O.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Removes the log directory of a pod, if it has one.
pub(super) fn remove(directory: &Path) {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(directory = %directory.display(), %error, "failed to remove the logs of a pod");
        }
        _ => {}
    }
}

/// The log directories below a directory, with the UIDs of their pods.
pub(super) fn list(logs: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(logs).into_iter().flatten().flatten();
    let with_uids = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (_, uid) = name.rsplit_once('_')?;
        Some((uid.to_owned(), entry.path()))
    });
    with_uids.collect()
}
