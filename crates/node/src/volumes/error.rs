//! Errors of volumes.

use std::{fmt, io, path::Path};

use super::container_mounts::{MakeMountError, ResolveMountsError};

/// An error of the volume manager. Its messages are shown to users, in events and container statuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeManagerError {
    /// Some volumes of the pod cannot be mounted yet; the others are mounted. The pod waits, and the agent retries.
    #[error("{}", event_messages(.0).join("; "))]
    SetUp(Vec<VolumeFailure>),
    /// A mount of a container is invalid: the container waits with reason `CreateContainerConfigError`.
    #[error(transparent)]
    ResolveMounts(#[from] ResolveMountsError),
    /// The source of a mount cannot be created: the container waits with reason `CreateContainerConfigError`.
    #[error(transparent)]
    MakeMount(#[from] MakeMountError),
    /// The volume of a `fileKeyRef` is not mounted, or has no files on the host.
    #[error("cannot find the volume {0:?} referenced by FileKeyRef")]
    FileKeyVolume(String),
    /// File I/O in the data directory of the node failed.
    #[error("{operation}: {source}")]
    Io {
        /// The operation and its path.
        operation: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A directory to remove contains a mount that the node did not create. Neither is removed.
    #[error(
        "{0} is a mount that the node did not create; unmount it, then the directory of its pod can be removed"
    )]
    ForeignMount(String),
}

/// A volume that cannot be mounted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFailure {
    /// Name of the volume in the pod.
    pub volume: String,
    /// Why it is not mounted.
    pub cause: MountFailure,
}

/// Why a volume is not mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountFailure {
    /// The volume could not be processed: for example an unbound claim, or a volume type that the node does not support.
    Unprocessed(String),
    /// A step of mounting the volume failed. Contains the event message.
    StepFailed(String),
}

// --- VolumeManagerError ---

impl VolumeManagerError {
    /// Messages of the `FailedMount` events.
    ///
    /// There is no event after upstream's timeout of two minutes: upstream records none either, because the steps that failed were
    /// reported when they failed.
    // upstream: pkg/kubelet/kubelet.go SyncPod
    pub fn event_messages(&self) -> Vec<String> {
        match self {
            VolumeManagerError::SetUp(failures) => event_messages(failures),
            other => vec![other.to_string()],
        }
    }

    pub(super) fn io(operation: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        VolumeManagerError::Io {
            operation: format!("{operation} {}", path.display()),
            source: source.into(),
        }
    }
}

/// Upstream's messages: one for each failed volume, and one for all unprocessed volumes together.
fn event_messages(failures: &[VolumeFailure]) -> Vec<String> {
    let failed = failures.iter().filter_map(|failure| match &failure.cause {
        MountFailure::StepFailed(message) => Some(message.clone()),
        MountFailure::Unprocessed(_) => None,
    });
    let unprocessed =
        unprocessed_reasons(failures).map(|reasons| unmounted_volumes_message(failures, &reasons));
    failed.chain(unprocessed).collect()
}

fn unprocessed_reasons(failures: &[VolumeFailure]) -> Option<String> {
    let reasons: Vec<_> = failures
        .iter()
        .filter_map(|failure| match &failure.cause {
            MountFailure::Unprocessed(reason) => Some(reason.as_str()),
            MountFailure::StepFailed(_) => None,
        })
        .collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

// upstream: pkg/kubelet/volumemanager/volume_manager.go WaitForAttachAndMount
fn unmounted_volumes_message(failures: &[VolumeFailure], reason: &str) -> String {
    let all: Vec<_> = failures.iter().map(|failure| failure.volume.as_str()).collect();
    let unprocessed: Vec<_> = failures
        .iter()
        .filter(|failure| matches!(failure.cause, MountFailure::Unprocessed(_)))
        .map(|failure| failure.volume.as_str())
        .collect();
    format!(
        "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process volumes=[{}]: {reason}",
        all.join(" "),
        unprocessed.join(" ")
    )
}

// --- MountFailure ---

impl MountFailure {
    /// A failed step of mounting, with upstream's event message.
    // upstream: pkg/volume/util/operationexecutor/operation_executor.go GenerateError
    pub(super) fn step_failed(step: &str, volume: &str, reason: impl fmt::Display) -> Self {
        MountFailure::StepFailed(format!(
            "MountVolume.{step} failed for volume {volume:?} : {reason}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_events_and_errors_like_upstream() {
        let failed = VolumeFailure {
            volume: "config".to_owned(),
            cause: MountFailure::step_failed("SetUp", "config", "configmap \"x\" not found"),
        };
        let unprocessed = VolumeFailure {
            volume: "data".to_owned(),
            cause: MountFailure::Unprocessed("error processing PVC shop/data: PVC is not bound".to_owned()),
        };
        let one = VolumeManagerError::SetUp(vec![failed.clone()]);
        let set_up = "MountVolume.SetUp failed for volume \"config\" : configmap \"x\" not found";
        assert_eq!(one.event_messages(), [set_up]);
        let both = VolumeManagerError::SetUp(vec![failed, unprocessed]);
        let message = "Unable to attach or mount volumes: unmounted volumes=[config data], unattached volumes=[], failed to process volumes=[data]: error processing PVC shop/data: PVC is not bound";
        assert_eq!(both.event_messages(), [set_up, message]);
        assert_eq!(both.to_string(), format!("{set_up}; {message}"));
    }
}
