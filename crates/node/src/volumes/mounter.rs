//! Sets up volumes on disk. All functions block on file I/O.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use k8s_openapi::jiff::Timestamp;

use super::{
    atomic_writer,
    host_path::{self, HostPathType},
    mount_plan::{FileMedium, MountPlan},
    mount_table,
    ownership::{FsGroup, GroupAccess},
    safe_open::{self, MissingDirectories},
};

/// Mode of directories above volumes. Only the node enters them.
const PRIVATE_MODE: u32 = 0o750;

/// A volume that containers can mount.
// upstream: pkg/kubelet/container/runtime.go VolumeInfo
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountedVolume {
    pub(super) location: VolumeLocation,
    /// Mounted read-only, even if the container does not ask for it.
    pub(super) read_only: bool,
    /// Whether the path is a host directory that is created when a container mounts it.
    pub(super) create_when_mounted: bool,
    /// Whether the volume is deleted with its pod, and counts as ephemeral storage of the pod.
    pub(super) is_ephemeral: bool,
}

/// Where the content of a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumeLocation {
    /// A path on the host.
    Host(PathBuf),
    /// An image reference.
    Image(String),
}

/// Sets up volumes of one pod.
pub(super) struct VolumeMounter<'a> {
    /// Names timestamped directories of atomic writes.
    pub(super) now: Timestamp,
    pub(super) fs_group: Option<FsGroup>,
    /// Whether the warning that secrets are on disk was logged.
    pub(super) warned_secrets_on_disk: &'a AtomicBool,
}

// --- VolumeMounter ---

