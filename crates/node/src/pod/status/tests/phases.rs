//! Pending, Running, Succeeded, Failed.

use super::*;

type States = Vec<(&'static str, ContainerState)>;

#[test]
fn a_pod_is_what_its_containers_and_its_policy_make_of_it() {
    let run = running;
    // Policy, containers, states of those that were made, phase.
    let cases: Vec<(&str, States, &str)> = vec![
        ("Always", vec![], "Pending"),
        ("Always", vec![("a", run())], "Pending"),
        ("Always", vec![("a", run()), ("b", run())], "Running"),
        ("Always", vec![("a", run()), ("b", exited(1))], "Running"),
        ("Always", vec![("a", exited(0)), ("b", exited(1))], "Running"),
        ("Never", vec![("a", exited(0)), ("b", exited(0))], "Succeeded"),
        ("Never", vec![("a", exited(0)), ("b", exited(1))], "Failed"),
        ("Never", vec![("a", exited(0)), ("b", run())], "Running"),
        ("OnFailure", vec![("a", exited(0)), ("b", exited(0))], "Succeeded"),
        ("OnFailure", vec![("a", exited(0)), ("b", exited(1))], "Running"),
        (
            "Always",
            vec![("a", ContainerState::Created), ("b", run())],
            "Pending",
        ),
        (
            "Always",
            vec![("a", ContainerState::Unknown), ("b", run())],
            "Pending",
        ),
    ];
    for (policy, states, expected) in cases {
        let mut world = plain(&["a", "b"]).sandbox();
        world.pod.spec.as_mut().unwrap().restart_policy = Some(policy.to_owned());
        let name = format!("{policy} {states:?}");
        for (name, state) in states {
            world = world.with(name, 0, state);
        }
        assert_eq!(world.phase(), expected, "{name}");
    }
}

#[test]
fn init_containers_hold_back_the_pod_or_end_it() {
    let spec = |policy: &str| {
        json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "i"}, {"name": "j"}],
            "containers": [{"name": "a"}],
        })
    };
    let cases = [
        ("Always", running(), "Pending"),
        ("Always", exited(0), "Pending"),
        ("Always", exited(1), "Pending"),
        ("OnFailure", exited(1), "Pending"),
        ("Never", exited(1), "Failed"),
    ];
    for (policy, state, expected) in cases {
        let world = world(spec(policy)).sandbox().with("i", 0, state.clone());
        assert_eq!(world.phase(), expected, "{policy} {state:?}");
    }
    let ready = world(spec("Always"))
        .sandbox()
        .with("i", 0, exited(0))
        .with("j", 0, exited(0));
    assert_eq!(ready.with("a", 0, running()).phase(), "Running");
}

#[test]
fn sidecars_hold_back_a_pod_until_they_are_up_and_never_put_it_back() {
    let spec = json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always", "startupProbe": {"periodSeconds": 1}}],
        "containers": [{"name": "a"}],
        "restartPolicy": "Never",
    });
    let starting = world(spec.clone()).sandbox().with("s", 0, running());
    assert_eq!(starting.phase(), "Pending");
    // The container ran: the sidecar is begun again beside it.
    let again = world(spec.clone())
        .sandbox()
        .with("a", 0, running())
        .with("s", 1, running());
    assert_eq!(again.phase(), "Running");
    // What the sidecar ended with does not count.
    let over = world(spec)
        .sandbox()
        .with("a", 0, exited(0))
        .with("s", 0, exited(137));
    assert_eq!(over.phase(), "Succeeded");
}

#[test]
fn a_container_goes_by_its_own_policy_and_rules() {
    let spec = |container: Value| json!({"restartPolicy": "Never", "containers": [container]});
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let cases = [
        (json!({"name": "a"}), 1, "Failed"),
        (json!({"name": "a", "restartPolicy": "Always"}), 1, "Running"),
        (json!({"name": "a", "restartPolicy": "OnFailure"}), 0, "Succeeded"),
        (
            json!({"name": "a", "restartPolicy": "Never", "restartPolicyRules": rules}),
            42,
            "Running",
        ),
        (
            json!({"name": "a", "restartPolicy": "Never", "restartPolicyRules": rules}),
            43,
            "Failed",
        ),
    ];
    for (container, code, expected) in cases {
        let world = world(spec(container.clone()))
            .sandbox()
            .with("a", 0, exited(code));
        assert_eq!(world.phase(), expected, "{container} {code}");
    }
}

#[test]
fn a_pod_that_is_stopped_ends_whatever_its_policy() {
    let mut stopped = plain(&["a"]).with("a", 0, exited(0));
    stopped.course = Course::Stopped;
    assert_eq!(stopped.phase(), "Succeeded");
    let mut failed = plain(&["a"]).with("a", 0, exited(143));
    failed.course = Course::Stopped;
    assert_eq!(failed.phase(), "Failed");
    // A static pod has no end.
    let source = ("kubernetes.io/config.source".to_owned(), "file".to_owned());
    failed.pod.metadata.annotations = Some([source].into());
    assert_eq!(failed.phase(), "Running");
}

#[test]
fn a_pod_that_has_ended_stays_so() {
    for phase in ["Succeeded", "Failed"] {
        let world = plain(&["a"]).sandbox().with("a", 0, running());
        let status = world
            .told(json!({"phase": phase, "reason": "Evicted", "message": "why"}))
            .status();
        assert_eq!(status.phase.as_deref(), Some(phase));
        assert_eq!(status.reason.as_deref(), Some("Evicted"));
        assert_eq!(status.message.as_deref(), Some("why"));
    }
}

#[test]
fn the_reason_goes_with_the_phase() {
    let told = json!({"phase": "Pending", "reason": "Slow", "message": "why"});
    let pending = plain(&["a"]).sandbox().told(told.clone());
    assert_eq!(pending.status().reason.as_deref(), Some("Slow"));
    let running = plain(&["a"]).sandbox().told(told).with("a", 0, running());
    assert_eq!(running.status().reason, None);
}

#[test]
fn an_end_that_was_decided_is_the_end() {
    let mut world = plain(&["a"]).sandbox().with("a", 0, running());
    let message = "Pod was active on the node longer than the specified deadline";
    world.end = Some(End {
        reason: "DeadlineExceeded".to_owned(),
        message: message.to_owned(),
        disruption: false,
    });
    let status = world.status();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(status.message.as_deref(), Some(message));
}
