//! Walks and removes directory trees that containers may change concurrently, of any depth.
//!
//! The walk uses open descriptors, never paths, and does not follow symlinks. The number of open descriptors is limited and
//! nothing recurses: a container that nests directories endlessly exhausts neither file descriptors nor the stack.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, renameat, statat, unlinkat},
    io::Errno,
};

/// Limit of the depth of a walk, and so of open descriptors.
const MAX_DEPTH: usize = 512;

/// A directory that is being walked.
struct OpenDirectory {
    fd: OwnedFd,
    entries: Dir,
    /// Name in the parent directory; `None` for the root.
    name: Option<CString>,
}

/// A name in an open directory, and its metadata.
pub(super) struct DirectoryEntry<'a> {
    pub(super) parent: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
    pub(super) stat: &'a Stat,
}

/// Calls `visit` for everything in a directory, for directories after their content, and not for `root` itself. Skips the content
/// of mounts and of directories that are nested too deep. Returns `false` if it skipped a directory because of its depth. Ignores
/// entries that are removed concurrently.
pub(super) fn walk(
    root: &Path,
    mut visit: impl FnMut(&DirectoryEntry<'_>) -> io::Result<()>,
) -> io::Result<bool> {
    let root = open_directory(CWD, root)?;
    let device = rustix::fs::fstat(&root)?.st_dev;
    let mut is_complete = true;
    let mut ancestors = vec![OpenDirectory::new(root, None)?];
    loop {
        let depth = ancestors.len();
        let Some(current) = ancestors.last_mut() else {
            break;
        };
        let Some(entry) = current.next_name()? else {
            let finished = ancestors.pop();
            if let (Some(OpenDirectory { name: Some(name), .. }), Some(parent)) = (finished, ancestors.last())
            {
                visit_name(parent.fd.as_fd(), &name, &mut visit)?;
            }
            continue;
        };
        let stat = match statat(&current.fd, &entry, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_directory && stat.st_dev == device {
            if depth >= MAX_DEPTH {
                is_complete = false;
                continue;
            }
            match open_directory(current.fd.as_fd(), entry.as_c_str()) {
                // Removed or replaced concurrently, for example by a symlink.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                opened => {
                    let child = OpenDirectory::new(opened?, Some(entry))?;
                    ancestors.push(child);
                }
            }
            continue;
        }
        visit(&DirectoryEntry {
            parent: current.fd.as_fd(),
            name: &entry,
            stat: &stat,
        })?;
    }
    Ok(is_complete)
}

/// Removes a directory tree. The caller has checked that nothing is mounted in it. Succeeds if the directory does not exist.
///
/// Moves directories that are nested too deep up into `root`, and removes them in the next pass.
pub(super) fn remove_all(root: &Path) -> io::Result<()> {
    let root_fd = match open_directory(CWD, root) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let device = rustix::fs::fstat(&root_fd)?.st_dev;
    let mut next_number = 0;
    loop {
        let number_before = next_number;
        remove_content(&root_fd, device, &mut next_number)?;
        if number_before == next_number {
            // No directory was moved up.
            break;
        }
    }
    drop(root_fd);
    ignore_not_found(unlinkat(CWD, root, AtFlags::REMOVEDIR))
}

/// Removes the content of a directory. Moves directories that are nested too deep into `root`; `next_number` numbers their names.
fn remove_content(root: &OwnedFd, device: u64, next_number: &mut u64) -> io::Result<()> {
    let mut ancestors = vec![OpenDirectory::new(root.try_clone()?, None)?];
    loop {
        let depth = ancestors.len();
        let Some(current) = ancestors.last_mut() else {
            break;
        };
        let Some(entry) = current.next_name()? else {
            let finished = ancestors.pop();
            if let (Some(OpenDirectory { name: Some(name), .. }), Some(parent)) = (finished, ancestors.last())
            {
                ignore_not_found(unlinkat(&parent.fd, &name, AtFlags::REMOVEDIR))?;
            }
            continue;
        };
        let stat = match statat(&current.fd, &entry, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            ignore_not_found(unlinkat(&current.fd, &entry, AtFlags::empty()))?;
            continue;
        }
        if stat.st_dev != device {
            // Mounted after the caller checked. The content of the mount is not ours to remove.
            return Err(Errno::BUSY.into());
        }
        if depth >= MAX_DEPTH {
            move_up(&current.fd, &entry, root, next_number)?;
            continue;
        }
        let opened = open_directory(current.fd.as_fd(), entry.as_c_str())?;
        ancestors.push(OpenDirectory::new(opened, Some(entry))?);
    }
    Ok(())
}

/// Moves a directory into `root`, with a name that is not in use.
///
/// A container, or a removal that was interrupted, may have left directories with such names. They can even be ancestors of the
/// directory to move.
fn move_up(parent: &OwnedFd, name: &CStr, root: &OwnedFd, next_number: &mut u64) -> io::Result<()> {
    loop {
        let new_name = format!("..moved-up-{next_number}");
        *next_number += 1;
        match renameat(parent, name, root, new_name.as_str()) {
            // In use by a directory with content, or by a file.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            moved => return ignore_not_found(moved),
        }
    }
}

/// Removing a file that does not exist succeeds.
fn ignore_not_found(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        result => Ok(result?),
    }
}

