//! Opens paths in directories that a container may change concurrently.
//!
//! A container can put symlinks into its volume, and replace directories by symlinks while the node resolves a path. So the path
//! is resolved one component at a time, each from an open descriptor of its parent and without following symlinks in the kernel.
//! Symlinks are read and resolved here: relative targets are allowed, absolute ones are not. `..` returns to the directory that
//! was opened before, never above the base.
//!
//! `openat2(RESOLVE_BENEATH)` does the same in the kernel, but fails spuriously (`EAGAIN`) while the container renames, cannot
//! create missing directories, and needs Linux 5.6.
// upstream: pkg/volume/util/subpath/subpath_linux.go doSafeOpen

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

/// Limit of symlinks in one path, as in the kernel.
const MAX_SYMLINKS: usize = 40;

/// What to do if a directory of the path does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingDirectories {
    Fail,
    /// Create it with this mode.
    Create(u32),
}

/// Where a path component comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ComponentOrigin {
    Path,
    SymlinkTarget,
}

/// Opens a path below `base` with `O_PATH`: to mount it or read its metadata. The result is never a symlink.
///
/// The base itself belongs to the node or the administrator, so symlinks in it are followed.
// upstream: pkg/volume/util/subpath/subpath_linux.go doSafeOpen, doSafeMakeDir
pub(super) fn open(base: &Path, path: &Path, missing: MissingDirectories) -> io::Result<OwnedFd> {
    let base = openat(CWD, base, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    resolve(base, path, missing)
}

/// Opens a regular file below `base` for reading.
pub(super) fn open_file(base: &Path, path: &Path) -> io::Result<std::fs::File> {
    let path_fd = open(base, path, MissingDirectories::Fail)?;
    if FileType::from_raw_mode(fstat(&path_fd)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    // Reopen the descriptor, not the path: the path may be a pipe by now, and reading that blocks forever.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat(CWD, proc_fd_path(path_fd.as_fd()), flags, Mode::empty())?;
    Ok(file.into())
}

/// A path to an open file, valid even if its original path was changed.
pub(super) fn proc_fd_path(open_fd: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", open_fd.as_raw_fd())
}

fn resolve(base: OwnedFd, path: &Path, missing: MissingDirectories) -> io::Result<OwnedFd> {
    // Descriptors from the base to the current component. Never empty: popping the base is an error.
    let mut ancestors = vec![base];
    let mut pending = VecDeque::new();
    push_components(&mut pending, path, ComponentOrigin::Path)?;
    let mut symlinks = 0;
    while let Some((name, origin)) = pending.pop_front() {
        if name == ".." {
            let current = ancestors.pop().ok_or_else(escapes_volume_error)?;
            if FileType::from_raw_mode(fstat(&current)?.st_mode) != FileType::Directory {
                return Err(Errno::NOTDIR.into());
            }
            if ancestors.is_empty() {
                return Err(escapes_volume_error());
            }
            continue;
        }
        let parent = ancestors.last().ok_or_else(escapes_volume_error)?;
        let opened = match open_no_follow(parent.as_fd(), &name) {
            Err(Errno::NOENT) => match (missing, origin) {
                (MissingDirectories::Create(mode), ComponentOrigin::Path) => {
                    create_directory(parent.as_fd(), &name, mode)?
                }
                // The target of a dangling symlink is not created: the pod asked for the path, not for the target.
                _ => return Err(Errno::NOENT.into()),
            },
            opened => opened?,
        };
        if FileType::from_raw_mode(fstat(&opened)?.st_mode) != FileType::Symlink {
            ancestors.push(opened);
            continue;
        }
        symlinks += 1;
        if symlinks > MAX_SYMLINKS {
            return Err(Errno::LOOP.into());
        }
        let target = readlinkat(&opened, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.as_bytes()));
        push_components(&mut pending, target, ComponentOrigin::SymlinkTarget)?;
    }
    ancestors.pop().ok_or_else(escapes_volume_error)
}

/// Inserts the components of a path before the pending ones.
fn push_components(
    pending: &mut VecDeque<(OsString, ComponentOrigin)>,
    path: &Path,
    origin: ComponentOrigin,
) -> io::Result<()> {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => pending.push_front((name.to_owned(), origin)),
            Component::ParentDir => pending.push_front(("..".into(), origin)),
            Component::CurDir => {}
            // Ambiguous: an absolute path may refer to the root of the container or of the host.
            Component::RootDir | Component::Prefix(_) => return Err(escapes_volume_error()),
        }
    }
    Ok(())
}

