//! The conditions of pods.

use super::*;

#[test]
fn waiting_containers_set_conditions_with_reasons() {
    let mut fresh = plain(&["b", "a"]);
    fresh.pod.spec.as_mut().unwrap().init_containers = None;
    let status = fresh.status();
    assert_eq!(
        describe_condition(&status, "PodReadyToStartContainers"),
        "False PodSandboxNotReady no pod sandbox exists"
    );
    assert_eq!(describe_condition(&status, "Initialized"), "True");
    let unready = "False ContainersNotReady containers with unready status: [b a]";
    assert_eq!(describe_condition(&status, "Ready"), unready);
    assert_eq!(describe_condition(&status, "ContainersReady"), unready);
    assert_eq!(describe_condition(&status, "PodScheduled"), "True");
    for condition in status.conditions.as_ref().unwrap() {
        assert_eq!(condition.observed_generation, Some(3));
    }
    assert_eq!(status.observed_generation, Some(3));
}

#[test]
fn reports_sandbox_state() {
    let cases = [
        (vec![sandbox("s1", SandboxState::Ready)], "True"),
        (
            vec![sandbox("s1", SandboxState::NotReady)],
            "False PodSandboxNotReady pod sandbox is not ready",
        ),
        (
            vec![
                sandbox("s2", SandboxState::Ready),
                sandbox("s1", SandboxState::Ready),
            ],
            "False PodSandboxNotReady multiple pod sandboxes are ready and need to be reconciled",
        ),
    ];
    for (sandboxes, expected) in cases {
        let mut fixture = plain(&["a"]);
        fixture.snapshot.sandboxes = sandboxes;
        assert_eq!(
            describe_condition(&fixture.status(), "PodReadyToStartContainers"),
            expected
        );
    }
    let mut no_address = plain(&["a"]).sandbox();
    no_address.snapshot.sandboxes[0].addresses.clear();
    let expected = "False PodSandboxNotReady pod sandbox has no IP address";
    assert_eq!(
        describe_condition(&no_address.status(), "PodReadyToStartContainers"),
        expected
    );
    no_address.pod.spec.as_mut().unwrap().host_network = Some(true);
    assert_eq!(
        describe_condition(&no_address.status(), "PodReadyToStartContainers"),
        "True"
    );
}

#[test]
fn pod_is_initialized_after_its_init_containers() {
    let spec = json!({
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always", "startupProbe": {}}],
        "containers": [{"name": "a"}],
    });
    let waits = "False ContainersNotInitialized containers with incomplete status: ";
    let begun = fixture(spec.clone()).sandbox().with("i", 0, running());
    assert_eq!(
        describe_condition(&begun.status(), "Initialized"),
        format!("{waits}[i s]")
    );
    let after_init = fixture(spec.clone())
        .sandbox()
        .with("i", 0, exited(0))
        .with("s", 0, running());
    assert_eq!(
        describe_condition(&after_init.status(), "Initialized"),
        format!("{waits}[s]")
    );
    assert_eq!(
        describe_condition(&after_init.status(), "Ready"),
        "False ContainersNotReady containers with unready status: [s a]"
    );
    let started = fixture(spec)
        .sandbox()
        .with("i", 0, exited(0))
        .with("s", 1, running())
        .with("a", 0, running());
    assert_eq!(describe_condition(&started.status(), "Initialized"), "True");
}

#[test]
fn finished_pod_reports_completed_or_failed() {
    let mut fixture = plain(&["a"]).with("a", 0, exited(0));
    fixture.pod.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    let status = fixture.status();
    assert_eq!(describe_condition(&status, "Initialized"), "True PodCompleted");
    assert_eq!(describe_condition(&status, "Ready"), "False PodCompleted");
    assert_eq!(
        describe_condition(&status, "ContainersReady"),
        "False PodCompleted"
    );
    fixture.snapshot.containers[0].state = exited(1);
    let status = fixture.status();
    assert_eq!(describe_condition(&status, "Initialized"), "True");
    assert_eq!(describe_condition(&status, "Ready"), "False PodFailed");
    assert_eq!(describe_condition(&status, "ContainersReady"), "False PodFailed");
}

