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
            let left = trail.pop().ok_or_else(escapes)?;
            if FileType::from_raw_mode(fstat(&left)?.st_mode) != FileType::Directory {
                return Err(Errno::NOTDIR.into());
            }
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::{ResolveFlags, openat2};

    use super::*;

    /// What the kernel says of a path, if it is told not to leave the folder.
    fn kernel(base: &Path, path: &Path) -> Option<(u64, u64)> {
        let base = openat(CWD, base, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let found = openat2(&base, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how);
        found
            .ok()
            .map(|found| fstat(&found).unwrap())
            .map(|stat| (stat.st_dev, stat.st_ino))
    }

    #[test]
    fn paths_lead_where_the_kernel_would_let_them() {
        let names = ["a", "b", "c"];
        let targets = [
            "a",
            "b/c",
            "../a",
            "../../x",
            "/a",
            ".",
            "..",
            "c/../b",
            "./a/.",
            "a/b/c",
            "../b/../a",
        ];
        let mut found = 0;
        for seed in 1..60_u64 {
            let folder = tempfile::tempdir().unwrap();
            let base = folder.path().join("base");
            fs::create_dir(&base).unwrap();
            let mut random = seed;
            let mut next = |below: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                usize::try_from(random % u64::try_from(below).unwrap()).unwrap()
            };
            let mut folders = vec![base.clone()];
            for _ in 0..14 {
                let path = folders[next(folders.len())].join(names[next(3)]);
                match next(3) {
                    0 => drop(symlink(targets[next(targets.len())], &path)),
                    1 => drop(fs::create_dir(&path).map(|()| folders.push(path))),
                    _ => drop(fs::write(&path, "").ok()),
                }
            }
            for _ in 0..60 {
                let steps: Vec<_> = (0..=next(4))
                    .map(|_| ["a", "b", "c", "..", "."][next(5)])
                    .collect();
                let path = steps.join("/");
                let ours = open(&base, Path::new(&path), Missing::Refuse).ok();
                let ours = ours
                    .map(|open| fstat(&open).unwrap())
                    .map(|stat| (stat.st_dev, stat.st_ino));
                let theirs = kernel(&base, Path::new(&path));
                if ours != theirs {
                    // `file/.` is no path for the kernel, and is that of the file here.
                    let open = open(&base, Path::new(&path), Missing::Refuse).unwrap();
                    let kind = FileType::from_raw_mode(fstat(&open).unwrap().st_mode);
                    assert!(
                        theirs.is_none() && kind == FileType::RegularFile,
                        "seed {seed} path {path}"
                    );
                }
                found += usize::from(theirs.is_some());
                // Whatever it is, it is beneath.
                if let Ok(open) = open(&base, Path::new(&path), Missing::Refuse) {
                    let real = fs::read_link(by_descriptor(open.as_fd())).unwrap();
                    assert!(
                        real.starts_with(fs::canonicalize(&base).unwrap()),
                        "seed {seed} path {path}"
                    );
                }
            }
        }
        assert!(found > 300, "{found}");
    }

    #[test]
    fn links_without_end_come_to_an_end() {
        let folder = tempfile::tempdir().unwrap();
        symlink("two", folder.path().join("one")).unwrap();
        symlink("one", folder.path().join("two")).unwrap();
        assert!(open(folder.path(), Path::new("one"), Missing::Refuse).is_err());
        assert!(open(folder.path(), Path::new("one/x"), Missing::Make(0o755)).is_err());
    }

    #[test]
    fn only_plain_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(open_file(folder.path(), Path::new("pipe")).is_err());
        fs::write(folder.path().join("file"), "x").unwrap();
        assert!(open_file(folder.path(), Path::new("file")).is_ok());
    }
}
