//! The conditions of pods.

use super::*;

#[test]
fn a_pod_whose_containers_wait_says_for_what() {
    let mut fresh = plain(&["b", "a"]);
    fresh.pod.spec.as_mut().unwrap().init_containers = None;
    let status = fresh.status();
    assert_eq!(
        said(&status, "PodReadyToStartContainers"),
        "False PodSandboxNotReady no pod sandbox exists"
    );
    assert_eq!(said(&status, "Initialized"), "True");
    let unready = "False ContainersNotReady containers with unready status: [b a]";
    assert_eq!(said(&status, "Ready"), unready);
    assert_eq!(said(&status, "ContainersReady"), unready);
    assert_eq!(said(&status, "PodScheduled"), "True");
    for condition in status.conditions.as_ref().unwrap() {
        assert_eq!(condition.observed_generation, Some(3));
    }
    assert_eq!(status.observed_generation, Some(3));
}

#[test]
fn sandboxes_are_told_as_they_are() {
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
        let mut world = plain(&["a"]);
        world.seen.sandboxes = sandboxes;
        assert_eq!(said(&world.status(), "PodReadyToStartContainers"), expected);
    }
    let mut nowhere = plain(&["a"]).sandbox();
    nowhere.seen.sandboxes[0].addresses.clear();
    let expected = "False PodSandboxNotReady pod sandbox has no IP address";
    assert_eq!(said(&nowhere.status(), "PodReadyToStartContainers"), expected);
    nowhere.pod.spec.as_mut().unwrap().host_network = Some(true);
    assert_eq!(said(&nowhere.status(), "PodReadyToStartContainers"), "True");
}

#[test]
fn a_pod_is_initialized_once_its_init_containers_are_through() {
    let spec = json!({
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always", "startupProbe": {}}],
        "containers": [{"name": "a"}],
    });
    let waits = "False ContainersNotInitialized containers with incomplete status: ";
    let begun = world(spec.clone()).sandbox().with("i", 0, running());
    assert_eq!(said(&begun.status(), "Initialized"), format!("{waits}[i s]"));
    let through = world(spec.clone())
        .sandbox()
        .with("i", 0, exited(0))
        .with("s", 0, running());
    assert_eq!(said(&through.status(), "Initialized"), format!("{waits}[s]"));
    assert_eq!(
        said(&through.status(), "Ready"),
        "False ContainersNotReady containers with unready status: [s a]"
    );
    let ran = world(spec)
        .sandbox()
        .with("i", 0, exited(0))
        .with("s", 1, running())
        .with("a", 0, running());
    assert_eq!(said(&ran.status(), "Initialized"), "True");
}

#[test]
fn a_pod_that_ended_says_how() {
    let mut world = plain(&["a"]).with("a", 0, exited(0));
    world.pod.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    let status = world.status();
    assert_eq!(said(&status, "Initialized"), "True PodCompleted");
    assert_eq!(said(&status, "Ready"), "False PodCompleted");
    assert_eq!(said(&status, "ContainersReady"), "False PodCompleted");
    world.seen.containers[0].state = exited(1);
    let status = world.status();
    assert_eq!(said(&status, "Initialized"), "True");
    assert_eq!(said(&status, "Ready"), "False PodFailed");
    assert_eq!(said(&status, "ContainersReady"), "False PodFailed");
}

#[test]
fn readiness_gates_are_waited_for() {
    let spec = json!({
        "readinessGates": [{"conditionType": "x/a"}, {"conditionType": "x/b"}],
        "containers": [{"name": "a"}],
    });
    let gates = |a: &str| json!({"conditions": [{"type": "x/a", "status": a}]});
    let ready = |told: Value| {
        let world = world(spec.clone()).sandbox().told(told).with("a", 0, running());
        said(&world.status(), "Ready")
    };
    let missing = "corresponding condition of pod readiness gate \"x/b\" does not exist.";
    assert_eq!(
        ready(gates("True")),
        format!("False ReadinessGatesNotReady {missing}")
    );
    let no = "the status of pod readiness gate \"x/a\" is not \"True\", but False";
    assert_eq!(
        ready(gates("False")),
        format!("False ReadinessGatesNotReady {no}, {missing}")
    );
    let both = json!({"conditions": [{"type": "x/a", "status": "True"}, {"type": "x/b", "status": "True"}]});
    assert_eq!(ready(both), "True");
}

#[test]
fn times_change_with_the_status_only_and_what_others_say_is_kept() {
    let mut world = plain(&["a"]).sandbox().told(json!({"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:00:00Z"},
        {"type": "x/own", "status": "False", "lastTransitionTime": "2023-11-14T21:00:00Z"},
    ]}));
    let first = world.status();
    assert_eq!(first.start_time.clone().unwrap().0, at(1000));
    world.previous = Some(first);
    world.now = at(2000);
    let world = world.with("a", 0, running());
    let second = world.status();
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
fn the_same_gives_the_same() {
    let mut world = plain(&["a"]).sandbox().with("a", 0, running());
    let first = world.status();
    world.previous = Some(first.clone());
    world.now = at(5000);
    assert_eq!(world.status(), first);
    // Also for an agent that begins again, and reads its own words from the API.
    world.previous = None;
    world.pod.status = serde_json::from_value(serde_json::to_value(&first).unwrap()).unwrap();
    assert_eq!(world.status(), first);
}

#[test]
fn addresses_are_those_of_the_sandbox_or_of_the_node() {
    let mut world = plain(&["a"]).sandbox();
    let ips = ["fd00::5", "10.1.2.3", "10.1.2.4"].map(|ip| ip.parse().unwrap());
    world.seen.sandboxes[0].addresses = ips.to_vec();
    let status = world.status();
    let told: Vec<_> = status.pod_ips.iter().flatten().map(|ip| &*ip.ip).collect();
    assert_eq!(told, ["10.1.2.3", "fd00::5"]);
    assert_eq!(status.host_ip.as_deref(), Some("192.168.0.9"));
    // What has ended is known by what it had.
    world.previous = Some(status);
    world.seen.sandboxes[0].state = SandboxState::NotReady;
    world.seen.sandboxes[0].addresses.clear();
    assert_eq!(world.status().pod_ip.as_deref(), Some("10.1.2.3"));
    let mut host = plain(&["a"]);
    host.pod.spec.as_mut().unwrap().host_network = Some(true);
    assert_eq!(host.status().pod_ip.as_deref(), Some("192.168.0.9"));
}

#[test]
fn resizes_are_told() {
    let world = plain(&["a"]).sandbox().with("a", 0, running());
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
    let told = status(&Input {
        pod: &world.pod,
        previous: None,
        seen: &world.seen,
        probes: &world.probes,
        waiting: &nothing.0,
        messages: &nothing.1,
        actuated: &nothing.2,
        resize: (Some(&pending), Some(&progress)),
        runtime: "docker",
        recursive_read_only: false,
        facts: &world.facts,
        course: Course::Living,
        end: None,
        now: at(1),
    });
    assert_eq!(said(&told, "PodResizePending"), "True Infeasible too much");
    assert_eq!(condition(&told, "PodResizePending").observed_generation, Some(2));
    assert_eq!(said(&told, "PodResizeInProgress"), "True");
}
