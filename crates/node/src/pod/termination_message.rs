//! Termination messages: from a file, or from the end of the log.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go getTerminationMessage, readLastStringFromContainerLogs

use std::{
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Container;
use rustix::fs::{Mode, OFlags};
use tokio::task::spawn_blocking;

use super::spec::ContainerAnnotations;
use crate::runtime::{self, ContainerState, LogOptions, Mount, MountPropagation, MountSource, Runtime};

/// Maximum size of a message from the file.
const MAX_MESSAGE_FROM_FILE: u64 = 4 << 10;
/// [`MAX_MESSAGE_FROM_FILE`] as the length of a string.
const MAX_MESSAGE_LENGTH: usize = 4 << 10;
/// Maximum size of a message from the log.
const MAX_MESSAGE_FROM_LOG: usize = 2048;
/// Number of lines read from the end of the log.
const LINES: u64 = 80;
const LOG_TIMEOUT: Duration = Duration::from_secs(10);

/// Path of the message file on the node.
fn message_path(directory: &Path, name: &str, attempt: u32) -> PathBuf {
    directory
        .join("containers")
        .join(name)
        .join(format!("message-{attempt}"))
}

/// Creates the message file, and mounts it at `terminationMessagePath`.
pub(super) fn make_message_mount(
    directory: &Path,
    container: &Container,
    attempt: u32,
) -> io::Result<Option<Mount>> {
    let target = match container.termination_message_path.as_deref() {
        None => "/dev/termination-log",
        Some("") => return Ok(None),
        Some(path) => path,
    };
    let path = message_path(directory, &container.name, attempt);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(&path, "")?;
    // All users in the container must be able to write the file.
    let writable_by_all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&path, writable_by_all)?;
    let target = if target.starts_with('/') {
        target.to_owned()
    } else {
        format!("/{target}")
    };
    Ok(Some(Mount {
        source: MountSource::Host(path),
        target,
        read_only: false,
        propagation: MountPropagation::Private,
        recursive_read_only: false,
    }))
}

/// The termination message of an exited container.
pub(super) async fn read_termination_message(
    runtime: &dyn Runtime,
    directory: &Path,
    container: &runtime::Container,
) -> Option<String> {
    let ContainerState::Exited(exit) = &container.state else {
        return None;
    };
    let path = message_path(directory, &container.name, container.attempt);
    let message_file = path.clone();
    let read = spawn_blocking(move || read_file(&message_file)).await;
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
    let policy = ContainerAnnotations::parse(&container.annotations).message_policy;
    if message.is_empty() && policy == "FallbackToLogsOnError" && exit.code != 0 {
        message = read_end_of_log(runtime, container).await;
    }
    (!message.is_empty()).then_some(message)
}

/// The end of a file of any size. The container controls the path: symbolic links and special files are rejected.
fn read_file(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let size = metadata.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MAX_MESSAGE_FROM_FILE)))?;
    let mut bytes = Vec::new();
    file.take(MAX_MESSAGE_FROM_FILE).read_to_end(&mut bytes)?;
    Ok(lossy_text(&bytes, MAX_MESSAGE_LENGTH))
}

/// Lossy UTF-8 of at most `max_length` bytes: replacement characters are longer than the bytes they replace.
fn lossy_text(bytes: &[u8], max_length: usize) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.truncate(text.floor_char_boundary(max_length));
    text
}

async fn read_end_of_log(runtime: &dyn Runtime, container: &runtime::Container) -> String {
    let options = LogOptions {
        tail: Some(LINES),
        ..LogOptions::default()
    };
    let mut bytes = Vec::new();
    let reading = async {
        let mut lines = runtime.container_logs(&container.id, &options).await.ok()?;
        while let Some(Ok(line)) = lines.next().await {
            bytes.extend_from_slice(&line.bytes);
            let excess = bytes.len().saturating_sub(MAX_MESSAGE_FROM_LOG);
            bytes.drain(..excess);
        }
        Some(())
    };
    // On timeout the message is what was read so far.
    let _ = tokio::time::timeout(LOG_TIMEOUT, reading).await;
    lossy_text(&bytes, MAX_MESSAGE_FROM_LOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_end_of_a_file_of_any_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("message");
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
    fn rejects_symlinks_and_special_files() {
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "of the machine").unwrap();
        let link = directory.path().join("message");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        assert!(read_file(&link).is_err());
        assert!(read_file(directory.path()).is_err());
        assert!(read_file(Path::new("/dev/zero")).is_err());
    }
}