impl VolumeMounter<'_> {
    /// Sets up or updates a volume. Idempotent. The error is the reason of the event message.
    // upstream: pkg/volume/emptydir/empty_dir.go SetUpAt
    // upstream: pkg/volume/configmap/configmap.go SetUpAt
    // upstream: pkg/volume/local/local.go SetUpAt
    pub(super) fn set_up(&self, plan: &MountPlan) -> Result<MountedVolume, String> {
        let mounted = |path: &Path, read_only: bool, is_ephemeral: bool| MountedVolume {
            location: VolumeLocation::Host(path.to_owned()),
            read_only,
            create_when_mounted: false,
            is_ephemeral,
        };
        match plan {
            MountPlan::EmptyDir {
                path,
                ready_file,
                mode,
            } => {
                self.set_up_empty_dir(path, ready_file, *mode)
                    .map_err(|error| path_error(path, &error))?;
                Ok(mounted(path, false, true))
            }
            MountPlan::MemoryEmptyDir {
                path,
                ready_file,
                mode,
                size,
            } => {
                self.set_up_tmpfs(path, ready_file, *mode, *size)
                    .map_err(|error| path_error(path, &error))?;
                Ok(mounted(path, false, true))
            }
            MountPlan::Files {
                path,
                payload,
                medium,
                nested_mount_points,
            } => {
                let written = self.prepare_file_directory(path, *medium).and_then(|()| {
                    for mount_point in nested_mount_points {
                        create_nested_mount_point(&path.join(mount_point))?;
                    }
                    // The files are new, so fsGroupChangePolicy OnRootMismatch must not skip them.
                    let set_ownership = || {
                        self.fs_group.map_or(Ok(()), |group| {
                            group.with_policy_always().apply(path, GroupAccess::ReadOnly)
                        })
                    };
                    atomic_writer::write(path, payload, self.now, set_ownership)
                });
                written.map_err(|error| path_error(path, &error))?;
                Ok(mounted(path, true, true))
            }
            MountPlan::HostPath {
                path,
                path_type,
                read_only,
            } => {
                host_path::check_type(path, *path_type)?;
                let create_when_mounted = *path_type == HostPathType::Unset;
                Ok(MountedVolume {
                    create_when_mounted,
                    ..mounted(path, *read_only, false)
                })
            }
            MountPlan::Local {
                source,
                path,
                read_only,
            } => {
                self.bind_mount_local(source, path, *read_only)
                    .map_err(|error| path_error(source, &error))?;
                Ok(mounted(path, *read_only, false))
            }
            MountPlan::Image { reference } => Ok(MountedVolume {
                location: VolumeLocation::Image(reference.clone()),
                read_only: true,
                create_when_mounted: false,
                is_ephemeral: false,
            }),
        }
    }

    // upstream: pkg/volume/emptydir/empty_dir.go setupDir
    fn set_up_empty_dir(&self, path: &Path, ready_file: &Path, mode: u32) -> io::Result<()> {
        // Set mode and group only once: containers own the directory and may have changed them.
        if ready_file.exists() && path.is_dir() {
            return Ok(());
        }
        create_with_mode(path, mode)?;
        if let Some(group) = self.fs_group {
            group.with_policy_always().apply(path, GroupAccess::ReadWrite)?;
        }
        set_ready(ready_file)
    }

    // upstream: pkg/volume/emptydir/empty_dir.go setupTmpfs
    fn set_up_tmpfs(&self, path: &Path, ready_file: &Path, mode: u32, size: Option<u64>) -> io::Result<()> {
        let is_mounted = mount_table::mount_at(path)?.is_some_and(|mount| mount.fs_type == "tmpfs");
        if ready_file.exists() && is_mounted {
            return Ok(());
        }
        create_with_mode(path, mode)?;
        if !is_mounted {
            // The ready file alone proves nothing: it survives a reboot, the tmpfs does not.
            mount_table::mount_tmpfs(path, size)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        if let Some(group) = self.fs_group {
            group.with_policy_always().apply(path, GroupAccess::ReadWrite)?;
        }
        set_ready(ready_file)
    }

    /// Creates the directory for files of API objects; secret files get a tmpfs, if the node may mount one.
    fn prepare_file_directory(&self, path: &Path, medium: FileMedium) -> io::Result<()> {
        // Never mount over existing files: running containers see the directory below.
        if path.join("..data").symlink_metadata().is_ok() {
            return Ok(());
        }
        create_with_mode(path, 0o777)?;
        let FileMedium::Memory(size) = medium else {
            return Ok(());
        };
        if mount_table::mount_at(path)?.is_some() {
            return Ok(());
        }
        match mount_table::mount_tmpfs(path, size) {
            Err(error) if mount_table::is_permission_denied(&error) => {
                if !self.warned_secrets_on_disk.swap(true, Ordering::Relaxed) {
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

    fn bind_mount_local(&self, source: &Path, path: &Path, read_only: bool) -> io::Result<()> {
        if mount_table::mount_at(path)?.is_some() {
            return Ok(());
        }
        create_private_directory(path)?;
        let source_fd = safe_open::open(source, Path::new(""), MissingDirectories::Fail)?;
        // Count before mounting: the new mount would be counted too.
        let other_mounts = mount_table::count_mount_refs(source)?;
        mount_table::bind_mount(std::os::fd::AsFd::as_fd(&source_fd), path)?;
        if read_only {
            return mount_table::remount_read_only(path);
        }
        match self.fs_group {
            // Only the first pod sets the group: another group would take the volume away from the pods that use it.
            Some(group) if other_mounts == 0 => group.apply(path, GroupAccess::ReadWrite),
            _ => Ok(()),
        }
    }
}

/// Creates a directory with this mode, independent of the umask, and private directories above it.
fn create_with_mode(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        create_private_directory(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => result?,
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Creates a directory that another volume is mounted on. An existing file works as a mount point too.
// upstream: pkg/volume/util/nested_volumes.go MakeNestedMountpoints
fn create_nested_mount_point(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().recursive(true).mode(0o755).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Creates a directory, and those above it, that only the node can read.
pub(super) fn create_private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_MODE)
        .create(path)
}

// upstream: pkg/volume/util/util.go SetReady
fn set_ready(ready_file: &Path) -> io::Result<()> {
    if let Some(parent) = ready_file.parent() {
        create_private_directory(parent)?;
    }
    fs::write(ready_file, "")
}

fn path_error(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::{
        super::payload::{FileProjection, VolumePayload},
        *,
    };

    #[test]
    fn stores_secrets_in_root_only_directories_without_mount_capability() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("kubernetes.io~secret/keys");
        let mut payload = VolumePayload::default();
        payload
            .insert("key", FileProjection::new(b"secret".to_vec(), 0o400))
            .unwrap();
        let medium = FileMedium::Memory(None);
        let plan = MountPlan::Files {
            path: path.clone(),
            payload,
            medium,
            nested_mount_points: Vec::new(),
        };
        let warned_secrets_on_disk = AtomicBool::new(false);
        let set_up_unprivileged = || {
            // Capabilities are per thread: the other tests keep theirs.
            let mut thread_capabilities = capabilities(None).unwrap();
            thread_capabilities.effective.remove(CapabilitySet::SYS_ADMIN);
            set_capabilities(None, thread_capabilities).unwrap();
            let mounter = VolumeMounter {
                now: Timestamp::UNIX_EPOCH,
                fs_group: None,
                warned_secrets_on_disk: &warned_secrets_on_disk,
            };
            mounter.set_up(&plan).unwrap();
            mounter.set_up(&plan).unwrap();
            let ready_file = path.with_file_name("ready");
            let memory = MountPlan::MemoryEmptyDir {
                path: path.with_file_name("ram"),
                ready_file,
                mode: 0o777,
                size: None,
            };
            assert!(
                mounter.set_up(&memory).is_err(),
                "medium Memory must not fall back to disk"
            );
        };
        std::thread::scope(|scope| scope.spawn(set_up_unprivileged).join()).unwrap();
        assert!(warned_secrets_on_disk.load(Ordering::Relaxed));
        assert_eq!(fs::read_to_string(path.join("key")).unwrap(), "secret");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o777, 0o700));
        assert!(mount_table::mount_at(&path).unwrap().is_none());
        // With the capability again, the files stay where running containers see them.
        let mounter = VolumeMounter {
            now: Timestamp::UNIX_EPOCH,
            fs_group: None,
            warned_secrets_on_disk: &warned_secrets_on_disk,
        };
        mounter.set_up(&plan).unwrap();
        assert!(mount_table::mount_at(&path).unwrap().is_none());
    }
}
