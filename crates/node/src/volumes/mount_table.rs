//! What is mounted where, and changing it.

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
    mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount},
};

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) path: PathBuf,
    /// The numbers of its device.
    device: String,
    /// What of its file system is seen.
    root: PathBuf,
    /// `tmpfs`, `ext4`, ...
    pub(super) kind: String,
}

/// All mounts this process sees, in the order in which they were made.
pub(super) fn all() -> io::Result<Vec<Mounted>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?))
}

/// The mounts at a path or below it. The path is resolved first: mounts are told with real paths.
pub(super) fn at_or_below(path: &Path) -> io::Result<Vec<Mounted>> {
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut all = all()?;
    all.retain(|mounted| mounted.path.starts_with(&real));
    Ok(all)
}

/// What is mounted at a path itself, the last of several.
pub(super) fn at(path: &Path) -> io::Result<Option<Mounted>> {
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(all()?.into_iter().rfind(|mounted| mounted.path == real))
}

/// How many mounts show the folder that is at a path. Nothing is asked of the file systems, which may hang.
pub(super) fn showing(path: &Path) -> io::Result<usize> {
    let real = fs::canonicalize(path)?;
    let all = all()?;
    let around = all.iter().filter(|mounted| real.starts_with(&mounted.path));
    // Of several at one place the last one is seen.
    let Some(around) = around.max_by_key(|mounted| mounted.path.components().count()) else {
        return Ok(0);
    };
    let inside = real.strip_prefix(&around.path).unwrap_or(Path::new(""));
    let root = around.root.join(inside);
    let same =
        |mounted: &&Mounted| mounted.device == around.device && mounted.root == root && mounted.path != real;
    Ok(all.iter().filter(same).count())
}

/// Mounts memory, with room for so many bytes, that is not swapped out where the kernel can promise that.
pub(super) fn tmpfs(path: &Path, size: Option<u64>) -> io::Result<()> {
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
        // Older kernels do not know the word.
        Err(Errno::INVAL) => Ok(mount(&size)?),
        done => Ok(done?),
    }
}

/// Mounts a folder or file, that is open, at a path. What was opened is mounted, whatever is at its path by now.
pub(super) fn bind(source: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", source.as_raw_fd());
    Ok(mount_bind(source.as_str(), path)?)
}

/// Makes a mount readable only.
pub(super) fn make_read_only(path: &Path) -> io::Result<()> {
    Ok(mount_remount(path, MountFlags::BIND | MountFlags::RDONLY, c"")?)
}

/// Takes away what is mounted at a path, not through a link. What is in use stays.
pub(super) fn take_away(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::NOFOLLOW) {
        // Not a mount, or gone meanwhile.
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

/// Takes it away from the path at once; who uses it keeps it.
pub(super) fn detach(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

/// Whether mounting is not for us at all.
pub(super) fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn parse(table: &[u8]) -> Vec<Mounted> {
    let lines = table.split(|byte| *byte == b'\n');
    let mounts = lines.filter_map(|line| {
        let mut words = line.split(|byte| *byte == b' ');
        let device = words.nth(2)?;
        let root = words.next()?;
        let path = words.next()?;
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        let to_path = |text| PathBuf::from(OsString::from_vec(unescaped(text)));
        Some(Mounted {
            path: to_path(path),
            root: to_path(root),
            device: String::from_utf8_lossy(device).into_owned(),
            kind: String::from_utf8_lossy(kind).into_owned(),
        })
    });
    mounts.collect()
}

/// Undoes `\040` and its kin.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
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
    fn the_table_is_read_with_its_escapes() {
        let table = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
            41 36 0:30 / /a\\040b\\134c rw shared:3 master:2 - tmpfs tmpfs rw\n";
        let mounts = parse(table);
        let mounted = |path: &str, device: &str, root: &str, kind: &str| Mounted {
            path: path.into(),
            device: device.into(),
            root: root.into(),
            kind: kind.into(),
        };
        let expected = [
            mounted("/mnt2", "98:0", "/mnt1", "ext3"),
            mounted("/a b\\c", "0:30", "/", "tmpfs"),
        ];
        assert_eq!(mounts, expected);
    }
}
