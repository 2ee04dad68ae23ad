//! Which container is meant, in the words of upstream when there is none.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

use crate::runtime::ContainerId;

/// The container of that name as the pod wants it: whether it has a terminal. `None` if the pod has none of that name.
pub(super) fn has_terminal(pod: &Pod, name: &str) -> Option<bool> {
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

/// The container whose log is meant: that which runs, or the last one that did; with `previous` the one before.
pub(super) fn logged(pod: &Pod, name: &str, previous: bool) -> Result<ContainerId, String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let place = format!("container {name:?} in pod {pod_name:?}");
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
    let status = status.ok_or_else(|| format!("{place} is not available"))?;
    let last = ended(status.last_state.as_ref());
    let state = status.state.clone().unwrap_or_default();
    if previous {
        return match last {
            Some(id) if !id.is_empty() => Ok(own_id(id)),
            _ => Err(format!(
                "previous terminated container {name:?} in pod {pod_name:?} not found"
            )),
        };
    }
    if state.running.is_some() {
        return Ok(own_id(running_id(status)));
    }
    if let Some(id) = ended(Some(&state)) {
        // When the next one could not be begun, the one before is meant.
        return match (id, last) {
            ("", Some(last)) if !last.is_empty() => Ok(own_id(last)),
            ("", _) => Err(format!("{place} is terminated")),
            (id, _) => Ok(own_id(id)),
        };
    }
    match (last, state.waiting) {
        (Some(""), _) => Err(format!("{place} is terminated")),
        (Some(id), _) => Ok(own_id(id)),
        (None, Some(waiting)) => {
            let reason = waiting.reason.unwrap_or_default();
            let why = match reason.as_str() {
                "ErrImagePull" => "image can't be pulled",
                "ImagePullBackOff" => "trying and failing to pull image",
                other => other,
            };
            Err(format!("{place} is waiting to start: {why}"))
        }
        (None, None) => Err(format!("{place} is waiting to start - no logs yet")),
    }
}

/// The id of a container that has ended, perhaps empty.
fn ended(state: Option<&ContainerState>) -> Option<&str> {
    let terminated = state?.terminated.as_ref()?;
    Some(terminated.container_id.as_deref().unwrap_or_default())
}

fn running_id(status: &ContainerStatus) -> &str {
    status.container_id.as_deref().unwrap_or_default()
}

/// An id without the name of its runtime.
fn own_id(id: &str) -> ContainerId {
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
    fn a_log_is_that_of_the_container_that_runs_or_ran() {
        let ended = |id: &str| json!({"terminated": {"exitCode": 1, "containerID": id}});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let none = json!({});
        let running = json!({"running": {}});
        let before = ended("docker://before");
        for (state, last, previous, expected) in [
            (&running, &none, false, Ok("now")),
            (&running, &before, true, Ok("before")),
            (
                &running,
                &none,
                true,
                Err("previous terminated container \"c\" in pod \"p\" not found"),
            ),
            (&ended("docker://x"), &none, false, Ok("x")),
            (&ended(""), &before, false, Ok("before")),
            (
                &ended(""),
                &none,
                false,
                Err("container \"c\" in pod \"p\" is terminated"),
            ),
            (&waiting("CrashLoopBackOff"), &before, false, Ok("before")),
            (
                &waiting("ContainerCreating"),
                &none,
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            ),
            (
                &waiting("ErrImagePull"),
                &none,
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: image can't be pulled"),
            ),
            (
                &waiting("ImagePullBackOff"),
                &none,
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image"),
            ),
            (
                &none,
                &none,
                false,
                Err("container \"c\" in pod \"p\" is waiting to start - no logs yet"),
            ),
        ] {
            let found = logged(&pod(&status(state, last)), "c", previous);
            let expected = expected
                .map(|id| ContainerId(id.to_owned()))
                .map_err(ToOwned::to_owned);
            assert_eq!(found, expected, "{state} {last} {previous}");
        }
        assert_eq!(
            logged(&pod(&status(&none, &none)), "x", false).unwrap_err(),
            "container \"x\" in pod \"p\" is not available"
        );
    }

    #[test]
    fn containers_of_all_sorts_are_found() {
        let pod = pod(&status(&json!({}), &json!({})));
        assert_eq!(has_terminal(&pod, "c"), Some(true));
        assert_eq!(has_terminal(&pod, "e"), Some(false));
        assert_eq!(has_terminal(&pod, "x"), None);
    }
}
