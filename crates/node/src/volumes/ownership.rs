//! The group that a pod's volumes belong to.

use std::{io, path::Path};

use k8s_openapi::api::core::v1::Pod;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, chmodat, chownat, fstat, openat};

use super::{
    beneath::by_descriptor,
    tree::{self, Entry},
};

/// The group of a pod's volumes, and when those get it that have files already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) id: u32,
    /// Only if the volume itself is not the group's yet.
    pub(super) only_on_mismatch: bool,
}

/// What the group may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    ReadWrite,
}

// --- Group ---

impl Group {
    /// That of a pod, if it has one.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let context = pod.spec.as_ref()?.security_context.as_ref()?;
        Some(Group {
            id: u32::try_from(context.fs_group?).ok()?,
            only_on_mismatch: context.fs_group_change_policy.as_deref() == Some("OnRootMismatch"),
        })
    }

    /// The same, whatever the volume itself looks like: for those whose files are new.
    pub(super) fn always(self) -> Self {
        Group {
            only_on_mismatch: false,
            ..self
        }
    }

    /// Gives a volume and all in it to the group. What cannot be given is left and told in the log, as it was in upstream.
    pub(super) fn give(self, root: &Path, access: Access) -> io::Result<()> {
        if self.only_on_mismatch && self.has(root, access)? {
            return Ok(());
        }
        let is_whole = tree::visit(root, |entry| {
            self.give_entry(entry, access);
            Ok(())
        })?;
        if !is_whole {
            tracing::warn!(volume = %root.display(), "folders are nested too deep to be given to their group");
        }
        // The volume itself comes last: until then it does not look as if all were done.
        let folder = openat(
            CWD,
            root,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let stat = fstat(&folder)?;
        self.give_open(&folder, &stat, access)
    }

    /// Whether a volume is the group's already.
    fn has(self, root: &Path, access: Access) -> io::Result<bool> {
        let stat = rustix::fs::stat(root)?;
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let needed = access.rights(FileType::Directory);
        Ok(stat.st_gid == self.id && is_folder && stat.st_mode & needed == needed)
    }

    fn give_entry(self, entry: &Entry<'_>, access: Access) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let given = openat(entry.folder, entry.name, flags, Mode::empty()).map_err(io::Error::from);
        let given = given.and_then(|open| {
            // It may be another one by now: what is open counts.
            let stat = fstat(&open)?;
            self.give_open(&open, &stat, access)
        });
        if let Err(error) = given
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, name = %entry.name.to_string_lossy(), "cannot give a file to the group of its pod");
        }
    }

    fn give_open(self, open: &impl std::os::fd::AsFd, stat: &Stat, access: Access) -> io::Result<()> {
        let group = Some(Gid::from_raw(self.id));
        chownat(
            open,
            "",
            None,
            group,
            AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW,
        )?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        // The mode of a link means nothing, and changing it would change its target's.
        if kind == FileType::Symlink {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | access.rights(kind));
        chmodat(CWD, by_descriptor(open.as_fd()), mode, AtFlags::empty())?;
        Ok(())
    }
}

// --- Access ---

impl Access {
    /// The rights that owner and group have at least. New files of a folder are the group's, too.
    fn rights(self, kind: FileType) -> u32 {
        let files = match self {
            Access::ReadOnly => 0o440,
            Access::ReadWrite => 0o660,
        };
        if kind == FileType::Directory {
            files | 0o2110
        } else {
            files
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
    fn files_become_readable_and_folders_inherit() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::write(&outside, "x").unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
        let root = folder.path().join("volume");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("sub/file"), "x").unwrap();
        fs::set_permissions(root.join("sub/file"), fs::Permissions::from_mode(0o400)).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        let group = Group {
            id: 4321,
            only_on_mismatch: false,
        };
        group.give(&root, Access::ReadWrite).unwrap();
        for (path, mode) in [("", 0o2775), ("sub", 0o2775), ("sub/file", 0o660)] {
            let found = fs::symlink_metadata(root.join(path)).unwrap();
            assert_eq!((found.gid(), found.mode() & 0o7777), (4321, mode), "{path}");
        }
        assert_eq!(fs::symlink_metadata(root.join("link")).unwrap().gid(), 4321);
        let outside = fs::metadata(outside).unwrap();
        assert_eq!((outside.gid(), outside.mode() & 0o7777), (0, 0o600));
    }

    #[test]
    fn a_volume_that_is_the_groups_is_left_alone_if_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let group = Group {
            id: 4321,
            only_on_mismatch: true,
        };
        group.give(folder.path(), Access::ReadWrite).unwrap();
        fs::write(folder.path().join("file"), "x").unwrap();
        std::os::unix::fs::chown(folder.path().join("file"), None, Some(0)).unwrap();
        group.give(folder.path(), Access::ReadWrite).unwrap();
        assert_eq!(fs::metadata(folder.path().join("file")).unwrap().gid(), 0);
        let always = Group {
            only_on_mismatch: false,
            ..group
        };
        always.give(folder.path(), Access::ReadWrite).unwrap();
        assert_eq!(fs::metadata(folder.path().join("file")).unwrap().gid(), 4321);
    }
}
