//! What can go wrong with volumes.

use std::{io, path::Path};

/// Why volumes are not as they should be. The words reach users in events and statuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// Some volumes of a pod cannot be used yet; all others can. The pod waits, and it is tried again.
    #[error("{}", events(.0).join("; "))]
    SetUp(Vec<Failure>),
    /// A container cannot have what it wants mounted: its status waits with `CreateContainerConfigError`.
    #[error("{0}")]
    Mount(String),
    /// The node's own folders cannot be read or written.
    #[error("{what}: {source}")]
    Disk {
        /// What was tried, and where.
        what: String,
        /// What came of it.
        source: io::Error,
    },
    /// Something that is not ours is mounted in a folder that is to go. It is left alone, and the folder with it.
    #[error("{0} is a mount that the node did not make; unmount it, then its pod's folder can go")]
    Foreign(String),
}

/// A volume that cannot be used yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its name in the pod.
    pub volume: String,
    /// What is wrong.
    pub trouble: Trouble,
}

/// What is wrong with a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is not known what to mount: a claim that is not bound, a type that the node does not have.
    Unknown(String),
    /// It is known, and failed: in the words of the event.
    Failed(String),
}

// --- VolumeError ---

impl VolumeError {
    /// The messages of the events `FailedMount` that a pod gets at once.
    pub fn events(&self) -> Vec<String> {
        match self {
            VolumeError::SetUp(failures) => events(failures),
            other => vec![other.to_string()],
        }
    }

    /// The message of the event `FailedMount` when a pod has waited for two minutes.
    pub fn waited_too_long(&self) -> String {
        match self {
            VolumeError::SetUp(failures) => unmounted(failures, "context deadline exceeded"),
            other => other.to_string(),
        }
    }

    /// An error of the node's own folders.
    pub(super) fn disk(what: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        VolumeError::Disk {
            what: format!("{what} {}", path.display()),
            source: source.into(),
        }
    }

    /// When a task of ours was given up, which only the end of the process does.
    pub(super) fn given_up(error: tokio::task::JoinError) -> Self {
        VolumeError::Disk {
            what: "volumes".to_owned(),
            source: io::Error::other(error),
        }
    }
}

/// What upstream tells of volumes that are not there: of each that failed, and of all whose place is not known together.
fn events(failures: &[Failure]) -> Vec<String> {
    let failed = failures.iter().filter_map(|failure| match &failure.trouble {
        Trouble::Failed(message) => Some(message.clone()),
        Trouble::Unknown(_) => None,
    });
    let unknown = unknown(failures).map(|why| unmounted(failures, &why));
    failed.chain(unknown).collect()
}

fn unknown(failures: &[Failure]) -> Option<String> {
    let words: Vec<_> = failures
        .iter()
        .filter_map(|failure| match &failure.trouble {
            Trouble::Unknown(why) => Some(why.as_str()),
            Trouble::Failed(_) => None,
        })
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn unmounted(failures: &[Failure], why: &str) -> String {
    let all: Vec<_> = failures.iter().map(|failure| failure.volume.as_str()).collect();
    let unknown: Vec<_> = failures
        .iter()
        .filter(|failure| matches!(failure.trouble, Trouble::Unknown(_)))
        .map(|failure| failure.volume.as_str())
        .collect();
    format!(
        "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process volumes=[{}]: {why}",
        all.join(" "),
        unknown.join(" ")
    )
}

// --- Trouble ---

impl Trouble {
    /// A step that failed, as events tell it.
    pub(super) fn step(step: &str, volume: &str, why: &str) -> Self {
        Trouble::Failed(format!("MountVolume.{step} failed for volume {volume:?} : {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_errors_have_the_words_of_upstream() {
        let failed = Failure {
            volume: "config".to_owned(),
            trouble: Trouble::step("SetUp", "config", "configmap \"x\" not found"),
        };
        let unknown = Failure {
            volume: "data".to_owned(),
            trouble: Trouble::Unknown("error processing PVC shop/data: PVC is not bound".to_owned()),
        };
        let one = VolumeError::SetUp(vec![failed.clone()]);
        let set_up = "MountVolume.SetUp failed for volume \"config\" : configmap \"x\" not found";
        assert_eq!(one.events(), [set_up]);
        assert_eq!(
            one.waited_too_long(),
            "Unable to attach or mount volumes: unmounted volumes=[config], unattached volumes=[], failed to process volumes=[]: context deadline exceeded"
        );
        let both = VolumeError::SetUp(vec![failed, unknown]);
        let words = "Unable to attach or mount volumes: unmounted volumes=[config data], unattached volumes=[], failed to process volumes=[data]: error processing PVC shop/data: PVC is not bound";
        assert_eq!(both.events(), [set_up, words]);
        assert_eq!(both.to_string(), format!("{set_up}; {words}"));
    }
}
