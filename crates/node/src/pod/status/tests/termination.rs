//! Statuses written for terminating pods.

use super::{
    super::{merge_pod_status, rejected_status, terminated_status},
    *,
};

#[test]
fn terminal_phase_is_withheld_while_containers_run() {
    let fixture = plain(&["a"])
        .sandbox()
        .with_api_status(json!({"phase": "Running"}));
    let mut fixture = fixture.with("a", 0, running());
    fixture.termination_cause = Some(TerminationCause {
        reason: "Evicted".to_owned(),
        message: "The node was low on resource: memory.".to_owned(),
        disruption: true,
    });
    let computed = fixture.status();
    assert_eq!(computed.phase.as_deref(), Some("Failed"));
    let before = merge_pod_status(&fixture.pod, &computed, PodWorkerState::Terminating, at(1000));
    assert_eq!((before.phase.as_deref(), before.reason), (Some("Running"), None));
    assert!(super::super::find_condition(before.conditions.as_ref(), "DisruptionTarget").is_none());
    let after = merge_pod_status(&fixture.pod, &computed, PodWorkerState::Terminated, at(1000));
    assert_eq!(
        (after.phase.as_deref(), after.reason.as_deref()),
        (Some("Failed"), Some("Evicted"))
    );
    assert_eq!(
        describe_condition(&after, "DisruptionTarget"),
        "True TerminationByKubelet The node was low on resource: memory."
    );
}

#[test]
fn fields_of_other_writers_are_kept() {
    let fixture = plain(&["a"]).with_api_status(json!({
        "resourceClaimStatuses": [{"name": "c"}],
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}],
    }));
    let reported = merge_pod_status(&fixture.pod, &fixture.status(), PodWorkerState::Syncing, at(1000));
    assert_eq!(reported.resource_claim_statuses.as_ref().unwrap()[0].name, "c");
    assert_eq!(
        describe_condition(&reported, "DisruptionTarget"),
        "True EvictionByEvictionAPI"
    );
}

#[test]
fn finished_pod_is_not_ready() {
    let fixture = plain(&["a"]).sandbox().with("a", 0, running());
    let mut computed = fixture.status();
    computed.phase = Some("Failed".to_owned());
    let reported = merge_pod_status(&fixture.pod, &computed, PodWorkerState::Terminated, at(2000));
    assert_eq!(describe_condition(&reported, "Ready"), "False PodFailed");
    assert_eq!(
        describe_condition(&reported, "ContainersReady"),
        "False PodFailed"
    );
}

#[test]
fn unobserved_exit_counts_as_failure() {
    let fixture = plain(&["a"]);
    let last = terminated_status(&fixture.pod, &fixture.status());
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

    // If the first init container never completed, only that container has failed.
    let spec = json!({"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "a"}]});
    let fixture = super::fixture(spec);
    let last = terminated_status(&fixture.pod, &fixture.status());
    let is_terminal = |statuses, name| one(statuses, name).state.clone().unwrap().terminated.is_some();
    assert!(is_terminal(&last.init_container_statuses, "i"));
    assert!(!is_terminal(&last.init_container_statuses, "j"));
    assert!(!is_terminal(&last.container_statuses, "a"));
}

#[test]
fn rejected_pod_reports_the_reason() {
    let fixture = plain(&["a"]);
    let status = rejected_status(
        &fixture.pod,
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
fn restart_rule_restarts_all_containers() {
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]);
    let spec = json!({"restartPolicy": "Never", "containers": [
        {"name": "a", "restartPolicy": "Never", "restartPolicyRules": rules}, {"name": "b"},
    ]});
    let mut fixture = fixture(spec)
        .sandbox()
        .with("b", 0, running())
        .with("a", 0, exited(9));
    let begun = fixture.status();
    assert_eq!(begun.phase.as_deref(), Some("Running"));
    assert_eq!(
        describe_condition(&begun, "AllContainersRestarting"),
        "True RestartAllContainersStarted container exited with restart policy rule"
    );
    // The agent has removed all containers.
    fixture.previous = Some(begun);
    fixture.snapshot.containers.clear();
    let removed = fixture.status();
    assert_eq!(describe_condition(&removed, "AllContainersRestarting"), "False");
    let b = one(&removed.container_statuses, "b");
    assert_eq!(b.restart_count, 1);
    assert_eq!(
        b.state.clone().unwrap().waiting.unwrap().reason.as_deref(),
        Some("RestartingAllContainers")
    );
}
