//! All that is in a folder, whatever somebody else does to it meanwhile, and however deep it is.
//!
//! Folders are walked by what is open, never by paths, and links are never followed. How many are open at once has a limit, and
//! nothing here calls itself: a container that nests folders without end can neither take all files that may be open, nor the
//! stack.

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

/// Folders that are open at once at most.
const DEPTH: usize = 512;

/// A folder that is being walked.
struct Level {
    folder: OwnedFd,
    entries: Dir,
    /// Its name in the folder above; none for the first.
    name: Option<CString>,
}

/// What a visitor is shown: a name in a folder that is open, and what is there.
pub(super) struct Entry<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
    pub(super) stat: &'a Stat,
}

/// Shows everything in a folder, folders after what is in them, and not the folder itself. Mounts are not entered, nor what is
/// nested too deep: `false` says that something was. What goes meanwhile is not shown.
pub(super) fn visit(root: &Path, mut show: impl FnMut(&Entry<'_>) -> io::Result<()>) -> io::Result<bool> {
    let first = open_folder(CWD, root)?;
    let device = rustix::fs::fstat(&first)?.st_dev;
    let mut is_whole = true;
    let mut levels = vec![Level::new(first, None)?];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else {
            break;
        };
        let Some(entry) = level.next()? else {
            let done = levels.pop();
            if let (Some(Level { name: Some(name), .. }), Some(above)) = (done, levels.last()) {
                show_at(above.folder.as_fd(), &name, &mut show)?;
            }
            continue;
        };
        let stat = match statat(&level.folder, &entry, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_folder && stat.st_dev == device {
            if depth >= DEPTH {
                is_whole = false;
                continue;
            }
            match open_folder(level.folder.as_fd(), entry.as_c_str()) {
                // Exchanged or gone meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                opened => {
                    let next = Level::new(opened?, Some(entry))?;
                    levels.push(next);
                }
            }
            continue;
        }
        let folder = level.folder.as_fd();
        show(&Entry {
            folder,
            name: &entry,
            stat: &stat,
        })?;
    }
    Ok(is_whole)
}

/// Removes a folder and all in it. The caller made sure that nothing is mounted in it. What is nested too deep is brought up
/// first. Removing what is gone succeeds.
pub(super) fn remove(root: &Path) -> io::Result<()> {
    let top = match open_folder(CWD, root) {
        Err(Errno::NOENT) => return Ok(()),
        top => top?,
    };
    let device = rustix::fs::fstat(&top)?.st_dev;
    let mut brought_up = 0_u64;
    loop {
        let before = brought_up;
        empty(&top, device, &mut brought_up)?;
        if before == brought_up {
            break;
        }
    }
    drop(top);
    match unlinkat(CWD, root, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

/// Removes what is in a folder; what is too deep is moved into it instead, and counted.
fn empty(top: &OwnedFd, device: u64, brought_up: &mut u64) -> io::Result<()> {
    let mut levels = vec![Level::new(top.try_clone()?, None)?];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else {
            break;
        };
        let Some(entry) = level.next()? else {
            let done = levels.pop();
            if let (Some(Level { name: Some(name), .. }), Some(above)) = (done, levels.last()) {
                gone(unlinkat(&above.folder, &name, AtFlags::REMOVEDIR))?;
            }
            continue;
        };
        let stat = match statat(&level.folder, &entry, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            gone(unlinkat(&level.folder, &entry, AtFlags::empty()))?;
            continue;
        }
        if stat.st_dev != device {
            // Somebody mounted something after the caller looked. What is there is theirs.
            return Err(Errno::BUSY.into());
        }
        if depth >= DEPTH {
            *brought_up += 1;
            let name = format!("..brought-up-{brought_up}");
            renameat(&level.folder, &entry, top, name.as_str())?;
            continue;
        }
        let opened = open_folder(level.folder.as_fd(), entry.as_c_str())?;
        levels.push(Level::new(opened, Some(entry))?);
    }
    Ok(())
}

/// What is gone already is as good as removed.
fn gone(done: Result<(), Errno>) -> io::Result<()> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

fn show_at(
    folder: BorrowedFd<'_>,
    name: &CStr,
    show: &mut impl FnMut(&Entry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        stat => show(&Entry {
            folder,
            name,
            stat: &stat?,
        }),
    }
}

fn open_folder(folder: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

// --- Level ---

impl Level {
    fn new(folder: OwnedFd, name: Option<CString>) -> io::Result<Self> {
        let entries = Dir::read_from(&folder)?;
        Ok(Level {
            folder,
            entries,
            name,
        })
    }

    /// The next name.
    fn next(&mut self) -> io::Result<Option<CString>> {
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

    fn shown(root: &Path) -> (BTreeSet<String>, bool) {
        let mut names = BTreeSet::new();
        let is_whole = visit(root, |entry| {
            names.insert(entry.name.to_string_lossy().into_owned());
            Ok(())
        });
        (names, is_whole.unwrap())
    }

    #[test]
    fn links_are_shown_and_removed_but_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        let inside = folder.path().join("inside");
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "x").unwrap();
        fs::write(inside.join("a/file"), "x").unwrap();
        symlink(&outside, inside.join("a/link")).unwrap();
        symlink("../../..", inside.join("a/b/up")).unwrap();
        let (names, is_whole) = shown(&inside);
        assert!(is_whole);
        assert_eq!(names, ["a", "b", "file", "link", "up"].map(str::to_owned).into());
        remove(&inside).unwrap();
        assert!(!inside.exists());
        assert!(outside.join("precious").exists());
        remove(&inside).unwrap();
    }

    #[test]
    fn a_folder_that_is_a_link_is_not_removed_through_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("real")).unwrap();
        fs::write(folder.path().join("real/x"), "").unwrap();
        symlink("real", folder.path().join("link")).unwrap();
        assert!(remove(&folder.path().join("link")).is_err());
        assert!(folder.path().join("real/x").exists());
    }

    #[test]
    fn what_is_nested_without_end_is_removed_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        // Longer than any path may be, so that it is made from the inside out.
        let mut here = open_folder(CWD, root.as_path()).unwrap();
        for _ in 0..DEPTH + 200 {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).unwrap();
            here = open_folder(here.as_fd(), "d").unwrap();
        }
        drop(here);
        let (_, is_whole) = shown(&root);
        assert!(!is_whole);
        remove(&root).unwrap();
        assert!(!root.exists());
    }
}
