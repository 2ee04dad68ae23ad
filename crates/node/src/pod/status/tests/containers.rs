//! One status for each container.

use super::*;
use crate::probes::{ProbeOutcome, ProbeType};

#[test]
fn missing_containers_are_waiting() {
    let status = plain(&["b", "a"]).status();
    let names: Vec<_> = status
        .container_statuses
        .iter()
        .flatten()
        .map(|one| &*one.name)
        .collect();
    assert_eq!(names, ["a", "b"]);
    let a = serde_json::to_value(one(&status.container_statuses, "a")).unwrap();
    let expected = json!({
        "name": "a", "image": "busybox", "imageID": "", "ready": false, "started": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}},
    });
    assert_eq!(a, expected);

    let spec = json!({"initContainers": [{"name": "z"}, {"name": "i"}], "containers": [{"name": "a"}]});
    let status = fixture(spec).status();
    let names: Vec<_> = status
        .init_container_statuses
        .iter()
        .flatten()
        .map(|one| &*one.name)
        .collect();
    assert_eq!(names, ["z", "i"]);
    let waiting = one(&status.container_statuses, "a")
        .state
        .clone()
        .unwrap()
        .waiting
        .unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
}

#[test]
fn running_container_has_a_complete_status() {
    let spec = json!({"containers": [{
        "name": "a", "image": "busybox",
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [
            {"name": "v", "mountPath": "/v"},
            {"name": "w", "mountPath": "/w", "readOnly": true},
            {"name": "x", "mountPath": "/x", "readOnly": true, "recursiveReadOnly": "IfPossible"},
        ],
    }]});
    let status = fixture(spec).sandbox().with("a", 2, running()).status();
    let a = serde_json::to_value(one(&status.container_statuses, "a")).unwrap();
    let expected = json!({
        "name": "a", "image": "busybox:latest", "imageID": "sha256:1", "containerID": "docker://a-2",
        "ready": true, "started": true, "restartCount": 2,
        "state": {"running": {"startedAt": "2023-11-14T22:13:30Z"}},
        "allocatedResources": {"cpu": "100m"},
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [
            {"name": "v", "mountPath": "/v"},
            {"name": "w", "mountPath": "/w", "readOnly": true, "recursiveReadOnly": "Disabled"},
            {"name": "x", "mountPath": "/x", "readOnly": true, "recursiveReadOnly": "Enabled"},
        ],
    });
    assert_eq!(a, expected);
}

#[test]
fn restarted_container_has_its_last_state() {
    let mut fixture = plain(&["a"])
        .sandbox()
        .with("a", 0, exited(3))
        .with("a", 1, running());
    fixture
        .messages
        .insert(ContainerId("a-0".to_owned()), "bye".to_owned());
    let status = fixture.status();
    let a = one(&status.container_statuses, "a");
    assert_eq!(a.restart_count, 1);
    let last = a.last_state.clone().unwrap().terminated.unwrap();
    let expected = json!({
        "exitCode": 3, "reason": "Error", "message": "bye", "containerID": "docker://a-0",
        "startedAt": "2023-11-14T22:13:30Z", "finishedAt": "2023-11-14T22:13:40Z",
    });
    assert_eq!(serde_json::to_value(last).unwrap(), expected);
}

#[test]
fn waiting_reason_replaces_terminated_state() {
    let back_off = WaitingReason {
        reason: "CrashLoopBackOff".to_owned(),
        message: "back-off 10s restarting failed container=a".to_owned(),
    };
    // Policy, state, whether the reason counts.
    let cases = [
        ("Always", exited(1), true),
        ("Always", exited(0), true),
        ("OnFailure", exited(0), false),
        ("Never", exited(1), false),
        ("Always", running(), false),
        ("Always", ContainerState::Created, true),
    ];
    for (policy, state, counts) in cases {
        let mut fixture = plain(&["a"]).sandbox().with("a", 0, state.clone());
        fixture.pod.spec.as_mut().unwrap().restart_policy = Some(policy.to_owned());
        fixture.waiting.insert("a".to_owned(), back_off.clone());
        let status = fixture.status();
        let a = one(&status.container_statuses, "a");
        let reason = a
            .state
            .clone()
            .unwrap()
            .waiting
            .and_then(|waiting| waiting.reason);
        assert_eq!(reason.is_some(), counts, "{policy} {state:?}");
        if counts && matches!(state, ContainerState::Exited(_)) {
            assert!(a.last_state.clone().unwrap().terminated.is_some());
        }
    }
    let mut deleted = plain(&["a"]).sandbox();
    deleted.waiting.insert("a".to_owned(), back_off);
    deleted.pod.metadata.deletion_timestamp = Some(super::super::truncate_to_seconds(at(5)));
    let status = deleted.status();
    let waiting = one(&status.container_statuses, "a")
        .state
        .clone()
        .unwrap()
        .waiting
        .unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("ContainerCreating"));
}

#[test]
fn restart_counts_never_decrease() {
    let reported = json!({"phase": "Running", "containerStatuses": [{
        "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 7, "containerID": "docker://removed",
        "state": {"terminated": {"exitCode": 1}},
    }]});
    let again = plain(&["a"])
        .sandbox()
        .with_api_status(reported.clone())
        .with("a", 0, running())
        .status();
    let a = one(&again.container_statuses, "a");
    assert_eq!(a.restart_count, 8);
    assert_eq!(a.last_state.clone().unwrap().terminated.unwrap().exit_code, 1);
    let same = plain(&["a"])
        .sandbox()
        .with_api_status(reported)
        .with("a", 3, exited(0))
        .status();
    assert_eq!(one(&same.container_statuses, "a").restart_count, 7);
}

