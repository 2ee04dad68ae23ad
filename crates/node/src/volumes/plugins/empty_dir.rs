//! `emptyDir` volumes.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use async_trait::async_trait;

use crate::volumes::{
    create_directory::{create_private_directory, create_volume_directory},
    memory_size::calculate_memory_size,
    mount_table,
    ownership::GroupAccess,
    plugin::{MountedVolume, Mounter, MounterArgs, MounterError, PathError, VolumeContext, VolumePlugin},
    spec::VolumeSpec,
};

/// Default mode. World-writable, because the containers of the pod may run as any user.
// upstream: pkg/volume/emptydir/empty_dir.go setupDir
const DEFAULT_MODE: u32 = 0o777;

pub(super) struct EmptyDirPlugin;

struct EmptyDirMounter {
    path: PathBuf,
    /// Created after the volume was set up: its content then belongs to the containers, and it is not set up again.
    // upstream: pkg/volume/emptydir/empty_dir.go getMetaDir
    ready_file: PathBuf,
    mode: u32,
    medium: EmptyDirMedium,
}

enum EmptyDirMedium {
    Disk,
    /// A tmpfs, with a size limit in bytes.
    Memory(Option<u64>),
}

/// Why a volume cannot be set up.
#[derive(Debug, thiserror::Error)]
enum EmptyDirError {
    #[error("medium {0}: this node does not support emptyDir volumes with huge pages")]
    HugePages(String),
    #[error("unknown storage medium {0:?}")]
    UnknownMedium(String),
}

// --- EmptyDirPlugin ---

#[async_trait]
impl VolumePlugin for EmptyDirPlugin {
    fn plugin_name(&self) -> &'static str {
        "kubernetes.io/empty-dir"
    }

    fn can_support(&self, spec: &VolumeSpec<'_>) -> bool {
        spec.volume().is_some_and(|volume| volume.empty_dir.is_some())
    }

    async fn new_mounter(
        &self,
        spec: &VolumeSpec<'_>,
        context: &VolumeContext<'_>,
    ) -> Result<Box<dyn Mounter>, MounterError> {
        let source = spec.volume().and_then(|volume| volume.empty_dir.clone());
        let source = source.unwrap_or_default();
        let medium = match source.medium.as_deref().unwrap_or_default() {
            "" => EmptyDirMedium::Disk,
            "Memory" => {
                let limit = source.size_limit.as_ref().and_then(|limit| limit.0.parse().ok());
                EmptyDirMedium::Memory(calculate_memory_size(context.pod, context.facts, limit.as_ref()))
            }
            huge if huge == "HugePages" || huge.starts_with("HugePages-") => {
                return Err(EmptyDirError::HugePages(huge.to_owned()).into());
            }
            other => return Err(EmptyDirError::UnknownMedium(other.to_owned()).into()),
        };
        let mode = source.mode.and_then(|mode| u32::try_from(mode).ok());
        Ok(Box::new(EmptyDirMounter {
            path: context.volume_path(self.plugin_name(), spec.name()),
            ready_file: context
                .directories
                .plugin_metadata(context.uid, self.plugin_name(), spec.name())
                .join("ready"),
            mode: mode.map_or(DEFAULT_MODE, |mode| mode & 0o7777),
            medium,
        }))
    }
}

// --- EmptyDirMounter ---

impl Mounter for EmptyDirMounter {
    // upstream: pkg/volume/emptydir/empty_dir.go SetUpAt
    fn set_up(&self, args: &MounterArgs<'_>) -> Result<MountedVolume, MounterError> {
        let set_up = match self.medium {
            EmptyDirMedium::Disk => self.set_up_directory(args),
            EmptyDirMedium::Memory(size) => self.set_up_tmpfs(args, size),
        };
        set_up.map_err(|error| PathError::new(&self.path, error))?;
        Ok(MountedVolume {
            is_ephemeral: true,
            ..MountedVolume::at(&self.path)
        })
    }
}

impl EmptyDirMounter {
    // upstream: pkg/volume/emptydir/empty_dir.go setupDir
    fn set_up_directory(&self, args: &MounterArgs<'_>) -> io::Result<()> {
        // Set mode and group only once: containers own the directory and may have changed them.
        if self.ready_file.exists() && self.path.is_dir() {
            return Ok(());
        }
        create_volume_directory(&self.path, self.mode)?;
        self.set_group_and_ready(args)
    }

    // upstream: pkg/volume/emptydir/empty_dir.go setupTmpfs
    fn set_up_tmpfs(&self, args: &MounterArgs<'_>, size: Option<u64>) -> io::Result<()> {
        let path = &self.path;
        let is_mounted = mount_table::mount_at(path)?.is_some_and(|mount| mount.fs_type == "tmpfs");
        if self.ready_file.exists() && is_mounted {
            return Ok(());
        }
        create_volume_directory(path, self.mode)?;
        if !is_mounted {
            // The ready file alone proves nothing: it survives a reboot, the tmpfs does not.
            mount_table::mount_tmpfs(path, size)?;
            fs::set_permissions(path, fs::Permissions::from_mode(self.mode))?;
        }
        self.set_group_and_ready(args)
    }

    fn set_group_and_ready(&self, args: &MounterArgs<'_>) -> io::Result<()> {
        if let Some(group) = args.fs_group {
            group
                .with_policy_always()
                .apply(&self.path, GroupAccess::ReadWrite)?;
        }
        set_ready(&self.ready_file)
    }
}

// upstream: pkg/volume/util/util.go SetReady
fn set_ready(ready_file: &Path) -> io::Result<()> {
    if let Some(parent) = ready_file.parent() {
        create_private_directory(parent)?;
    }
    fs::write(ready_file, "")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use k8s_openapi::jiff::Timestamp;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;

    #[test]
    fn medium_memory_does_not_fall_back_to_disk() {
        let temp = tempfile::tempdir().unwrap();
        let mounter = EmptyDirMounter {
            path: temp.path().join("kubernetes.io~empty-dir/ram"),
            ready_file: temp.path().join("ready"),
            mode: DEFAULT_MODE,
            medium: EmptyDirMedium::Memory(None),
        };
        let set_up_unprivileged = || {
            // Capabilities are per thread: the other tests keep theirs.
            let mut thread_capabilities = capabilities(None).unwrap();
            thread_capabilities.effective.remove(CapabilitySet::SYS_ADMIN);
            set_capabilities(None, thread_capabilities).unwrap();
            mounter.set_up(&MounterArgs {
                now: Timestamp::UNIX_EPOCH,
                fs_group: None,
                warned_secrets_on_disk: &AtomicBool::new(false),
            })
        };
        let result = std::thread::scope(|scope| scope.spawn(set_up_unprivileged).join()).unwrap();
        assert!(result.is_err(), "{result:?}");
        assert!(!mounter.ready_file.exists());
    }
}
