//! Mounts of the host: reads `/proc/self/mountinfo`, mounts and unmounts.

use std::{
    ffi::{CString, OsString},
    fs, io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount as umount2},
};

/// A mount in the mount namespace of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountPoint {
    pub(super) path: PathBuf,
    /// Major and minor number of the device.
    device: String,
    /// Directory of the file system that is mounted.
    root: PathBuf,
    /// `tmpfs`, `ext4`, ...
    pub(super) fs_type: String,
}

/// All mounts, in the order in which they were mounted.
fn list_mounts() -> io::Result<Vec<MountPoint>> {
    Ok(parse_mountinfo(&fs::read("/proc/self/mountinfo")?))
}

/// The mounts at a path or below it, in the order in which they were mounted.
pub(super) fn mounts_below(path: &Path) -> io::Result<Vec<MountPoint>> {
    // mountinfo contains paths without symlinks.
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut mounts = list_mounts()?;
    mounts.retain(|mount| mount.path.starts_with(&real));
    Ok(mounts)
}

/// The mount at exactly this path; the topmost if there are several.
pub(super) fn mount_at(path: &Path) -> io::Result<Option<MountPoint>> {
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(list_mounts()?.into_iter().rfind(|mount| mount.path == real))
}

/// Number of bind mounts of a directory. Uses mountinfo only: calls to the file system itself may hang.
// upstream: pkg/volume/local/local.go SetUpAt
pub(super) fn count_mount_refs(path: &Path) -> io::Result<usize> {
    let real = fs::canonicalize(path)?;
    let mounts = list_mounts()?;
    let containing = mounts.iter().filter(|mount| real.starts_with(&mount.path));
    // `max_by_key` returns the last maximum: of several mounts at one path, the topmost.
    let Some(containing) = containing.max_by_key(|mount| mount.path.components().count()) else {
        return Ok(0);
    };
    let relative = real.strip_prefix(&containing.path).unwrap_or(Path::new(""));
    let root = containing.root.join(relative);
    let is_ref =
        |mount: &&MountPoint| mount.device == containing.device && mount.root == root && mount.path != real;
    Ok(mounts.iter().filter(is_ref).count())
}

/// Mounts a tmpfs with a size limit in bytes. It is not swapped to disk, if the kernel supports `noswap`.
// upstream: pkg/volume/emptydir/empty_dir.go generateTmpfsMountOptions
pub(super) fn mount_tmpfs(path: &Path, size: Option<u64>) -> io::Result<()> {
    let mount = |options: &str| {
        let options = CString::new(options).map_err(|_| Errno::INVAL)?;
        mount(
            "tmpfs",
            path,
            "tmpfs",
            MountFlags::empty(),
            Some(options.as_c_str()),
        )
    };
    let size = size.map_or_else(|| "mode=0755".to_owned(), |size| format!("mode=0755,size={size}"));
    match mount(&format!("{size},noswap")) {
        // `noswap` needs Linux 6.4.
        Err(Errno::INVAL) => Ok(mount(&size)?),
        result => Ok(result?),
    }
}

/// Bind-mounts an open directory or file, even if its path was changed since.
pub(super) fn bind_mount(source: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", source.as_raw_fd());
    Ok(mount_bind(source.as_str(), path)?)
}

/// Makes a bind mount read-only. mount(2) ignores `MS_RDONLY` when it creates one.
pub(super) fn remount_read_only(path: &Path) -> io::Result<()> {
    Ok(mount_remount(path, MountFlags::BIND | MountFlags::RDONLY, c"")?)
}

/// Unmounts a path without following a symlink. Fails if the mount is in use. Succeeds if the path is not a mount.
pub(super) fn unmount(path: &Path) -> io::Result<()> {
    match umount2(path, UnmountFlags::NOFOLLOW) {
        // Not a mount, or unmounted concurrently.
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        result => Ok(result?),
    }
}

/// Detaches a mount immediately (`MNT_DETACH`). Processes that use it keep it.
pub(super) fn lazy_unmount(path: &Path) -> io::Result<()> {
    match umount2(path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        result => Ok(result?),
    }
}

/// Whether mounting failed because this process lacks `CAP_SYS_ADMIN`.
pub(super) fn is_permission_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Parses mountinfo, see `proc_pid_mountinfo(5)`.
fn parse_mountinfo(table: &[u8]) -> Vec<MountPoint> {
    let lines = table.split(|byte| *byte == b'\n');
    let mounts = lines.filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let device = fields.nth(2)?;
        let root = fields.next()?;
        let path = fields.next()?;
        // The number of optional fields varies; `-` ends them.
        let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
        let to_path = |field| PathBuf::from(OsString::from_vec(unescape(field)));
        Some(MountPoint {
            path: to_path(path),
            root: to_path(root),
            device: String::from_utf8_lossy(device).into_owned(),
            fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        })
    });
    mounts.collect()
}

/// Replaces octal escapes such as `\040`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| byte == b'\\');
        let octal = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        if let Some(octal) = octal {
            out.push(octal);
            rest = &after[3..];
        } else {
            out.push(byte);
            rest = after;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_mountinfo_with_escapes() {
        let table = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
            41 36 0:30 / /a\\040b\\134c rw shared:3 master:2 - tmpfs tmpfs rw\n";
        let mounts = parse_mountinfo(table);
        let mount = |path: &str, device: &str, root: &str, fs_type: &str| MountPoint {
            path: path.into(),
            device: device.into(),
            root: root.into(),
            fs_type: fs_type.into(),
        };
        let expected = [
            mount("/mnt2", "98:0", "/mnt1", "ext3"),
            mount("/a b\\c", "0:30", "/", "tmpfs"),
        ];
        assert_eq!(mounts, expected);
    }
}