fn visit_name(
    parent: BorrowedFd<'_>,
    name: &CStr,
    visit: &mut impl FnMut(&DirectoryEntry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        stat => visit(&DirectoryEntry {
            parent,
            name,
            stat: &stat?,
        }),
    }
}

fn open_directory(parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

// --- OpenDirectory ---

impl OpenDirectory {
    fn new(fd: OwnedFd, name: Option<CString>) -> io::Result<Self> {
        let entries = Dir::read_from(&fd)?;
        Ok(OpenDirectory { fd, entries, name })
    }

    /// The next name, without `.` and `..`.
    fn next_name(&mut self) -> io::Result<Option<CString>> {
        loop {
            let Some(entry) = self.entries.next() else {
                return Ok(None);
            };
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                return Ok(Some(name.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, os::unix::fs::symlink};

    use super::*;

    fn walked_names(root: &Path) -> (BTreeSet<String>, bool) {
        let mut names = BTreeSet::new();
        let is_complete = walk(root, |entry| {
            names.insert(entry.name.to_string_lossy().into_owned());
            Ok(())
        });
        (names, is_complete.unwrap())
    }

    #[test]
    fn walks_and_removes_symlinks_without_following_them() {
        let temp = tempfile::tempdir().unwrap();
        let outside = temp.path().join("outside");
        let tree = temp.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "x").unwrap();
        fs::write(tree.join("a/file"), "x").unwrap();
        symlink(&outside, tree.join("a/link")).unwrap();
        symlink("../../..", tree.join("a/b/up")).unwrap();
        let (names, is_complete) = walked_names(&tree);
        assert!(is_complete);
        assert_eq!(names, ["a", "b", "file", "link", "up"].map(str::to_owned).into());
        remove_all(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.join("precious").exists());
        remove_all(&tree).unwrap();
    }

    #[test]
    fn does_not_remove_the_target_of_a_symlink() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("real")).unwrap();
        fs::write(temp.path().join("real/x"), "").unwrap();
        symlink("real", temp.path().join("link")).unwrap();
        assert!(remove_all(&temp.path().join("link")).is_err());
        assert!(temp.path().join("real/x").exists());
    }

    /// Creates directories that are nested deeper than the limit.
    fn create_deep_directories(path: &Path) {
        // The path would be longer than PATH_MAX, so use descriptors.
        let mut parent = open_directory(CWD, path).unwrap();
        for _ in 0..MAX_DEPTH + 200 {
            rustix::fs::mkdirat(&parent, "d", Mode::RWXU).unwrap();
            parent = open_directory(parent.as_fd(), "d").unwrap();
        }
    }

    #[test]
    fn removes_deep_directories_when_names_of_moved_directories_are_in_use() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        for number in 0..3 {
            fs::create_dir_all(root.join(format!("..moved-up-{number}/content"))).unwrap();
        }
        fs::write(root.join("..moved-up-3"), "a file").unwrap();
        // As after a removal that was interrupted.
        fs::create_dir(root.join("..moved-up-4")).unwrap();
        create_deep_directories(&root.join("..moved-up-4"));
        create_deep_directories(&root);
        remove_all(&root).unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn removes_directories_deeper_than_the_limit() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        fs::create_dir(&root).unwrap();
        create_deep_directories(&root);
        let (_, is_complete) = walked_names(&root);
        assert!(!is_complete);
        remove_all(&root).unwrap();
        assert!(!root.exists());
    }
}
