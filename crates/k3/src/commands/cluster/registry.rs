//! The list of clusters that this user created, for `k3 cluster list`.
//!
//! Nothing else depends on the list. Removed clusters are dropped from it.

use std::{env, fs, path::PathBuf};

use super::directory::ClusterDirectory;
use crate::secret_file;

/// Returns the clusters that still exist.
pub(super) fn all() -> Vec<ClusterDirectory> {
    let mut directories = paths();
    directories.sort();
    directories.dedup();
    directories
        .iter()
        .filter_map(|path| ClusterDirectory::open(path).ok())
        .collect()
}

/// Adds a cluster and drops removed ones. Best effort.
pub(super) fn add(directory: &ClusterDirectory) {
    let mut all: Vec<_> = all().iter().map(|known| known.path().to_owned()).collect();
    if !all.iter().any(|path| path == directory.path()) {
        all.push(directory.path().to_owned());
    }
    let Some(file) = file() else { return };
    let lines: Vec<_> = all.iter().map(|path| path.display().to_string()).collect();
    let parent = file.parent().expect("the file has a parent directory");
    let written =
        secret_file::create_directory(parent).and_then(|()| secret_file::write(&file, &lines.join("\n")));
    if let Err(error) = written {
        eprintln!("the cluster will not be listed: {error}");
    }
}

fn paths() -> Vec<PathBuf> {
    let text = file().and_then(|file| fs::read_to_string(file).ok());
    text.unwrap_or_default().lines().map(PathBuf::from).collect()
}

fn file() -> Option<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("k3/clusters"))
}