#[test]
fn readiness_gates_delay_ready() {
    let spec = json!({
        "readinessGates": [{"conditionType": "x/a"}, {"conditionType": "x/b"}],
        "containers": [{"name": "a"}],
    });
    let gates = |a: &str| json!({"conditions": [{"type": "x/a", "status": a}]});
    let ready = |reported: Value| {
        let fixture = fixture(spec.clone())
            .sandbox()
            .with_api_status(reported)
            .with("a", 0, running());
        describe_condition(&fixture.status(), "Ready")
    };
    let missing = "corresponding condition of pod readiness gate \"x/b\" does not exist.";
    assert_eq!(
        ready(gates("True")),
        format!("False ReadinessGatesNotReady {missing}")
    );
    let not_true = "the status of pod readiness gate \"x/a\" is not \"True\", but False";
    assert_eq!(
        ready(gates("False")),
        format!("False ReadinessGatesNotReady {not_true}, {missing}")
    );
    let both = json!({"conditions": [{"type": "x/a", "status": "True"}, {"type": "x/b", "status": "True"}]});
    assert_eq!(ready(both), "True");
}

#[test]
fn transition_time_changes_with_status_only_and_foreign_conditions_stay() {
    let mut fixture = plain(&["a"]).sandbox().with_api_status(json!({"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:00:00Z"},
        {"type": "x/own", "status": "False", "lastTransitionTime": "2023-11-14T21:00:00Z"},
    ]}));
    let first = fixture.status();
    assert_eq!(first.start_time.clone().unwrap().0, at(1000));
    fixture.previous = Some(first);
    fixture.now = at(2000);
    let fixture = fixture.with("a", 0, running());
    let second = fixture.status();
    let since = |kind: &str| {
        condition(&second, kind)
            .last_transition_time
            .clone()
            .unwrap()
            .0
            .to_string()
    };
    assert_eq!(since("PodScheduled"), "2023-11-14T22:00:00Z");
    assert_eq!(since("x/own"), "2023-11-14T21:00:00Z");
    assert_eq!(since("PodReadyToStartContainers"), at(1000).to_string());
    assert_eq!(since("Ready"), at(2000).to_string());
    assert_eq!(second.start_time.unwrap().0, at(1000));
}

#[test]
fn same_input_gives_same_status() {
    let mut fixture = plain(&["a"]).sandbox().with("a", 0, running());
    let first = fixture.status();
    fixture.previous = Some(first.clone());
    fixture.now = at(5000);
    assert_eq!(fixture.status(), first);
    // Also for a restarted agent that reads its own status from the API.
    fixture.previous = None;
    fixture.pod.status = serde_json::from_value(serde_json::to_value(&first).unwrap()).unwrap();
    assert_eq!(fixture.status(), first);
}

#[test]
fn pod_ips_come_from_the_sandbox_or_the_node() {
    let mut fixture = plain(&["a"]).sandbox();
    let ips = ["fd00::5", "10.1.2.3", "10.1.2.4"].map(|ip| ip.parse().unwrap());
    fixture.snapshot.sandboxes[0].addresses = ips.to_vec();
    let status = fixture.status();
    let reported: Vec<_> = status.pod_ips.iter().flatten().map(|ip| &*ip.ip).collect();
    assert_eq!(reported, ["10.1.2.3", "fd00::5"]);
    assert_eq!(status.host_ip.as_deref(), Some("192.168.0.9"));
    // A terminated pod keeps its IPs.
    fixture.previous = Some(status);
    fixture.snapshot.sandboxes[0].state = SandboxState::NotReady;
    fixture.snapshot.sandboxes[0].addresses.clear();
    assert_eq!(fixture.status().pod_ip.as_deref(), Some("10.1.2.3"));
    let mut host = plain(&["a"]);
    host.pod.spec.as_mut().unwrap().host_network = Some(true);
    assert_eq!(host.status().pod_ip.as_deref(), Some("192.168.0.9"));
}

#[test]
fn reports_resize_conditions() {
    let fixture = plain(&["a"]).sandbox().with("a", 0, running());
    let pending = super::super::ResizePending {
        infeasible: true,
        message: "too much".to_owned(),
        generation: Some(2),
    };
    let progress = super::super::ResizeInProgress {
        error: String::new(),
        generation: Some(3),
    };
    let nothing = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let reported = generate_api_pod_status(&StatusInput {
        pod: &fixture.pod,
        previous: None,
        snapshot: &fixture.snapshot,
        probes: &fixture.probes,
        waiting: &nothing.0,
        messages: &nothing.1,
        actuated: &nothing.2,
        resize: (Some(&pending), Some(&progress)),
        runtime: "docker",
        recursive_read_only: false,
        facts: &fixture.facts,
        worker_state: PodWorkerState::Syncing,
        termination_cause: None,
        now: at(1),
    });
    assert_eq!(
        describe_condition(&reported, "PodResizePending"),
        "True Infeasible too much"
    );
    assert_eq!(
        condition(&reported, "PodResizePending").observed_generation,
        Some(2)
    );
    assert_eq!(describe_condition(&reported, "PodResizeInProgress"), "True");
}
