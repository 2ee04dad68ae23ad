//! Directories of mode 0700.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::Path,
};

/// All that the owner may do, and nothing for others.
const PRIVATE: u32 = 0o700;
/// What others than the owner may do.
const OTHERS: u32 = 0o077;
/// Every user may create, rename and delete entries.
const WORLD_WRITABLE: u32 = 0o002;
/// Of a directory that others may write to: users delete only their own entries.
const STICKY: u32 = 0o1000;

/// How to recognize that a directory which exists already was created for k3.
pub type Contents = fn(name: &OsStr) -> bool;

/// Creates a directory, and those above it that are missing, with mode 0700. A directory that exists stays as it is.
pub fn create_directory(path: &Path) -> io::Result<()> {
    match create_one(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                create_directory(parent)?;
                create_one(path)
            }
            _ => Err(error),
        },
        created => created,
    }
}

fn create_one(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PRIVATE).create(path) {
        // The umask may have taken away rights of the owner.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(PRIVATE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a directory of mode 0700, or narrows one that exists to that.
///
/// A directory that exists counts as k3's when this user owns it and `is_own` is true for the names of all its entries; an empty
/// one does too. Every other directory keeps its mode (it may be `/tmp` or `/etc`): the files in it are protected one by one, and
/// a directory in which every user can replace them is refused.
pub fn protect_directory(path: &Path, is_own: Contents) -> io::Result<()> {
    create_directory(path)?;
    let metadata = fs::metadata(path)?;
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let is_owner = metadata.uid() == rustix::process::geteuid().as_raw();
    if is_owner && holds_only(path, is_own)? {
        fs::set_permissions(path, fs::Permissions::from_mode(PRIVATE))?;
        tracing::warn!(
            directory = %path.display(),
            mode = format!("{mode:04o}"),
            "changed the mode of a directory to 0700: other users had access to it"
        );
        return Ok(());
    }
    if mode & WORLD_WRITABLE != 0 && mode & STICKY == 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "every user can replace files in {} (mode {mode:04o}); remove that permission with `chmod o-w`, or choose \
                 another directory",
                path.display()
            ),
        ));
    }
    tracing::info!(
        directory = %path.display(),
        mode = format!("{mode:04o}"),
        "the directory was not created by k3 and keeps its mode; the files of k3 in it have mode 0600"
    );
    Ok(())
}

fn holds_only(path: &Path, is_own: Contents) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        if !is_own(&entry?.file_name()) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn directory_of_mode(mode: u32) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
        directory
    }

    fn is_own(name: &OsStr) -> bool {
        name == "own"
    }

    #[test]
    fn creates_every_missing_directory_with_mode_0700() {
        let root = directory_of_mode(0o755);
        let path = root.path().join("a/b/c");
        protect_directory(&path, is_own).unwrap();
        protect_directory(&path, is_own).unwrap();
        for created in ["a", "a/b", "a/b/c"] {
            assert_eq!(mode(&root.path().join(created)), 0o700);
        }
        assert_eq!(mode(root.path()), 0o755);
    }

    #[test]
    fn narrows_a_directory_that_holds_nothing_but_own_files() {
        let directory = directory_of_mode(0o755);
        fs::write(directory.path().join("own"), "").unwrap();
        protect_directory(directory.path(), is_own).unwrap();
        assert_eq!(mode(directory.path()), 0o700);
    }

    #[test]
    fn never_changes_the_mode_of_a_directory_with_other_files() {
        for wide in [0o755, 0o775, 0o1777] {
            let directory = directory_of_mode(wide);
            fs::write(directory.path().join("own"), "").unwrap();
            fs::write(directory.path().join("passwd"), "").unwrap();
            protect_directory(directory.path(), is_own).unwrap();
            assert_eq!(mode(directory.path()), wide);
        }
    }

    #[test]
    fn refuses_a_directory_in_which_every_user_can_replace_files() {
        let directory = directory_of_mode(0o777);
        fs::write(directory.path().join("other"), "").unwrap();
        let error = protect_directory(directory.path(), is_own).unwrap_err();
        assert!(error.to_string().contains("chmod o-w"), "{error}");
        assert_eq!(mode(directory.path()), 0o777);
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        let directory = directory_of_mode(0o700);
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        assert!(create_directory(&path).is_err());
        assert!(create_directory(&path.join("below")).is_err());
        // No directory can be created there; the system returns "not found".
        assert!(create_directory(Path::new("/proc/none/a")).is_err());
    }
}
