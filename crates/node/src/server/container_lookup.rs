//! Finds containers of a pod; the error messages are upstream's.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

use crate::runtime::ContainerId;

/// `tty` of the container with this name in the pod spec; `None` if there is none.
pub(super) fn container_tty(pod: &Pod, name: &str) -> Option<bool> {
    let spec = pod.spec.as_ref()?;
    let containers = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
        .map(|container| (&container.name, container.tty));
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .map(|container| (&container.name, container.tty));
    containers
        .chain(ephemeral)
        .find(|(found, _)| *found == name)
        .map(|(_, tty)| tty.unwrap_or_default())
}

/// Which instance of a container a log request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LogInstance {
    /// The running container, or the last one that terminated.
    #[default]
    Latest,
    /// The one before.
    Previous,
}

/// Why a container has no log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ContainerLogError {
    #[error("container {container:?} in pod {pod:?} is not available")]
    NotAvailable { container: String, pod: String },
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious { container: String, pod: String },
    #[error("container {container:?} in pod {pod:?} is terminated")]
    Terminated { container: String, pod: String },
    #[error("container {container:?} in pod {pod:?} is waiting to start: {reason}")]
    Waiting {
        container: String,
        pod: String,
        reason: String,
    },
    #[error("container {container:?} in pod {pod:?} is waiting to start - no logs yet")]
    NoLogsYet { container: String, pod: String },
}

/// ID of the container for a log request.
// upstream: pkg/kubelet/kubelet_pods.go validateContainerLogStatus
pub(super) fn container_for_logs(
    pod: &Pod,
    name: &str,
    instance: LogInstance,
) -> Result<ContainerId, ContainerLogError> {
    let container = name.to_owned();
    let pod_name = pod.metadata.name.clone().unwrap_or_default();
    let status = pod.status.as_ref().and_then(|status| {
        let all = [
            &status.container_statuses,
            &status.init_container_statuses,
            &status.ephemeral_container_statuses,
        ];
        all.into_iter()
            .flatten()
            .flatten()
            .find(|status| status.name == name)
    });
    let Some(status) = status else {
        return Err(ContainerLogError::NotAvailable {
            container,
            pod: pod_name,
        });
    };
    let last = terminated_id(status.last_state.as_ref());
    let state = status.state.clone().unwrap_or_default();
    if instance == LogInstance::Previous {
        return match last {
            Some(id) if !id.is_empty() => Ok(bare_id(id)),
            _ => Err(ContainerLogError::NoPrevious {
                container,
                pod: pod_name,
            }),
        };
    }
    if state.running.is_some() {
        return Ok(bare_id(running_id(status)));
    }
    if let Some(id) = terminated_id(Some(&state)) {
        // A container that failed to start has no ID and no log: use the one before.
        return match (id, last) {
            ("", Some(last)) if !last.is_empty() => Ok(bare_id(last)),
            ("", _) => Err(ContainerLogError::Terminated {
                container,
                pod: pod_name,
            }),
            (id, _) => Ok(bare_id(id)),
        };
    }
    match (last, state.waiting) {
        (Some(""), _) => Err(ContainerLogError::Terminated {
            container,
            pod: pod_name,
        }),
        (Some(id), _) => Ok(bare_id(id)),
        (None, Some(waiting)) => {
            let reason = waiting.reason.unwrap_or_default();
            let reason = match reason.as_str() {
                "ErrImagePull" => "image can't be pulled",
                "ImagePullBackOff" => "trying and failing to pull image",
                other => other,
            };
            Err(ContainerLogError::Waiting {
                container,
                pod: pod_name,
                reason: reason.to_owned(),
            })
        }
        (None, None) => Err(ContainerLogError::NoLogsYet {
            container,
            pod: pod_name,
        }),
    }
}

/// ID of a terminated container, possibly empty.
fn terminated_id(state: Option<&ContainerState>) -> Option<&str> {
    let terminated = state?.terminated.as_ref()?;
    Some(terminated.container_id.as_deref().unwrap_or_default())
}

fn running_id(status: &ContainerStatus) -> &str {
    status.container_id.as_deref().unwrap_or_default()
}

/// A container ID without its runtime prefix.
fn bare_id(id: &str) -> ContainerId {
    ContainerId(id.split_once("://").map_or(id, |(_, id)| id).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "tty": true}], "ephemeralContainers": [{"name": "e"}]},
            "status": {"containerStatuses": [status]},
        }))
        .unwrap()
    }

    fn status(state: &Value, last: &Value) -> Value {
        json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "containerID": "docker://now", "state": state, "lastState": last})
    }

    #[test]
    fn selects_running_or_last_terminated_container() {
        let ended = |id: &str| json!({"terminated": {"exitCode": 1, "containerID": id}});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let none = json!({});
        let running = json!({"running": {}});
        let before = ended("docker://before");
        for (state, last, instance, expected) in [
            (&running, &none, LogInstance::Latest, Ok("now")),
            (&running, &before, LogInstance::Previous, Ok("before")),
            (
                &running,
                &none,
                LogInstance::Previous,
                Err("previous terminated container \"c\" in pod \"p\" not found"),
            ),
            (&ended("docker://x"), &none, LogInstance::Latest, Ok("x")),
            (&ended(""), &before, LogInstance::Latest, Ok("before")),
            (
                &ended(""),
                &none,
                LogInstance::Latest,
                Err("container \"c\" in pod \"p\" is terminated"),
            ),
            (
                &waiting("CrashLoopBackOff"),
                &before,
                LogInstance::Latest,
                Ok("before"),
            ),
            (
                &waiting("ContainerCreating"),
                &none,
                LogInstance::Latest,
                Err("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            ),
            (
                &waiting("ErrImagePull"),
                &none,
                LogInstance::Latest,
                Err("container \"c\" in pod \"p\" is waiting to start: image can't be pulled"),
            ),
            (
                &waiting("ImagePullBackOff"),
                &none,
                LogInstance::Latest,
                Err("container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image"),
            ),
            (
                &none,
                &none,
                LogInstance::Latest,
                Err("container \"c\" in pod \"p\" is waiting to start - no logs yet"),
            ),
        ] {
            let found = container_for_logs(&pod(&status(state, last)), "c", instance);
            let found = found.map(|id| id.0).map_err(|error| error.to_string());
            let expected = expected.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
            assert_eq!(found, expected, "{state} {last} {instance:?}");
        }
        assert_eq!(
            container_for_logs(&pod(&status(&none, &none)), "x", LogInstance::Latest)
                .unwrap_err()
                .to_string(),
            "container \"x\" in pod \"p\" is not available"
        );
    }

    #[test]
    fn finds_containers_of_all_types() {
        let pod = pod(&status(&json!({}), &json!({})));
        assert_eq!(container_tty(&pod, "c"), Some(true));
        assert_eq!(container_tty(&pod, "e"), Some(false));
        assert_eq!(container_tty(&pod, "x"), None);
    }
}
