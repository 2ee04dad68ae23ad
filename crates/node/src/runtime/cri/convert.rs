//! Converts CRI messages to sandboxes, containers and images.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::jiff::Timestamp;

use crate::{
    PodIdentity,
    runtime::{
        Container, ContainerExit, ContainerId, ContainerState, Image, Sandbox, SandboxId, SandboxState,
        labels,
    },
};

use super::messages;

/// Converts a listed sandbox. Only its status has the IPs.
pub(super) fn sandbox(listed: messages::PodSandbox, addresses: Vec<IpAddr>) -> Sandbox {
    let attempt = listed.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
    let identity = match listed.metadata {
        Some(metadata) => PodIdentity {
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
        },
        None => pod(&listed.labels),
    };
    Sandbox {
        id: SandboxId(listed.id),
        pod: identity,
        attempt,
        state: sandbox_state(listed.state),
        created: time(listed.created_at),
        addresses,
        labels: listed.labels,
        annotations: listed.annotations,
    }
}

/// Converts a sandbox state. Unknown values are not ready.
pub(super) fn sandbox_state(state: i32) -> SandboxState {
    match messages::PodSandboxState::try_from(state) {
        Ok(messages::PodSandboxState::Ready) => SandboxState::Ready,
        _ => SandboxState::NotReady,
    }
}

/// Returns the pod IPs; none with the host network.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_sandbox.go determinePodSandboxIPs
pub(super) fn addresses(status: &messages::PodSandboxStatus) -> Vec<IpAddr> {
    let Some(network) = &status.network else {
        return Vec::new();
    };
    std::iter::once(&network.ip)
        .chain(network.additional_ips.iter().map(|more| &more.ip))
        .filter_map(|ip| ip.parse().ok())
        .collect()
}

/// Converts a listed container with its status.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go toKubeContainerStatus
pub(super) fn container(listed: messages::Container, status: &messages::ContainerStatus) -> Container {
    let metadata = listed.metadata.unwrap_or_default();
    Container {
        pod: pod(&listed.labels),
        name: labelled(&listed.labels, labels::CONTAINER_NAME).unwrap_or(metadata.name),
        id: ContainerId(listed.id),
        sandbox: SandboxId(listed.pod_sandbox_id),
        attempt: metadata.attempt,
        image: status
            .image
            .as_ref()
            .map(|image| image.image.clone())
            .unwrap_or_default(),
        image_id: if status.image_ref.is_empty() {
            status.image_id.clone()
        } else {
            status.image_ref.clone()
        },
        created: time(listed.created_at),
        state: container_state(status),
        annotations: listed.annotations,
        labels: listed.labels,
    }
}

/// Returns the pod of a sandbox or container, from its labels.
pub(super) fn pod(of: &BTreeMap<String, String>) -> PodIdentity {
    let text = |name| labelled(of, name).unwrap_or_default();
    PodIdentity {
        namespace: text(labels::POD_NAMESPACE),
        name: text(labels::POD_NAME),
        uid: text(labels::POD_UID),
    }
}

fn labelled(labels: &BTreeMap<String, String>, name: &str) -> Option<String> {
    labels.get(name).cloned()
}

fn container_state(status: &messages::ContainerStatus) -> ContainerState {
    match messages::ContainerState::try_from(status.state) {
        Ok(messages::ContainerState::Created) => ContainerState::Created,
        Ok(messages::ContainerState::Running) => ContainerState::Running {
            started: time(status.started_at),
        },
        Ok(messages::ContainerState::Exited) => ContainerState::Exited(exit(status)),
        Ok(messages::ContainerState::Unknown) | Err(_) => ContainerState::Unknown,
    }
}

fn exit(status: &messages::ContainerStatus) -> ContainerExit {
    let reason = match (status.reason.as_str(), status.exit_code) {
        ("", 0) => "Completed",
        ("", _) => "Error",
        (reason, _) => reason,
    };
    ContainerExit {
        code: status.exit_code,
        signal: None,
        // containerd records the start after the process was started; a short process has exited before.
        started: (status.started_at > 0).then(|| time(status.started_at.min(status.finished_at))),
        finished: time(status.finished_at),
        reason: reason.to_owned(),
        message: status.message.clone(),
    }
}

/// Converts an image.
pub(super) fn image(image: messages::Image) -> Image {
    Image {
        id: image.id,
        tags: image.repo_tags,
        digests: image.repo_digests,
        size: image.size,
        user: image.uid.map(|uid| uid.value),
        user_name: Some(image.username).filter(|name| !name.is_empty()),
        pinned: image.pinned,
    }
}

/// Converts nanoseconds since the epoch.
fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: messages::ContainerState) -> messages::ContainerStatus {
        messages::ContainerStatus {
            state: state.into(),
            started_at: 1_000_000_000,
            finished_at: 2_000_000_000,
            ..messages::ContainerStatus::default()
        }
    }

    #[test]
    fn exit_has_a_default_reason() {
        for (code, reason, expected) in [
            (0, "", "Completed"),
            (3, "", "Error"),
            (137, "OOMKilled", "OOMKilled"),
            (128, "StartError", "StartError"),
        ] {
            let status = messages::ContainerStatus {
                exit_code: code,
                reason: reason.to_owned(),
                ..status(messages::ContainerState::Exited)
            };
            assert_eq!(exit(&status).reason, expected);
        }
    }

    #[test]
    fn container_that_never_started_has_no_start_time() {
        let status = messages::ContainerStatus {
            started_at: 0,
            ..status(messages::ContainerState::Exited)
        };
        assert_eq!(exit(&status).started, None);
    }

    #[test]
    fn start_is_not_after_exit() {
        let status = messages::ContainerStatus {
            started_at: 3_000_000_000,
            ..status(messages::ContainerState::Exited)
        };
        let exit = exit(&status);
        assert_eq!(exit.started, Some(exit.finished));
    }

    #[test]
    fn unknown_states() {
        let status = messages::ContainerStatus {
            state: 17,
            ..messages::ContainerStatus::default()
        };
        assert_eq!(container_state(&status), ContainerState::Unknown);
        assert_eq!(sandbox_state(17), SandboxState::NotReady);
    }

    #[test]
    fn primary_ip_is_first() {
        let ip = |text: &str| messages::PodIp { ip: text.to_owned() };
        let with = |first: &str, more| messages::PodSandboxStatus {
            network: Some(messages::PodSandboxNetworkStatus {
                ip: first.to_owned(),
                additional_ips: more,
            }),
            ..messages::PodSandboxStatus::default()
        };
        let both = addresses(&with("10.0.0.2", vec![ip("fd00::2")]));
        assert_eq!(both.len(), 2);
        assert_eq!(both[0].to_string(), "10.0.0.2");
        assert!(addresses(&with("", Vec::new())).is_empty());
        assert!(addresses(&messages::PodSandboxStatus::default()).is_empty());
    }

    #[test]
    fn identifies_container_by_labels() {
        let listed = messages::Container {
            id: "c1".to_owned(),
            labels: BTreeMap::from([
                (labels::POD_UID.to_owned(), "u1".to_owned()),
                (labels::CONTAINER_NAME.to_owned(), "app".to_owned()),
            ]),
            ..messages::Container::default()
        };
        let converted = container(listed, &status(messages::ContainerState::Running));
        assert_eq!(
            (converted.pod.uid.as_str(), converted.name.as_str()),
            ("u1", "app")
        );
        assert!(converted.is_running());
    }
}
