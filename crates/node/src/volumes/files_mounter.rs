//! Sets up volumes that contain files of API objects: `configMap`, `secret`, `projected` and `downwardAPI`.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use super::{
    atomic_writer,
    create_directory::create_volume_directory,
    memory_size::calculate_memory_size,
    mount_table, nested_mounts,
    ownership::GroupAccess,
    payload::VolumePayload,
    plugin::{MountedVolume, Mounter, MounterArgs, MounterError, PathError, VolumeContext},
};

/// A volume of files that are replaced atomically.
pub(super) struct FilesMounter {
    path: PathBuf,
    payload: VolumePayload,
    medium: FileMedium,
    /// Directories or files in this volume that other volumes are mounted on.
    nested_mount_points: Vec<String>,
}

/// Where files of API objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileMedium {
    Disk,
    /// A tmpfs, because the files are secret. With a size limit in bytes, if any.
    Memory(Option<u64>),
}

// --- FileMedium ---

impl FileMedium {
    /// The medium of secret files. The tmpfs counts as memory of the pod, so it gets the limit of a memory emptyDir.
    pub(super) fn memory(context: &VolumeContext<'_>) -> Self {
        FileMedium::Memory(calculate_memory_size(context.pod, context.facts, None))
    }
}

// --- FilesMounter ---

impl FilesMounter {
    /// A volume of the plugin with these files.
    pub(super) fn new(
        context: &VolumeContext<'_>,
        plugin_name: &str,
        volume: &str,
        payload: VolumePayload,
        medium: FileMedium,
    ) -> Self {
        FilesMounter {
            path: context.volume_path(plugin_name, volume),
            payload,
            medium,
            nested_mount_points: nested_mounts::nested_mount_points(context.pod, volume),
        }
    }

    fn write(&self, args: &MounterArgs<'_>) -> io::Result<()> {
        let path = &self.path;
        self.prepare_directory(args)?;
        for mount_point in &self.nested_mount_points {
            create_nested_mount_point(&path.join(mount_point))?;
        }
        // The files are new, so fsGroupChangePolicy OnRootMismatch must not skip them.
        let set_ownership = || {
            args.fs_group.map_or(Ok(()), |group| {
                group.with_policy_always().apply(path, GroupAccess::ReadOnly)
            })
        };
        atomic_writer::write(path, &self.payload, args.now, set_ownership).map(drop)
    }

    /// Creates the directory; secret files get a tmpfs, if the node may mount one.
    fn prepare_directory(&self, args: &MounterArgs<'_>) -> io::Result<()> {
        let path = &self.path;
        // Never mount over existing files: running containers see the directory below.
        if path.join("..data").symlink_metadata().is_ok() {
            return Ok(());
        }
        create_volume_directory(path, 0o777)?;
        let FileMedium::Memory(size) = self.medium else {
            return Ok(());
        };
        if mount_table::mount_at(path)?.is_some() {
            return Ok(());
        }
        match mount_table::mount_tmpfs(path, size) {
            Err(error) if mount_table::is_permission_denied(&error) => {
                if !args.warned_secrets_on_disk.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "cannot mount tmpfs: secrets and tokens of pods are stored on disk, in directories that only root can read");
                }
                // The volume must be readable for any user of the container, so the parent directory protects it instead.
                let parent = path.parent().unwrap_or(path);
                fs::set_permissions(parent, fs::Permissions::from_mode(0o700))
            }
            result => {
                result?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o777))
            }
        }
    }
}

impl Mounter for FilesMounter {
    // upstream: pkg/volume/configmap/configmap.go SetUpAt
    fn set_up(&self, args: &MounterArgs<'_>) -> Result<MountedVolume, MounterError> {
        self.write(args)
            .map_err(|error| PathError::new(&self.path, error))?;
        Ok(MountedVolume {
            read_only: true,
            is_ephemeral: true,
            ..MountedVolume::at(&self.path)
        })
    }
}

/// Creates a directory that another volume is mounted on. An existing file works as a mount point too.
// upstream: pkg/volume/util/nested_volumes.go MakeNestedMountpoints
fn create_nested_mount_point(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().recursive(true).mode(0o755).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use k8s_openapi::jiff::Timestamp;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::{super::payload::FileProjection, *};

    #[test]
    fn stores_secrets_in_root_only_directories_without_mount_capability() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("kubernetes.io~secret/keys");
        let mut payload = VolumePayload::default();
        payload
            .insert("key", FileProjection::new(b"secret".to_vec(), 0o400))
            .unwrap();
        let mounter = FilesMounter {
            path: path.clone(),
            payload,
            medium: FileMedium::Memory(None),
            nested_mount_points: Vec::new(),
        };
        let warned_secrets_on_disk = AtomicBool::new(false);
        let args = MounterArgs {
            now: Timestamp::UNIX_EPOCH,
            fs_group: None,
            warned_secrets_on_disk: &warned_secrets_on_disk,
        };
        let set_up_unprivileged = || {
            // Capabilities are per thread: the other tests keep theirs.
            let mut thread_capabilities = capabilities(None).unwrap();
            thread_capabilities.effective.remove(CapabilitySet::SYS_ADMIN);
            set_capabilities(None, thread_capabilities).unwrap();
            mounter.set_up(&args).unwrap();
            mounter.set_up(&args).unwrap();
        };
        std::thread::scope(|scope| {
            let mounter = &set_up_unprivileged;
            scope.spawn(mounter).join()
        })
        .unwrap();
        assert!(warned_secrets_on_disk.load(Ordering::Relaxed));
        assert_eq!(fs::read_to_string(path.join("key")).unwrap(), "secret");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o777, 0o700));
        assert!(mount_table::mount_at(&path).unwrap().is_none());
        // With the capability again, the files stay where running containers see them.
        mounter.set_up(&args).unwrap();
        assert!(mount_table::mount_at(&path).unwrap().is_none());
    }
}
