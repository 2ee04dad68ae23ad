//! The list of clusters that this user created, for `k3 cluster list`.
//!
//! Nothing else depends on the list. Removed clusters are dropped from it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use super::directory::ClusterDirectory;
use crate::{
    command_error::CommandError,
    secret_file::{self, FileError},
};

/// Why a cluster was not added to the list.
#[derive(Debug, thiserror::Error)]
enum AddError {
    #[error("cannot read {}: {source}", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Write(#[from] FileError),
}

/// Returns the clusters that still exist.
pub(super) fn all() -> Result<Vec<ClusterDirectory>, CommandError> {
    let Some(file) = file() else {
        return Ok(Vec::new());
    };
    read(&file).map_err(|error| {
        let advice = "make the file readable for this user, or delete it: nothing else depends on it";
        CommandError::new(
            format!("cannot read the list of clusters {}", file.display()),
            advice,
        )
        .caused_by(error)
    })
}

/// Adds a cluster and drops removed ones. Best effort.
pub(super) fn add(directory: &ClusterDirectory) {
    let Some(file) = file() else { return };
    if let Err(error) = add_to(&file, directory.path()) {
        eprintln!("the cluster will not be listed: {error}");
    }
}

/// Adds a directory to the list. A list that cannot be read is not overwritten: the other clusters would be lost.
fn add_to(file: &Path, added: &Path) -> Result<(), AddError> {
    let known = read(file).map_err(|source| AddError::Read {
        file: file.to_owned(),
        source,
    })?;
    let mut all: Vec<_> = known.iter().map(|known| known.path().to_owned()).collect();
    if !all.iter().any(|path| path == added) {
        all.push(added.to_owned());
    }
    let lines: Vec<_> = all.iter().map(|path| path.display().to_string()).collect();
    let parent = file.parent().expect("the file has a parent directory");
    secret_file::create_directory(parent)?;
    secret_file::write(file, &lines.join("\n"))?;
    Ok(())
}

fn read(file: &Path) -> io::Result<Vec<ClusterDirectory>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let mut directories: Vec<_> = text.lines().map(PathBuf::from).collect();
    directories.sort();
    directories.dedup();
    Ok(directories
        .iter()
        .filter_map(|path| ClusterDirectory::open(path).ok())
        .collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_list_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("k3/clusters");
        assert!(read(&file).unwrap().is_empty());
        add_to(&file, Path::new("/clusters/first")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "/clusters/first");
        // Not UTF-8, so the list cannot be read.
        fs::write(&file, b"/clusters/\xff").unwrap();
        let error = add_to(&file, Path::new("/clusters/second")).unwrap_err();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
        assert_eq!(fs::read(&file).unwrap(), b"/clusters/\xff");
    }
}
