//! `hostPath` volumes: checks the type of the path, and creates it if the type asks for it.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::HostPathVolumeSource;

use crate::volumes::{
    create_directory::create_host_directory,
    plugin::{MountedVolume, Mounter, MounterArgs, MounterError, VolumeContext, VolumePlugin},
    pod_directories::has_parent_component,
    spec::VolumeSpec,
};

/// Annotation with the provisioner of a PersistentVolume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Provisioner of the StorageClass `local-path`. The node creates the directories of its volumes.
const LOCAL_PATH_PROVISIONER: &str = "k3.io/local-path";

pub(super) struct HostPathPlugin;

struct HostPathMounter {
    path: PathBuf,
    path_type: HostPathType,
    read_only: bool,
}

/// What the path must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostPathType {
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

/// Why a path is not what the volume asks for.
#[derive(Debug, thiserror::Error)]
enum HostPathError {
    #[error("{0} is an invalid volume type")]
    UnknownType(String),
    #[error("invalid HostPath `{}`: must not contain '..'", .0.display())]
    ParentComponent(PathBuf),
    #[error("mkdir {}: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error(
        "hostPath type check failed, {path} is not a {}, unable to determine its type: path \"{path}\" does not exist",
        expected.description(),
        path = path.display()
    )]
    NotFound { path: PathBuf, expected: HostPathType },
    #[error(
        "hostPath type check failed, {} is not a {}, unable to determine its type: {source}",
        path.display(),
        expected.description()
    )]
    Metadata {
        path: PathBuf,
        expected: HostPathType,
        source: io::Error,
    },
    #[error(
        "hostPath type check failed: {} is not a {}, it's a {actual}",
        path.display(),
        expected.description()
    )]
    OtherType {
        path: PathBuf,
        expected: HostPathType,
        actual: &'static str,
    },
}

// --- HostPathPlugin ---

#[async_trait]
impl VolumePlugin for HostPathPlugin {
    fn plugin_name(&self) -> &'static str {
        "kubernetes.io/host-path"
    }

    fn can_support(&self, spec: &VolumeSpec<'_>) -> bool {
        source(spec).is_some()
    }

    async fn new_mounter(
        &self,
        spec: &VolumeSpec<'_>,
        _context: &VolumeContext<'_>,
    ) -> Result<Box<dyn Mounter>, MounterError> {
        let source = source(spec).cloned().unwrap_or_default();
        let path_type = match HostPathType::parse(source.type_.as_deref())? {
            // The provisioner creates no directories, so the node does: for containers that run as any user.
            HostPathType::DirectoryOrCreate if is_local_path(spec) => {
                HostPathType::WorldWritableDirectoryOrCreate
            }
            path_type => path_type,
        };
        Ok(Box::new(HostPathMounter {
            path: PathBuf::from(source.path),
            path_type,
            read_only: spec.read_only,
        }))
    }
}

// upstream: pkg/volume/hostpath/host_path.go getVolumeSource
fn source<'a>(spec: &'a VolumeSpec<'_>) -> Option<&'a HostPathVolumeSource> {
    match spec.volume() {
        Some(volume) => volume.host_path.as_ref(),
        None => spec.persistent_volume_spec()?.host_path.as_ref(),
    }
}

fn is_local_path(spec: &VolumeSpec<'_>) -> bool {
    let provisioner = spec
        .persistent_volume()
        .and_then(|volume| volume.metadata.annotations.as_ref()?.get(PROVISIONED_BY));
    provisioner.is_some_and(|provisioner| provisioner == LOCAL_PATH_PROVISIONER)
}

// --- HostPathMounter ---

impl Mounter for HostPathMounter {
    // upstream: pkg/volume/hostpath/host_path.go SetUp
    fn set_up(&self, _args: &MounterArgs<'_>) -> Result<MountedVolume, MounterError> {
        check_type(&self.path, self.path_type)?;
        Ok(MountedVolume {
            read_only: self.read_only,
            create_when_mounted: self.path_type == HostPathType::Unset,
            ..MountedVolume::at(&self.path)
        })
    }
}

// --- HostPathType ---

impl HostPathType {
    /// Parses `hostPath.type`.
    fn parse(text: Option<&str>) -> Result<Self, HostPathError> {
        Ok(match text.unwrap_or_default() {
            "" => HostPathType::Unset,
            "Directory" => HostPathType::Directory,
            "File" => HostPathType::File,
            "Socket" => HostPathType::Socket,
            "CharDevice" => HostPathType::CharDevice,
            "BlockDevice" => HostPathType::BlockDevice,
            "DirectoryOrCreate" => HostPathType::DirectoryOrCreate,
            "FileOrCreate" => HostPathType::FileOrCreate,
            other => return Err(HostPathError::UnknownType(other.to_owned())),
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
fn check_type(path: &Path, expected: HostPathType) -> Result<(), HostPathError> {
    if path.to_str().is_none_or(has_parent_component) {
        return Err(HostPathError::ParentComponent(path.to_owned()));
    }
    if expected == HostPathType::Unset {
        return Ok(());
    }
    let file_type = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let created = match expected {
                HostPathType::DirectoryOrCreate => create_host_directory(path, 0o755),
                HostPathType::WorldWritableDirectoryOrCreate => create_host_directory(path, 0o777),
                HostPathType::FileOrCreate => create_file(path),
                _ => {
                    let path = path.to_owned();
                    return Err(HostPathError::NotFound { path, expected });
                }
            };
            return created.map_err(|source| HostPathError::Create {
                path: path.to_owned(),
                source,
            });
        }
        Err(source) => {
            return Err(HostPathError::Metadata {
                path: path.to_owned(),
                expected,
                source,
            });
        }
    };
    if expected.matches(file_type) {
        return Ok(());
    }
    Err(HostPathError::OtherType {
        path: path.to_owned(),
        expected,
        actual: file_type_name(file_type),
    })
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
    use std::os::unix::{fs::PermissionsExt, net::UnixListener};

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
            let checked = check_type(&path, HostPathType::parse(Some(kind)).unwrap());
            assert!(checked.is_ok(), "{} {kind}: {checked:?}", path.display());
        }
        let error = |path: &Path, kind: &str| {
            let checked = check_type(path, HostPathType::parse(Some(kind)).unwrap());
            checked.unwrap_err().to_string()
        };
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
            HostPathType::parse(Some("Disk")).unwrap_err().to_string(),
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
