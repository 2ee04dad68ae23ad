//! What is written of a pod that ends.

use super::{
    super::{ended, rejected, told},
    *,
};

#[test]
fn a_pod_is_told_to_have_ended_when_nothing_of_it_runs() {
    let world = plain(&["a"]).sandbox().told(json!({"phase": "Running"}));
    let mut world = world.with("a", 0, running());
    world.end = Some(End {
        reason: "Evicted".to_owned(),
        message: "The node was low on resource: memory.".to_owned(),
        disruption: true,
    });
    let computed = world.status();
    assert_eq!(computed.phase.as_deref(), Some("Failed"));
    let before = told(&world.pod, &computed, Course::Stopping, at(1000));
    assert_eq!((before.phase.as_deref(), before.reason), (Some("Running"), None));
    assert!(super::super::condition(before.conditions.as_ref(), "DisruptionTarget").is_none());
    let after = told(&world.pod, &computed, Course::Stopped, at(1000));
    assert_eq!(
        (after.phase.as_deref(), after.reason.as_deref()),
        (Some("Failed"), Some("Evicted"))
    );
    assert_eq!(
        said(&after, "DisruptionTarget"),
        "True TerminationByKubelet The node was low on resource: memory."
    );
}

#[test]
fn what_is_not_ours_is_told_as_the_api_has_it() {
    let world = plain(&["a"]).told(json!({
        "resourceClaimStatuses": [{"name": "c"}],
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}],
    }));
    let told = told(&world.pod, &world.status(), Course::Living, at(1000));
    assert_eq!(told.resource_claim_statuses.as_ref().unwrap()[0].name, "c");
    assert_eq!(said(&told, "DisruptionTarget"), "True EvictionByEvictionAPI");
}

#[test]
fn nothing_that_has_ended_is_ready() {
    let world = plain(&["a"]).sandbox().with("a", 0, running());
    let mut computed = world.status();
    computed.phase = Some("Failed".to_owned());
    let told = told(&world.pod, &computed, Course::Stopped, at(2000));
    assert_eq!(said(&told, "Ready"), "False PodFailed");
    assert_eq!(said(&told, "ContainersReady"), "False PodFailed");
}

#[test]
fn what_nobody_saw_ending_has_failed() {
    let world = plain(&["a"]);
    let last = ended(&world.pod, &world.status());
    assert_eq!(last.phase.as_deref(), Some("Failed"));
    let a = one(&last.container_statuses, "a")
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap();
    assert_eq!(
        (a.exit_code, a.reason.as_deref()),
        (137, Some("ContainerStatusUnknown"))
    );

    // Of a pod that never came past its first init container, only that has failed.
    let spec = json!({"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "a"}]});
    let world = super::world(spec);
    let last = ended(&world.pod, &world.status());
    let is_over = |statuses, name| one(statuses, name).state.clone().unwrap().terminated.is_some();
    assert!(is_over(&last.init_container_statuses, "i"));
    assert!(!is_over(&last.init_container_statuses, "j"));
    assert!(!is_over(&last.container_statuses, "a"));
}

#[test]
fn a_pod_the_node_refuses_says_why() {
    let world = plain(&["a"]);
    let status = rejected(
        &world.pod,
        "OutOfcpu",
        "Node didn't have enough resource: cpu",
        at(7),
    );
    let expected = json!({
        "phase": "Failed", "reason": "OutOfcpu", "qosClass": "BestEffort", "observedGeneration": 3,
        "message": "Pod was rejected: Node didn't have enough resource: cpu",
        "startTime": "2023-11-14T22:13:27Z",
    });
    assert_eq!(serde_json::to_value(status).unwrap(), expected);
}

#[test]
fn all_containers_begin_again_by_a_rule() {
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]);
    let spec = json!({"restartPolicy": "Never", "containers": [
        {"name": "a", "restartPolicy": "Never", "restartPolicyRules": rules}, {"name": "b"},
    ]});
    let mut world = world(spec)
        .sandbox()
        .with("b", 0, running())
        .with("a", 0, exited(9));
    let begun = world.status();
    assert_eq!(begun.phase.as_deref(), Some("Running"));
    assert_eq!(
        said(&begun, "AllContainersRestarting"),
        "True RestartAllContainersStarted container exited with restart policy rule"
    );
    // All of them are removed.
    world.previous = Some(begun);
    world.seen.containers.clear();
    let removed = world.status();
    assert_eq!(said(&removed, "AllContainersRestarting"), "False");
    let b = one(&removed.container_statuses, "b");
    assert_eq!(b.restart_count, 1);
    assert_eq!(
        b.state.clone().unwrap().waiting.unwrap().reason.as_deref(),
        Some("RestartingAllContainers")
    );
}
