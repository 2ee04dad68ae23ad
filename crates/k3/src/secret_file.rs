//! Files that only their owner may read.
//!
//! Promises: a file is there whole or not at all, also after a power loss if it is to last; at no moment can anybody else read
//! it; of two processes that write the same file one wins, and it is whole.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
};

/// A file that could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {}", .path.display())]
pub(crate) struct FileError {
    verb: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Writes the file and makes it durable.
pub(crate) fn write(path: &Path, content: &str) -> Result<(), FileError> {
    replace(path, content, File::sync_all)
}

/// Writes the file and does not wait for the disk: for files that nobody needs after a power loss.
pub(crate) fn write_for_now(path: &Path, content: &str) -> Result<(), FileError> {
    replace(path, content, |_| Ok(()))
}

fn replace(path: &Path, content: &str, sync: impl Fn(&File) -> io::Result<()>) -> Result<(), FileError> {
    let failed = |source| FileError {
        verb: "write",
        path: path.to_path_buf(),
        source,
    };
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(failed(io::ErrorKind::IsADirectory.into())),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = folder.join(format!(".{name}.{}.new", process::id()));
    let written = write_fresh(&fresh, content)
        .and_then(|file| sync(&file))
        .and_then(|()| fs::rename(&fresh, path))
        .and_then(|()| sync(&File::open(folder)?));
    if written.is_err() {
        // Best effort: what is left is a hidden file that the next attempt of this process overwrites.
        let _ = fs::remove_file(&fresh);
    }
    written.map_err(failed)
}

fn write_fresh(path: &Path, content: &str) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    // One that was left behind by a process of the same number may have another mode.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(content.as_bytes())?;
    Ok(file)
}

/// The file's text; `None` if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError {
            verb: "read",
            path: path.to_path_buf(),
            source,
        }),
    }
}

/// Makes a folder, and those above it, if they are not there.
pub(crate) fn make_folder(path: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| FileError {
            verb: "make the folder",
            path: path.to_path_buf(),
            source,
        })
}

/// Waits until no other process has the lock file, and has it until it is dropped.
pub(crate) fn lock(path: &Path) -> Result<File, FileError> {
    let locked = || {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        file.lock()?;
        Ok(file)
    };
    locked().map_err(|source| FileError {
        verb: "lock",
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_its_owners_alone_also_when_it_replaces_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("new"));
        assert_eq!(mode(&path), 0o600);
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_file_that_is_not_there_is_no_error_and_one_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nowhere/key");
        assert!(read(&path).unwrap().is_none());
        let message = write(&path, "x").unwrap_err().to_string();
        assert!(message.contains("nowhere/key"), "{message}");
    }

    #[test]
    fn a_folder_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        make_folder(&path).unwrap();
        make_folder(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }
}
