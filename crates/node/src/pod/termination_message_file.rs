//! Files with termination messages. Blocks on file I/O.

use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use rustix::fs::{Mode, OFlags};

/// Maximum size of a message from the file.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go getTerminationMessage
const MAX_MESSAGE_LENGTH: u64 = 4 << 10;

/// Creates an empty message file that all users in the container can write.
pub(super) fn create(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, "")?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
}

/// The end of a file of any size. The container controls the path: symbolic links and special files are rejected.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let size = metadata.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MAX_MESSAGE_LENGTH)))?;
    let mut bytes = Vec::new();
    file.take(MAX_MESSAGE_LENGTH).read_to_end(&mut bytes)?;
    Ok(lossy_text(&bytes, MAX_MESSAGE_LENGTH))
}

/// Lossy UTF-8 of at most `max_length` bytes: replacement characters are longer than the bytes they replace.
pub(super) fn lossy_text(bytes: &[u8], max_length: u64) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    let max_length = usize::try_from(max_length).unwrap_or(usize::MAX);
    text.truncate(text.floor_char_boundary(max_length));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_end_of_a_file_of_any_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("message");
        let file = fs::File::create(&path).unwrap();
        // Ten gibibytes without a block on the disk.
        file.set_len(10 << 30).unwrap();
        let text = read(&path).unwrap();
        assert_eq!(text.len(), 4096);
        fs::write(&path, "the reason").unwrap();
        assert_eq!(read(&path).unwrap(), "the reason");
        fs::write(&path, [0xff; 9000]).unwrap();
        assert!(read(&path).unwrap().len() <= 4096);
    }

    #[test]
    fn rejects_symlinks_and_special_files() {
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join("secret");
        fs::write(&secret, "of the machine").unwrap();
        let link = directory.path().join("message");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        assert!(read(&link).is_err());
        assert!(read(directory.path()).is_err());
        assert!(read(Path::new("/dev/zero")).is_err());
    }
}
