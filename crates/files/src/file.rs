//! Files of mode 0600.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// The owner reads and writes, others do nothing.
const PRIVATE: u32 = 0o600;
/// The owner reads, for files that the user has protected even more.
const READ_ONLY: u32 = 0o400;

/// Opens a file as the options say. A file that is created gets mode 0600, and one that exists is narrowed to it.
///
/// Pipes, terminals and devices keep their modes.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.mode(PRIVATE).open(path)?;
    protect_file(path, &file)?;
    Ok(file)
}

/// Narrows the mode of an open file to 0600. `path` is for messages.
pub fn protect_file(path: &Path, file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o7777;
    if metadata.is_file() && is_foreign(path, metadata.uid())? {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{} belongs to user {}, who could read what is written to it; remove it, or choose another directory",
                path.display(),
                metadata.uid()
            ),
        ));
    }
    if !metadata.is_file() || mode == PRIVATE || mode == READ_ONLY {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(PRIVATE))
        .map_err(|error| {
            let message = format!(
                "other users have access to {} (mode {mode:04o}, user {}), and its mode cannot be changed: {error}; \
                 run `chmod 600` on it as its owner",
                path.display(),
                metadata.uid()
            );
            io::Error::new(error.kind(), message)
        })?;
    if mode & 0o077 != 0 {
        tracing::warn!(
            file = %path.display(),
            mode = format!("{mode:04o}"),
            "changed the mode of a file to 0600: other users had access to it"
        );
    }
    Ok(())
}

/// Whether a file belongs neither to this user nor to the owner of the directory: any user can create files in `/tmp`.
fn is_foreign(path: &Path, owner: u32) -> io::Result<bool> {
    if owner == rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok(fs::metadata(directory)?.uid() != owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_file_that_is_created_and_a_wider_one_that_exists_have_mode_0600() {
        let directory = tempfile::tempdir().unwrap();
        for (name, before) in [
            ("new", None),
            ("wide", Some(0o644)),
            ("writable", Some(0o666)),
            ("closed", Some(0)),
        ] {
            let path = directory.path().join(name);
            if let Some(before) = before {
                fs::write(&path, "").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
            }
            if before == Some(0) && !rustix::process::geteuid().is_root() {
                continue;
            }
            open(&path, OpenOptions::new().append(true).create(true)).unwrap();
            assert_eq!(mode(&path), 0o600, "{name}");
        }
    }

    #[test]
    fn refuses_a_file_that_another_user_has_put_there() {
        if !rustix::process::geteuid().is_root() {
            // Only root can change the owner of files.
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        fs::write(&path, "").unwrap();
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let error = open(&path, OpenOptions::new().append(true)).unwrap_err();
        assert!(error.to_string().contains("12345"), "{error}");
        // The directory of a user is that user's own.
        std::os::unix::fs::chown(directory.path(), Some(12345), None).unwrap();
        open(&path, OpenOptions::new().append(true)).unwrap();
    }

    #[test]
    fn a_device_keeps_its_mode() {
        let before = mode(Path::new("/dev/null"));
        open(Path::new("/dev/null"), OpenOptions::new().append(true)).unwrap();
        assert_eq!(mode(Path::new("/dev/null")), before);
    }
}
