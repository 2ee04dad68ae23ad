//! Files that only their owner can read.
//!
//! A file is complete or absent, also after a power loss if it was written durably. No other user can read it at any time. Of
//! two processes that write the same file one wins.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use k3_files::Contents;

use crate::random;

/// An error reading or writing a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {}", .path.display())]
pub(crate) struct FileError {
    verb: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// A temporary file that gets its name when it is persisted; dropped before that, it is removed.
pub(crate) struct PendingFile {
    file: File,
    /// The temporary path.
    path: PathBuf,
    target: PathBuf,
}

/// Writes the file and makes it durable.
pub(crate) fn write(path: &Path, content: &str) -> Result<(), FileError> {
    write_pending(path, content)?.persist()
}

/// Writes the file without waiting for the disk: for files that may be lost in a power loss.
pub(crate) fn write_without_sync(path: &Path, content: &str) -> Result<(), FileError> {
    write_pending(path, content)?.persist_without_sync()
}

fn write_pending(path: &Path, content: &str) -> Result<PendingFile, FileError> {
    let mut pending = PendingFile::create(path)?;
    pending
        .file
        .write_all(content.as_bytes())
        .map_err(|source| write_error(path, source))?;
    Ok(pending)
}

fn write_error(path: &Path, source: io::Error) -> FileError {
    FileError {
        verb: "write",
        path: path.to_path_buf(),
        source,
    }
}

/// The parent directory of a file.
fn directory_of(path: &Path) -> io::Result<&Path> {
    match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => Ok(Path::new(".")),
        Some(directory) => Ok(directory),
        None => Err(io::ErrorKind::IsADirectory.into()),
    }
}

// --- PendingFile ---

impl PendingFile {
    /// Creates a temporary file for `target`.
    pub(crate) fn create(target: &Path) -> Result<Self, FileError> {
        let create = || {
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            // With an unguessable name and `create_new`, because another user may have placed links in the directory.
            let unique = random::digits::<8>().map_err(|failure| io::Error::other(failure.to_string()))?;
            let path = directory_of(target)?.join(format!(".{name}.{unique}.new"));
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true);
            let file = k3_files::open(&path, &mut options)?;
            Ok(Self {
                file,
                path,
                target: target.to_path_buf(),
            })
        };
        create().map_err(|source| write_error(target, source))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Another handle to the open file.
    pub(crate) fn handle(&self) -> Result<File, FileError> {
        self.file
            .try_clone()
            .map_err(|source| write_error(&self.target, source))
    }

    /// Makes the content durable, and renames the file to its target.
    pub(crate) fn persist(self) -> Result<(), FileError> {
        self.persist_with(File::sync_all)
    }

    /// Renames the file to its target without waiting for the disk.
    fn persist_without_sync(self) -> Result<(), FileError> {
        self.persist_with(|_| Ok(()))
    }

    fn persist_with(self, sync: impl Fn(&File) -> io::Result<()>) -> Result<(), FileError> {
        let persist = || {
            sync(&self.file)?;
            fs::rename(&self.path, &self.target)?;
            sync(&File::open(directory_of(&self.target)?)?)
        };
        persist().map_err(|source| write_error(&self.target, source))
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // After a rename there is no file with this name. Otherwise best effort: a leftover is a hidden file that the next attempt
        // of this process overwrites.
        let _ = fs::remove_file(&self.path);
    }
}

/// Reads a file; `None` if it does not exist. Removes the permissions of other users.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    let text = || {
        let mut file = File::open(path)?;
        k3_files::protect_file(path, &file)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok::<_, io::Error>(text)
    };
    match text() {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError {
            verb: "read",
            path: path.to_path_buf(),
            source,
        }),
    }
}

/// Creates a directory and its parents if missing.
pub(crate) fn create_directory(path: &Path) -> Result<(), FileError> {
    k3_files::create_directory(path).map_err(|source| create_error(path, source))
}

/// Creates a directory, or removes the permissions of other users from one that contains only files that `is_own` accepts.
pub(crate) fn protect_directory(path: &Path, is_own: Contents) -> Result<(), FileError> {
    k3_files::protect_directory(path, is_own).map_err(|source| create_error(path, source))
}

fn create_error(path: &Path, source: io::Error) -> FileError {
    FileError {
        verb: "create the directory",
        path: path.to_path_buf(),
        source,
    }
}

/// Locks a file, waiting for other processes; dropping the handle unlocks it.
pub(crate) fn lock(path: &Path) -> Result<File, FileError> {
    let locked = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = k3_files::open(path, &mut options)?;
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn restricts_the_mode_of_replaced_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("new"));
        assert_eq!(mode(&path), 0o600);
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn reads_a_missing_file_as_none_and_names_unwritable_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nowhere/key");
        assert!(read(&path).unwrap().is_none());
        let message = write(&path, "x").unwrap_err().to_string();
        assert!(message.contains("nowhere/key"), "{message}");
    }

    #[test]
    fn narrows_the_mode_of_a_key_file_that_it_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.key");
        fs::write(&path, "key").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("key"));
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn creates_private_directories() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        create_directory(&path).unwrap();
        create_directory(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }
}
