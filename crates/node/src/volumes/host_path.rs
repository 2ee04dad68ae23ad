//! `hostPath` volumes: checks the type of the path, and creates it if the type asks for it.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use super::pod_directories::has_parent_component;

/// What the path must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostPathType {
    /// Not checked.
    Unset,
    Directory,
    File,
    Socket,
    CharDevice,
    BlockDevice,
    DirectoryOrCreate,
    FileOrCreate,
    /// A directory of the StorageClass `local-path`: created with mode 0777. Not a type of the API.
    WorldWritableDirectoryOrCreate,
}

// --- HostPathType ---

impl HostPathType {
    /// Parses `hostPath.type`.
    pub(super) fn parse(text: Option<&str>) -> Result<Self, String> {
        Ok(match text.unwrap_or_default() {
            "" => HostPathType::Unset,
            "Directory" => HostPathType::Directory,
            "File" => HostPathType::File,
            "Socket" => HostPathType::Socket,
            "CharDevice" => HostPathType::CharDevice,
            "BlockDevice" => HostPathType::BlockDevice,
            "DirectoryOrCreate" => HostPathType::DirectoryOrCreate,
            "FileOrCreate" => HostPathType::FileOrCreate,
            other => return Err(format!("{other} is an invalid volume type")),
        })
    }

    /// Expected type in upstream's error messages.
    fn description(self) -> &'static str {
        match self {
            HostPathType::Unset => "file or directory",
            HostPathType::Directory
            | HostPathType::DirectoryOrCreate
            | HostPathType::WorldWritableDirectoryOrCreate => "directory",
            HostPathType::File | HostPathType::FileOrCreate => "file",
            HostPathType::Socket => "socket file",
            HostPathType::CharDevice => "character device",
            HostPathType::BlockDevice => "block device",
        }
    }

    fn matches(self, file_type: fs::FileType) -> bool {
        match self {
            HostPathType::Unset => true,
            HostPathType::Directory
            | HostPathType::DirectoryOrCreate
            | HostPathType::WorldWritableDirectoryOrCreate => file_type.is_dir(),
            HostPathType::File | HostPathType::FileOrCreate => file_type.is_file(),
            HostPathType::Socket => file_type.is_socket(),
            HostPathType::CharDevice => file_type.is_char_device(),
            HostPathType::BlockDevice => file_type.is_block_device(),
        }
    }
}

/// Checks the type of a path, and creates the path if the type ends in `OrCreate`.
// upstream: pkg/volume/hostpath/host_path.go checkType, checkTypeInternal
pub(super) fn check_type(path: &Path, path_type: HostPathType) -> Result<(), String> {
    if path.to_str().is_none_or(has_parent_component) {
        return Err(format!(
            "invalid HostPath `{}`: must not contain '..'",
            path.display()
        ));
    }
    if path_type == HostPathType::Unset {
        return Ok(());
    }
    let file_type = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let created = match path_type {
                HostPathType::DirectoryOrCreate => create_directory(path, 0o755),
                HostPathType::WorldWritableDirectoryOrCreate => create_directory(path, 0o777),
                HostPathType::FileOrCreate => create_file(path),
                _ => {
                    let reason = format!("path \"{}\" does not exist", path.display());
                    return Err(undetermined_type_error(path, path_type, &reason));
                }
            };
            return created.map_err(|error| format!("mkdir {}: {error}", path.display()));
        }
        Err(error) => {
            return Err(undetermined_type_error(path, path_type, &error.to_string()));
        }
    };
    if path_type.matches(file_type) {
        return Ok(());
    }
    Err(format!(
        "hostPath type check failed: {} is not a {}, it's a {}",
        path.display(),
        path_type.description(),
        file_type_name(file_type)
    ))
}

fn undetermined_type_error(path: &Path, path_type: HostPathType, reason: &str) -> String {
    let path = path.display();
    let expected = path_type.description();
    format!("hostPath type check failed, {path} is not a {expected}, unable to determine its type: {reason}")
}

/// The `hostPath.type` of an existing path.
// upstream: pkg/volume/hostpath/host_path.go GetType
fn file_type_name(file_type: fs::FileType) -> &'static str {
    if file_type.is_dir() {
        "Directory"
    } else if file_type.is_file() {
        "File"
    } else if file_type.is_socket() {
        "Socket"
    } else if file_type.is_char_device() {
        "CharDevice"
    } else if file_type.is_block_device() {
        "BlockDevice"
    } else {
        "pipe"
    }
}

/// Creates a directory and those above it. The directory itself gets its mode independent of the umask.
pub(super) fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    if mode != 0o755 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn create_file(path: &Path) -> io::Result<()> {
    let created = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path);
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn checks_types_with_messages_of_upstream() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("file"), "").unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink(at("dir"), at("link")).unwrap();
        for (path, kind) in [
            (at("dir"), "Directory"),
            (at("link"), "Directory"),
            (at("dir"), "DirectoryOrCreate"),
            (at("file"), "File"),
            (at("file"), "FileOrCreate"),
            (at("socket"), "Socket"),
            ("/dev/null".into(), "CharDevice"),
            (at("missing"), ""),
        ] {
            assert_eq!(
                check_type(&path, HostPathType::parse(Some(kind)).unwrap()),
                Ok(()),
                "{} {kind}",
                path.display()
            );
        }
        let error =
            |path: &Path, kind: &str| check_type(path, HostPathType::parse(Some(kind)).unwrap()).unwrap_err();
        let path = at("dir");
        let expected = format!(
            "hostPath type check failed: {} is not a file, it's a Directory",
            path.display()
        );
        assert_eq!(error(&path, "File"), expected);
        let path = at("missing");
        let expected = format!(
            "hostPath type check failed, {0} is not a directory, unable to determine its type: path \"{0}\" does not exist",
            path.display()
        );
        assert_eq!(error(&path, "Directory"), expected);
        let expected = "hostPath type check failed: /dev/null is not a block device, it's a CharDevice";
        assert_eq!(error(Path::new("/dev/null"), "BlockDevice"), expected);
        assert_eq!(
            error(Path::new("/a/../b"), ""),
            "invalid HostPath `/a/../b`: must not contain '..'"
        );
        assert_eq!(
            HostPathType::parse(Some("Disk")).unwrap_err(),
            "Disk is an invalid volume type"
        );
    }

    #[test]
    fn creates_paths_of_types_that_end_in_or_create() {
        let temp = tempfile::tempdir().unwrap();
        let created = temp.path().join("a/b");
        check_type(&created, HostPathType::DirectoryOrCreate).unwrap();
        assert_eq!(
            fs::metadata(&created).unwrap().permissions().mode() & 0o7777,
            0o755
        );
        let file = created.join("file");
        check_type(&file, HostPathType::FileOrCreate).unwrap();
        assert!(file.is_file());
        let world_writable = created.join("world_writable");
        check_type(&world_writable, HostPathType::WorldWritableDirectoryOrCreate).unwrap();
        assert_eq!(
            fs::metadata(&world_writable).unwrap().permissions().mode() & 0o7777,
            0o777
        );
    }
}
