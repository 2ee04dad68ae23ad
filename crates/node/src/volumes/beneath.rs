//! Paths in folders whose content somebody else may change at any time.
//!
//! A container can put links into its volume, and exchange folders and links while we look. So a path is walked step by step,
//! each step from a folder that is held open, without following a link that the kernel would follow: links are read and walked
//! by ourselves. `..` leads back to the folder we came from, and never above the one we began with.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, readlinkat},
    io::Errno,
};

/// Links that are followed at most, as in the kernel.
const LINKS: usize = 40;

/// What becomes of folders that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// An error.
    Refuse,
    /// They are made, each with this mode.
    Make(u32),
}

/// Where a step comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    ByPath,
    ByLink,
}

/// Opens what is at a path beneath a folder, without reading it: to be mounted, or looked at. Never a link.
///
/// The folder itself is the node's or the administrator's, so that links to it are followed.
pub(super) fn open(base: &Path, path: &Path, missing: Missing) -> io::Result<OwnedFd> {
    let base = openat(CWD, base, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    walk(base, path, missing)
}

/// Opens a plain file beneath a folder for reading.
pub(super) fn open_file(base: &Path, path: &Path) -> io::Result<std::fs::File> {
    let found = open(base, path, Missing::Refuse)?;
    if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a file"));
    }
    // It is opened by what was found, so that it cannot have become a pipe, which would never end.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat(CWD, by_descriptor(found.as_fd()), flags, Mode::empty())?;
    Ok(file.into())
}

/// A path to what is open, whatever became of its own path.
pub(super) fn by_descriptor(open: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", open.as_raw_fd())
}

fn walk(base: OwnedFd, path: &Path, missing: Missing) -> io::Result<OwnedFd> {
    // From the base to where we are. Never empty: what is at its bottom cannot be left.
    let mut trail = vec![base];
    let mut steps = VecDeque::new();
    queue(&mut steps, path, Said::ByPath)?;
    let mut links = 0;
    while let Some((step, said)) = steps.pop_front() {
        if step == ".." {
            trail.pop();
            if trail.is_empty() {
                return Err(escapes());
            }
            continue;
        }
        let here = trail.last().ok_or_else(escapes)?;
        let found = match open_step(here.as_fd(), &step) {
            Err(Errno::NOENT) => match (missing, said) {
                (Missing::Make(mode), Said::ByPath) => make(here.as_fd(), &step, mode)?,
                // A link to nothing is broken, and is not made whole.
                _ => return Err(Errno::NOENT.into()),
            },
            found => found?,
        };
        if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::Symlink {
            trail.push(found);
            continue;
        }
        links += 1;
        if links > LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = readlinkat(&found, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.as_bytes()));
        queue(&mut steps, target, Said::ByLink)?;
    }
    trail.pop().ok_or_else(escapes)
}

/// Puts the steps of a path before those that are left.
fn queue(steps: &mut VecDeque<(OsString, Said)>, path: &Path, said: Said) -> io::Result<()> {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => steps.push_front((name.to_owned(), said)),
            Component::ParentDir => steps.push_front(("..".into(), said)),
            Component::CurDir => {}
            // An absolute path means another root: that of the container or ours, and nobody knows which.
            Component::RootDir | Component::Prefix(_) => return Err(escapes()),
        }
    }
    Ok(())
}

fn open_step(folder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(
        folder,
        name,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Makes a folder and opens it. Somebody may be faster: then theirs is looked at like any other.
fn make(folder: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<OwnedFd> {
    match mkdirat(folder, name, Mode::from_raw_mode(mode & 0o777)) {
        Err(Errno::EXIST) => return Ok(open_step(folder, name)?),
        made => made?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(folder, name, flags, Mode::empty())?;
    // The umask took rights away, and the mode of a new folder cannot hold the special ones.
    fchmod(&made, Mode::from_raw_mode(mode & 0o7777))?;
    drop(made);
    Ok(open_step(folder, name)?)
}

fn escapes() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the path leads out of its volume",
    )
}

/// Whether two are the same file.
pub(super) fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// What is at a path, not through a link.
pub(super) fn look(path: &Path) -> io::Result<Stat> {
    Ok(rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?)
}
