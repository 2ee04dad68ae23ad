//! What a container that ended leaves as its message: a file, or the end of its log.

use std::{
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Container;
use rustix::fs::{Mode, OFlags};
use tokio::task::spawn_blocking;

use super::spec::Remembered;
use crate::runtime::{self, ContainerState, LogOptions, Mount, MountSource, Propagation, Runtime};

/// What of the file is read, from its end.
const MOST: u64 = 4 << 10;
/// The same as a length.
const MOST_BYTES: usize = 4 << 10;
/// What of the log is read, from its end.
const MOST_OF_LOG: usize = 2048;
const LINES: u64 = 80;
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the message of a container is on this machine.
fn path(folder: &Path, name: &str, attempt: u32) -> PathBuf {
    folder
        .join("containers")
        .join(name)
        .join(format!("message-{attempt}"))
}

/// A file for the message of a container that is made, mounted where the container looks for it.
pub(super) fn mount(folder: &Path, container: &Container, attempt: u32) -> io::Result<Option<Mount>> {
    let target = match container.termination_message_path.as_deref() {
        None => "/dev/termination-log",
        Some("") => return Ok(None),
        Some(path) => path,
    };
    let path = path(folder, &container.name, attempt);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, "")?;
    // Whoever the container runs as has to be able to write it.
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&path, everybody)?;
    let target = if target.starts_with('/') {
        target.to_owned()
    } else {
        format!("/{target}")
    };
    Ok(Some(Mount {
        source: MountSource::Host(path),
        target,
        read_only: false,
        propagation: Propagation::Private,
        recursive_read_only: false,
    }))
}

/// The message of a container, once it has ended.
pub(super) async fn read(
    runtime: &dyn Runtime,
    folder: &Path,
    container: &runtime::Container,
) -> Option<String> {
    let ContainerState::Exited(exit) = &container.state else {
        return None;
    };
    let path = path(folder, &container.name, container.attempt);
    let wanted = path.clone();
    let read = spawn_blocking(move || read_file(&wanted)).await;
    let mut message = match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Some(format!(
                "Error on reading termination log {}: {error}",
                path.display()
            ));
        }
    };
    let policy = Remembered::of(&container.annotations).message_policy;
    if message.is_empty() && policy == "FallbackToLogsOnError" && exit.code != 0 {
        message = end_of_log(runtime, container).await;
    }
    (!message.is_empty()).then_some(message)
}

/// The end of a file, however large it is. A container writes it: what is not a plain file, or is a link to one, is not read.
fn read_file(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let size = metadata.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MOST)))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(text(&bytes, MOST_BYTES))
}

/// Bytes as text of so many bytes at most: what is not text gets longer when it is replaced.
fn text(bytes: &[u8], most: usize) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.truncate(text.floor_char_boundary(most));
    text
}

async fn end_of_log(runtime: &dyn Runtime, container: &runtime::Container) -> String {
    let options = LogOptions {
        tail: Some(LINES),
        ..LogOptions::default()
    };
    let mut bytes = Vec::new();
    let reading = async {
        let mut lines = runtime.logs(&container.id, &options).await.ok()?;
        while let Some(Ok(line)) = lines.next().await {
            bytes.extend_from_slice(&line.bytes);
            let more = bytes.len().saturating_sub(MOST_OF_LOG);
            bytes.drain(..more);
        }
        Some(())
    };
    // Whatever was read by then is the message.
    let _ = tokio::time::timeout(PATIENCE, reading).await;
    text(&bytes, MOST_OF_LOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_file_of_any_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("message");
        let file = std::fs::File::create(&path).unwrap();
        // Ten gibibytes without a block on the disk.
        file.set_len(10 << 30).unwrap();
        let text = read_file(&path).unwrap();
        assert_eq!(text.len(), 4096);
        std::fs::write(&path, "the reason").unwrap();
        assert_eq!(read_file(&path).unwrap(), "the reason");
        std::fs::write(&path, [0xff; 9000]).unwrap();
        assert!(read_file(&path).unwrap().len() <= 4096);
    }

    #[test]
    fn a_link_and_a_pipe_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "of the machine").unwrap();
        let link = folder.path().join("message");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        assert!(read_file(&link).is_err());
        assert!(read_file(folder.path()).is_err());
        assert!(read_file(Path::new("/dev/zero")).is_err());
    }
}
