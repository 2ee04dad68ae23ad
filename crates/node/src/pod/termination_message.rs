//! Termination messages: from a file, or from the end of the log.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go getTerminationMessage, readLastStringFromContainerLogs

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Container;

use super::{
    spec::ContainerAnnotations,
    termination_message_file::{self, lossy_text},
};
use crate::blocking::run_blocking;
use crate::runtime::{self, ContainerState, LogOptions, Mount, MountPropagation, MountSource, Runtime};

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
pub(super) async fn make_message_mount(
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
    let message_file = path.clone();
    run_blocking(move || termination_message_file::create(&message_file)).await?;
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
    let read = run_blocking(move || termination_message_file::read(&message_file)).await;
    let mut message = match read {
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
    lossy_text(&bytes, u64::try_from(MAX_MESSAGE_FROM_LOG).unwrap_or(u64::MAX))
}
