//! Group ownership of volumes: `fsGroup` and `fsGroupChangePolicy`.
// upstream: pkg/volume/volume_linux.go ChangePermissions

use std::{io, path::Path};

use k8s_openapi::api::core::v1::Pod;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, chmodat, chownat, fstat, openat};

use super::{
    directory_walk::{self, DirectoryEntry},
    safe_open::proc_fd_path,
};

/// The `fsGroup` of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FsGroup {
    pub(super) gid: u32,
    /// `fsGroupChangePolicy: OnRootMismatch`: skip volumes whose root directory already has the group and permissions.
    pub(super) on_root_mismatch: bool,
}

/// Permissions of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupAccess {
    ReadOnly,
    ReadWrite,
}

// --- FsGroup ---

impl FsGroup {
    /// The `fsGroup` of a pod, if it has one.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let context = pod.spec.as_ref()?.security_context.as_ref()?;
        Some(FsGroup {
            gid: u32::try_from(context.fs_group?).ok()?,
            on_root_mismatch: context.fs_group_change_policy.as_deref() == Some("OnRootMismatch"),
        })
    }

    /// The same group with `fsGroupChangePolicy: Always`, for volumes with new files.
    pub(super) fn with_policy_always(self) -> Self {
        FsGroup {
            on_root_mismatch: false,
            ..self
        }
    }

    /// Sets the group and its permissions on a volume and everything in it. Logs files that cannot be changed and continues, as
    /// upstream.
    // upstream: pkg/volume/volume_linux.go ChangePermissions, changePermissionsRecursively
    pub(super) fn apply(self, root: &Path, access: GroupAccess) -> io::Result<()> {
        if self.on_root_mismatch && !self.requires_permission_change(root, access)? {
            return Ok(());
        }
        let is_complete = directory_walk::walk(root, |entry| {
            self.change_entry(entry, access);
            Ok(())
        })?;
        if !is_complete {
            tracing::warn!(volume = %root.display(), "fsGroup of a volume is incomplete: directories are nested too deep");
        }
        // The root last: with OnRootMismatch it marks that everything below was changed. A crash before must not mark it.
        let root_fd = openat(
            CWD,
            root,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let stat = fstat(&root_fd)?;
        self.change_open_file(&root_fd, &stat, access)
    }

    // upstream: pkg/volume/volume_linux.go requiresPermissionChange
    fn requires_permission_change(self, root: &Path, access: GroupAccess) -> io::Result<bool> {
        let stat = rustix::fs::stat(root)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let required = access.mode_bits(FileType::Directory);
        Ok(stat.st_gid != self.gid || !is_directory || stat.st_mode & required != required)
    }

    fn change_entry(self, entry: &DirectoryEntry<'_>, access: GroupAccess) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(entry.parent, entry.name, flags, Mode::empty()).map_err(io::Error::from);
        let changed = opened.and_then(|file| {
            // Not `entry.stat`: the container may have replaced the file since.
            let stat = fstat(&file)?;
            self.change_open_file(&file, &stat, access)
        });
        if let Err(error) = changed
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, name = %entry.name.to_string_lossy(), "failed to set the fsGroup of a file");
        }
    }

    // upstream: pkg/volume/volume_linux.go changeFilePermission
    fn change_open_file(
        self,
        file: &impl std::os::fd::AsFd,
        stat: &Stat,
        access: GroupAccess,
    ) -> io::Result<()> {
        let group = Some(Gid::from_raw(self.gid));
        chownat(
            file,
            "",
            None,
            group,
            AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW,
        )?;
        let file_type = FileType::from_raw_mode(stat.st_mode);
        // chmod(2) on a symlink would change its target.
        if file_type == FileType::Symlink {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | access.mode_bits(file_type));
        // Through /proc: fchmod(2) rejects `O_PATH` descriptors.
        chmodat(CWD, proc_fd_path(file.as_fd()), mode, AtFlags::empty())?;
        Ok(())
    }
}

// --- GroupAccess ---

impl GroupAccess {
    /// Mode bits that are added for owner and group. Directories get setgid, so that new files in them inherit the group.
    fn mode_bits(self, file_type: FileType) -> u32 {
        let bits = match self {
            GroupAccess::ReadOnly => 0o440,
            GroupAccess::ReadWrite => 0o660,
        };
        if file_type == FileType::Directory {
            bits | 0o2110
        } else {
            bits
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use super::*;

    #[test]
    fn sets_group_and_permissions_without_following_symlinks() {
        let temp = tempfile::tempdir().unwrap();
        let outside = temp.path().join("outside");
        fs::write(&outside, "x").unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
        let root = temp.path().join("volume");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("sub/file"), "x").unwrap();
        fs::set_permissions(root.join("sub/file"), fs::Permissions::from_mode(0o400)).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        let group = FsGroup {
            gid: 4321,
            on_root_mismatch: false,
        };
        group.apply(&root, GroupAccess::ReadWrite).unwrap();
        for (path, mode) in [("", 0o2775), ("sub", 0o2775), ("sub/file", 0o660)] {
            let metadata = fs::symlink_metadata(root.join(path)).unwrap();
            assert_eq!((metadata.gid(), metadata.mode() & 0o7777), (4321, mode), "{path}");
        }
        assert_eq!(fs::symlink_metadata(root.join("link")).unwrap().gid(), 4321);
        let outside = fs::metadata(outside).unwrap();
        assert_eq!((outside.gid(), outside.mode() & 0o7777), (0, 0o600));
    }

    #[test]
    fn on_root_mismatch_skips_volumes_with_matching_root() {
        let temp = tempfile::tempdir().unwrap();
        let group = FsGroup {
            gid: 4321,
            on_root_mismatch: true,
        };
        group.apply(temp.path(), GroupAccess::ReadWrite).unwrap();
        fs::write(temp.path().join("file"), "x").unwrap();
        std::os::unix::fs::chown(temp.path().join("file"), None, Some(0)).unwrap();
        group.apply(temp.path(), GroupAccess::ReadWrite).unwrap();
        assert_eq!(fs::metadata(temp.path().join("file")).unwrap().gid(), 0);
        let always = FsGroup {
            on_root_mismatch: false,
            ..group
        };
        always.apply(temp.path(), GroupAccess::ReadWrite).unwrap();
        assert_eq!(fs::metadata(temp.path().join("file")).unwrap().gid(), 4321);
    }
}
