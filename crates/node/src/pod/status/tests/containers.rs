//! One status for each container.

use super::*;
use crate::probes::{Outcome, ProbeKind};

#[test]
fn containers_that_were_not_made_wait() {
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
    let status = world(spec).status();
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
fn a_container_that_runs_tells_all_of_itself() {
    let spec = json!({"containers": [{
        "name": "a", "image": "busybox",
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [
            {"name": "v", "mountPath": "/v"},
            {"name": "w", "mountPath": "/w", "readOnly": true},
            {"name": "x", "mountPath": "/x", "readOnly": true, "recursiveReadOnly": "IfPossible"},
        ],
    }]});
    let status = world(spec).sandbox().with("a", 2, running()).status();
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
fn a_container_that_was_begun_again_tells_how_it_ended_before() {
    let mut world = plain(&["a"])
        .sandbox()
        .with("a", 0, exited(3))
        .with("a", 1, running());
    world
        .messages
        .insert(ContainerId("a-0".to_owned()), "bye".to_owned());
    let status = world.status();
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
fn why_a_container_is_not_begun_takes_the_place_of_how_it_ended() {
    let back_off = Waiting {
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
        let mut world = plain(&["a"]).sandbox().with("a", 0, state.clone());
        world.pod.spec.as_mut().unwrap().restart_policy = Some(policy.to_owned());
        world.waiting.insert("a".to_owned(), back_off.clone());
        let status = world.status();
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
    deleted.pod.metadata.deletion_timestamp = Some(super::super::seconds(at(5)));
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
fn counts_of_restarts_never_go_down() {
    let told = json!({"phase": "Running", "containerStatuses": [{
        "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 7, "containerID": "docker://gone",
        "state": {"terminated": {"exitCode": 1}},
    }]});
    let again = plain(&["a"])
        .sandbox()
        .told(told.clone())
        .with("a", 0, running())
        .status();
    let a = one(&again.container_statuses, "a");
    assert_eq!(a.restart_count, 8);
    assert_eq!(a.last_state.clone().unwrap().terminated.unwrap().exit_code, 1);
    let same = plain(&["a"])
        .sandbox()
        .told(told)
        .with("a", 3, exited(0))
        .status();
    assert_eq!(one(&same.container_statuses, "a").restart_count, 7);
}

#[test]
fn what_ran_and_is_gone_is_not_back_at_the_beginning() {
    let told = |state: Value| {
        json!({"phase": "Running", "containerStatuses": [{
            "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 1, "containerID": "docker://a-1",
            "state": state,
        }]})
    };
    let ran = plain(&["a"])
        .sandbox()
        .told(told(json!({"running": {"startedAt": "2023-11-14T22:13:30Z"}})));
    let status = ran.status();
    let a = one(&status.container_statuses, "a");
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let last = a.last_state.clone().unwrap().terminated.unwrap();
    assert_eq!(
        (last.exit_code, last.reason.as_deref()),
        (137, Some("ContainerStatusUnknown"))
    );
    assert_eq!(a.restart_count, 2);

    // What ended and was removed is still told as it ended.
    let ended = plain(&["a"])
        .sandbox()
        .told(told(json!({"terminated": {"exitCode": 5}})))
        .status();
    let a = one(&ended.container_statuses, "a");
    assert_eq!(a.state.clone().unwrap().terminated.unwrap().exit_code, 5);
    assert_eq!(a.restart_count, 1);

    // The runtime lost it.
    let lost =
        plain(&["a"])
            .sandbox()
            .told(told(json!({"running": {}})))
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
fn an_init_container_that_was_removed_ended_well_if_others_came_after_it() {
    let spec = json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]});
    let status = world(spec).sandbox().with("a", 0, running()).status();
    let init = one(&status.init_container_statuses, "i");
    assert!(init.ready);
    assert_eq!(
        init.state.clone().unwrap().terminated.unwrap().reason.as_deref(),
        Some("Completed")
    );
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

#[test]
fn ephemeral_containers_are_told_apart_and_do_not_count() {
    let mut spec = json!({"containers": [{"name": "a"}]});
    spec["ephemeralContainers"] = json!([{"name": "debug", "image": "busybox", "targetContainerName": "a"}]);
    let status = world(spec)
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
fn probes_say_what_is_up_and_ready() {
    use Outcome::{Failure, Success, Unknown};

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
        let mut world = world(json!({"containers": [probed]}))
            .sandbox()
            .with("a", 0, running());
        for (kind, outcome) in [(ProbeKind::Startup, startup), (ProbeKind::Readiness, readiness)] {
            if let Some(outcome) = outcome {
                world.probes = world.probes.with(&id, kind, outcome);
            }
        }
        let status = world.status();
        let a = one(&status.container_statuses, "a");
        assert_eq!(
            (a.started, a.ready),
            (Some(started), ready),
            "{startup:?} {readiness:?}"
        );
    }
}

#[test]
fn what_was_ready_before_the_agent_began_is_ready_until_it_is_probed() {
    let told = |id: &str, ready: bool| {
        json!({"phase": "Running", "containerStatuses": [{
            "name": "a", "image": "", "imageID": "", "ready": ready, "started": true, "restartCount": 0,
            "containerID": id, "state": {"running": {"startedAt": "2023-11-14T22:13:30Z"}},
        }]})
    };
    let probed = json!({"containers": [{"name": "a", "startupProbe": {}, "readinessProbe": {}}]});
    // The run the API tells of, what it says, when the agent began, whether it is ready.
    let cases = [
        ("docker://a-0", true, 100, true),
        ("docker://a-0", false, 100, false),
        ("docker://other", true, 100, false),
        ("docker://a-0", true, 0, false),
    ];
    for (id, told_ready, began, ready) in cases {
        let mut world = world(probed.clone())
            .sandbox()
            .told(told(id, told_ready))
            .with("a", 0, running());
        world.probes = ProbeResults::new(at(began));
        let status = world.status();
        assert_eq!(
            one(&status.container_statuses, "a").ready,
            ready,
            "{id} {told_ready} {began}"
        );
    }
    let mut world = world(probed)
        .sandbox()
        .told(told("docker://a-0", true))
        .with("a", 0, running());
    world.probes = ProbeResults::new(at(100)).with(
        &ContainerId("a-0".to_owned()),
        ProbeKind::Readiness,
        Outcome::Failure,
    );
    assert!(!one(&world.status().container_statuses, "a").ready);
}

#[test]
fn messages_share_what_a_pod_may_say() {
    let mut world = plain(&["a", "b"]).with("a", 0, exited(1)).with("b", 0, exited(1));
    world
        .messages
        .insert(ContainerId("a-0".to_owned()), "x".repeat(20_000));
    let status = world.status();
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
