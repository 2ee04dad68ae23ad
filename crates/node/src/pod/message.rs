//! What a container that ended leaves as its message: a file, or the end of its log.

use std::{
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Container;

use super::spec::Remembered;
use crate::runtime::{self, ContainerState, LogOptions, Mount, MountSource, Propagation, Runtime};

/// What of the file is read, from its end.
const MOST: u64 = 4096;
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
    let mut message = match read_file(&path) {
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

fn read_file(path: &Path) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MOST)))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
    String::from_utf8_lossy(&bytes).into_owned()
}
