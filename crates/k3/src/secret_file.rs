//! Files that only their owner may read.
//!
//! Promises: a file is there whole or not at all, also after a power loss if it is to last; at no moment can anybody else read
//! it; of two processes that write the same file one wins, and it is whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use k3_files::Contents;

use crate::random;

/// A file that could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {}", .path.display())]
pub(crate) struct FileError {
    verb: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// A file that is being written. It gets its name when it is kept; dropped before that, it is gone.
pub(crate) struct Fresh {
    file: File,
    /// What it is called until then.
    path: PathBuf,
    wanted: PathBuf,
}

/// Writes the file and makes it durable.
pub(crate) fn write(path: &Path, content: &str) -> Result<(), FileError> {
    write_fresh(path, content)?.keep()
}

/// Writes the file and does not wait for the disk: for files that nobody needs after a power loss.
pub(crate) fn write_for_now(path: &Path, content: &str) -> Result<(), FileError> {
    write_fresh(path, content)?.keep_for_now()
}

fn write_fresh(path: &Path, content: &str) -> Result<Fresh, FileError> {
    let mut fresh = Fresh::begin(path)?;
    fresh
        .file
        .write_all(content.as_bytes())
        .map_err(|source| unwritten(path, source))?;
    Ok(fresh)
}

fn unwritten(path: &Path, source: io::Error) -> FileError {
    FileError {
        verb: "write",
        path: path.to_path_buf(),
        source,
    }
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> io::Result<&Path> {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Ok(Path::new(".")),
        Some(folder) => Ok(folder),
        None => Err(io::ErrorKind::IsADirectory.into()),
    }
}

// --- Fresh ---

impl Fresh {
    /// Begins a file that will be called `wanted`.
    pub(crate) fn begin(wanted: &Path) -> Result<Self, FileError> {
        let begun = || {
            let name = wanted.file_name().unwrap_or_default().to_string_lossy();
            // A name that nobody can guess, and a file that was not there: another user may have put links into the directory.
            let unique = random::digits::<8>().map_err(|failure| io::Error::other(failure.to_string()))?;
            let path = folder_of(wanted)?.join(format!(".{name}.{unique}.new"));
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true);
            let file = k3_files::open(&path, &mut options)?;
            Ok(Self {
                file,
                path,
                wanted: wanted.to_path_buf(),
            })
        };
        begun().map_err(|source| unwritten(wanted, source))
    }

    /// Where it is now.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Another handle to write to it.
    pub(crate) fn handle(&self) -> Result<File, FileError> {
        self.file
            .try_clone()
            .map_err(|source| unwritten(&self.wanted, source))
    }

    /// Makes what was written durable, and gives it its name.
    pub(crate) fn keep(self) -> Result<(), FileError> {
        self.keep_and(File::sync_all)
    }

    /// Gives it its name, and does not wait for the disk.
    fn keep_for_now(self) -> Result<(), FileError> {
        self.keep_and(|_| Ok(()))
    }

    fn keep_and(self, sync: impl Fn(&File) -> io::Result<()>) -> Result<(), FileError> {
        let kept = || {
            sync(&self.file)?;
            fs::rename(&self.path, &self.wanted)?;
            sync(&File::open(folder_of(&self.wanted)?)?)
        };
        kept().map_err(|source| unwritten(&self.wanted, source))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // After it was kept there is nothing of that name. Else best effort: what is left is a hidden file that the next
        // attempt of this process overwrites.
        let _ = fs::remove_file(&self.path);
    }
}

/// The file's text; `None` if there is no such file. A file that others could read until now cannot be read by them any more.
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

/// Makes a folder, and those above it, if they are not there.
pub(crate) fn make_folder(path: &Path) -> Result<(), FileError> {
    k3_files::create_directory(path).map_err(|source| unmade(path, source))
}

/// Makes a folder for the files that `is_own` is true for, or takes the rights of others away from one that is there.
pub(crate) fn protect_folder(path: &Path, is_own: Contents) -> Result<(), FileError> {
    k3_files::protect_directory(path, is_own).map_err(|source| unmade(path, source))
}

fn unmade(path: &Path, source: io::Error) -> FileError {
    FileError {
        verb: "make the folder",
        path: path.to_path_buf(),
        source,
    }
}

/// Waits until no other process has the lock file, and has it until it is dropped.
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
    fn narrows_the_mode_of_a_key_file_that_it_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.key");
        fs::write(&path, "key").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("key"));
        assert_eq!(mode(&path), 0o600);
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