#[test]
fn lost_running_container_counts_as_terminated() {
    let reported = |state: Value| {
        json!({"phase": "Running", "containerStatuses": [{
            "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 1, "containerID": "docker://a-1",
            "state": state,
        }]})
    };
    let removed = plain(&["a"]).sandbox().with_api_status(reported(
        json!({"running": {"startedAt": "2023-11-14T22:13:30Z"}}),
    ));
    let status = removed.status();
    let a = one(&status.container_statuses, "a");
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let last = a.last_state.clone().unwrap().terminated.unwrap();
    assert_eq!(
        (last.exit_code, last.reason.as_deref()),
        (137, Some("ContainerStatusUnknown"))
    );
    assert_eq!(a.restart_count, 2);

    // A terminated and removed container keeps its state.
    let terminated_status = plain(&["a"])
        .sandbox()
        .with_api_status(reported(json!({"terminated": {"exitCode": 5}})))
        .status();
    let a = one(&terminated_status.container_statuses, "a");
    assert_eq!(a.state.clone().unwrap().terminated.unwrap().exit_code, 5);
    assert_eq!(a.restart_count, 1);

    // The runtime lost it.
    let lost = plain(&["a"])
        .sandbox()
        .with_api_status(reported(json!({"running": {}})))
        .with("a", 1, ContainerState::Unknown);
    let a = lost.status();
    let a = one(&a.container_statuses, "a")
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap();
    assert_eq!(
        a.message.as_deref(),
        Some("The container could not be located when the pod was terminated")
    );
}

#[test]
fn removed_init_container_succeeded_if_regular_containers_exist() {
    let spec = json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]});
    let status = fixture(spec).sandbox().with("a", 0, running()).status();
    let init = one(&status.init_container_statuses, "i");
    assert!(init.ready);
    assert_eq!(
        init.state.clone().unwrap().terminated.unwrap().reason.as_deref(),
        Some("Completed")
    );
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

#[test]
fn ephemeral_containers_have_their_own_list_and_do_not_affect_the_phase() {
    let mut spec = json!({"containers": [{"name": "a"}]});
    spec["ephemeralContainers"] = json!([{"name": "debug", "image": "busybox", "targetContainerName": "a"}]);
    let status = fixture(spec)
        .sandbox()
        .with("a", 0, running())
        .with("debug", 0, exited(1))
        .status();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let debug = one(&status.ephemeral_container_statuses, "debug");
    assert_eq!(debug.state.clone().unwrap().terminated.unwrap().exit_code, 1);
    assert_eq!(status.container_statuses.unwrap().len(), 1);
}

#[test]
fn probe_results_set_started_and_ready() {
    use ProbeOutcome::{Failure, Success, Unknown};

    let probed = json!({"name": "a", "startupProbe": {}, "readinessProbe": {}});
    let id = ContainerId("a-0".to_owned());
    // Startup, readiness, started, ready.
    let cases = [
        (None, None, false, false),
        (Some(Unknown), None, false, false),
        (Some(Failure), Some(Success), false, false),
        (Some(Success), None, true, false),
        (Some(Success), Some(Failure), true, false),
        (Some(Success), Some(Success), true, true),
    ];
    for (startup, readiness, started, ready) in cases {
        let mut fixture = fixture(json!({"containers": [probed]}))
            .sandbox()
            .with("a", 0, running());
        for (kind, outcome) in [(ProbeType::Startup, startup), (ProbeType::Readiness, readiness)] {
            if let Some(outcome) = outcome {
                fixture.probes = fixture.probes.with(&id, kind, outcome);
            }
        }
        let status = fixture.status();
        let a = one(&status.container_statuses, "a");
        assert_eq!(
            (a.started, a.ready),
            (Some(started), ready),
            "{startup:?} {readiness:?}"
        );
    }
}

#[test]
fn container_stays_ready_after_agent_restart_until_probed() {
    let reported = |id: &str, ready: bool| {
        json!({"phase": "Running", "containerStatuses": [{
            "name": "a", "image": "", "imageID": "", "ready": ready, "started": true, "restartCount": 0,
            "containerID": id, "state": {"running": {"startedAt": "2023-11-14T22:13:30Z"}},
        }]})
    };
    let probed = json!({"containers": [{"name": "a", "startupProbe": {}, "readinessProbe": {}}]});
    // Container ID in the API, its readiness there, agent start, expected readiness.
    let cases = [
        ("docker://a-0", true, 100, true),
        ("docker://a-0", false, 100, false),
        ("docker://other", true, 100, false),
        ("docker://a-0", true, 0, false),
    ];
    for (id, api_ready, began, ready) in cases {
        let mut fixture = fixture(probed.clone())
            .sandbox()
            .with_api_status(reported(id, api_ready))
            .with("a", 0, running());
        fixture.probes = ProbeResults::new(at(began));
        let status = fixture.status();
        assert_eq!(
            one(&status.container_statuses, "a").ready,
            ready,
            "{id} {api_ready} {began}"
        );
    }
    let mut fixture = fixture(probed)
        .sandbox()
        .with_api_status(reported("docker://a-0", true))
        .with("a", 0, running());
    fixture.probes = ProbeResults::new(at(100)).with(
        &ContainerId("a-0".to_owned()),
        ProbeType::Readiness,
        ProbeOutcome::Failure,
    );
    assert!(!one(&fixture.status().container_statuses, "a").ready);
}

#[test]
fn termination_messages_share_the_limit_of_the_pod() {
    let mut fixture = plain(&["a", "b"]).with("a", 0, exited(1)).with("b", 0, exited(1));
    fixture
        .messages
        .insert(ContainerId("a-0".to_owned()), "x".repeat(20_000));
    let status = fixture.status();
    let message = one(&status.container_statuses, "a")
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap()
        .message
        .unwrap();
    assert_eq!(message.len(), 6 * 1024);
}