fn open_no_follow(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(
        parent,
        name,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Creates and opens a directory. If the container creates the path first, opens whatever it created; the caller then checks for
/// a symlink as usual.
// upstream: pkg/volume/util/subpath/subpath_linux.go doSafeMakeDir
fn create_directory(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<OwnedFd> {
    match mkdirat(parent, name, Mode::from_raw_mode(mode & 0o777)) {
        Err(Errno::EXIST) => return Ok(open_no_follow(parent, name)?),
        result => result?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let created = openat(parent, name, flags, Mode::empty())?;
    // mkdir(2) applies the umask and ignores the setuid, setgid and sticky bits.
    fchmod(&created, Mode::from_raw_mode(mode & 0o7777))?;
    drop(created);
    Ok(open_no_follow(parent, name)?)
}

fn escapes_volume_error() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the path escapes the volume")
}

/// Whether both are the same inode.
pub(super) fn is_same_inode(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Metadata of a path, without following a symlink.
pub(super) fn lstat(path: &Path) -> io::Result<Stat> {
    Ok(rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::{ResolveFlags, openat2};

    use super::*;

    /// Device and inode of a path as the kernel resolves it below `base`.
    fn kernel_resolve(base: &Path, path: &Path) -> Option<(u64, u64)> {
        let base = openat(CWD, base, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let resolve_flags = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let resolve = || {
            openat2(
                &base,
                path,
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
                resolve_flags,
            )
        };
        // The kernel gives up on a path with `..` if any directory of the machine is renamed or mounted meanwhile.
        let mut found = resolve();
        while matches!(found, Err(Errno::AGAIN)) {
            found = resolve();
        }
        found
            .ok()
            .map(|found| fstat(&found).unwrap())
            .map(|stat| (stat.st_dev, stat.st_ino))
    }

    #[test]
    fn resolves_paths_like_openat2_with_resolve_beneath() {
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
        let mut found_count = 0;
        for seed in 1..60_u64 {
            let temp = tempfile::tempdir().unwrap();
            let base = temp.path().join("base");
            fs::create_dir(&base).unwrap();
            let mut random = seed;
            let mut next = |below: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                usize::try_from(random % u64::try_from(below).unwrap()).unwrap()
            };
            let mut directories = vec![base.clone()];
            for _ in 0..14 {
                let path = directories[next(directories.len())].join(names[next(3)]);
                match next(3) {
                    0 => drop(symlink(targets[next(targets.len())], &path)),
                    1 => drop(fs::create_dir(&path).map(|()| directories.push(path))),
                    _ => drop(fs::write(&path, "").ok()),
                }
            }
            for _ in 0..60 {
                let components: Vec<_> = (0..=next(4))
                    .map(|_| ["a", "b", "c", "..", "."][next(5)])
                    .collect();
                let path = components.join("/");
                let resolved = open(&base, Path::new(&path), MissingDirectories::Fail).ok();
                let resolved = resolved
                    .map(|open| fstat(&open).unwrap())
                    .map(|stat| (stat.st_dev, stat.st_ino));
                let by_kernel = kernel_resolve(&base, Path::new(&path));
                if resolved != by_kernel {
                    // The kernel rejects `file/.`; here it is the file.
                    let open = open(&base, Path::new(&path), MissingDirectories::Fail).unwrap();
                    let kind = FileType::from_raw_mode(fstat(&open).unwrap().st_mode);
                    assert!(
                        by_kernel.is_none() && kind == FileType::RegularFile,
                        "seed {seed} path {path}"
                    );
                }
                found_count += usize::from(by_kernel.is_some());
                // Whatever was opened is below the base.
                if let Ok(open) = open(&base, Path::new(&path), MissingDirectories::Fail) {
                    let real = fs::read_link(proc_fd_path(open.as_fd())).unwrap();
                    assert!(
                        real.starts_with(fs::canonicalize(&base).unwrap()),
                        "seed {seed} path {path}"
                    );
                }
            }
        }
        assert!(found_count > 300, "{found_count}");
    }

    #[test]
    fn rejects_symlink_loops() {
        let temp = tempfile::tempdir().unwrap();
        symlink("two", temp.path().join("one")).unwrap();
        symlink("one", temp.path().join("two")).unwrap();
        assert!(open(temp.path(), Path::new("one"), MissingDirectories::Fail).is_err());
        assert!(open(temp.path(), Path::new("one/x"), MissingDirectories::Create(0o755)).is_err());
    }

    #[test]
    fn opens_regular_files_only() {
        let temp = tempfile::tempdir().unwrap();
        let pipe = temp.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(open_file(temp.path(), Path::new("pipe")).is_err());
        fs::write(temp.path().join("file"), "x").unwrap();
        assert!(open_file(temp.path(), Path::new("file")).is_ok());
    }
}
