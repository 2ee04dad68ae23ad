//! Pending, Running, Succeeded, Failed.

use super::*;

type States = Vec<(&'static str, ContainerState)>;

#[test]
fn phase_follows_containers_and_restart_policy() {
    let run = running;
    // Policy, states of the existing containers, phase.
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
        let mut fixture = plain(&["a", "b"]).sandbox();
        fixture.pod.spec.as_mut().unwrap().restart_policy = Some(policy.to_owned());
        let name = format!("{policy} {states:?}");
        for (name, state) in states {
            fixture = fixture.with(name, 0, state);
        }
        assert_eq!(fixture.phase(), expected, "{name}");
    }
}

#[test]
fn init_containers_delay_or_fail_the_pod() {
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
        let fixture = fixture(spec(policy)).sandbox().with("i", 0, state.clone());
        assert_eq!(fixture.phase(), expected, "{policy} {state:?}");
    }
    let ready = fixture(spec("Always"))
        .sandbox()
        .with("i", 0, exited(0))
        .with("j", 0, exited(0));
    assert_eq!(ready.with("a", 0, running()).phase(), "Running");
}

#[test]
fn sidecars_delay_the_pod_until_started_and_never_reset_it() {
    let spec = json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always", "startupProbe": {"periodSeconds": 1}}],
        "containers": [{"name": "a"}],
        "restartPolicy": "Never",
    });
    let starting = fixture(spec.clone()).sandbox().with("s", 0, running());
    assert_eq!(starting.phase(), "Pending");
    // The regular container has started: the sidecar is restarted next to it.
    let again = fixture(spec.clone())
        .sandbox()
        .with("a", 0, running())
        .with("s", 1, running());
    assert_eq!(again.phase(), "Running");
    // The exit code of a sidecar does not count.
    let over = fixture(spec)
        .sandbox()
        .with("a", 0, exited(0))
        .with("s", 0, exited(137));
    assert_eq!(over.phase(), "Succeeded");
}

#[test]
fn container_restart_policy_and_rules_override_the_pods() {
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
        let fixture = fixture(spec(container.clone()))
            .sandbox()
            .with("a", 0, exited(code));
        assert_eq!(fixture.phase(), expected, "{container} {code}");
    }
}

#[test]
fn terminated_pod_finishes_whatever_its_restart_policy() {
    let mut stopped = plain(&["a"]).with("a", 0, exited(0));
    stopped.worker_state = PodWorkerState::Terminated;
    assert_eq!(stopped.phase(), "Succeeded");
    let mut failed = plain(&["a"]).with("a", 0, exited(143));
    failed.worker_state = PodWorkerState::Terminated;
    assert_eq!(failed.phase(), "Failed");
    // A static pod is not finished by termination.
    let source = ("kubernetes.io/config.source".to_owned(), "file".to_owned());
    failed.pod.metadata.annotations = Some([source].into());
    assert_eq!(failed.phase(), "Running");
}

#[test]
fn terminal_phase_is_kept() {
    for phase in ["Succeeded", "Failed"] {
        let fixture = plain(&["a"]).sandbox().with("a", 0, running());
        let status = fixture
            .with_api_status(json!({"phase": phase, "reason": "Evicted", "message": "why"}))
            .status();
        assert_eq!(status.phase.as_deref(), Some(phase));
        assert_eq!(status.reason.as_deref(), Some("Evicted"));
        assert_eq!(status.message.as_deref(), Some("why"));
    }
}

#[test]
fn reason_belongs_to_the_phase() {
    let reported = json!({"phase": "Pending", "reason": "Slow", "message": "why"});
    let pending = plain(&["a"]).sandbox().with_api_status(reported.clone());
    assert_eq!(pending.status().reason.as_deref(), Some("Slow"));
    let running = plain(&["a"])
        .sandbox()
        .with_api_status(reported)
        .with("a", 0, running());
    assert_eq!(running.status().reason, None);
}

#[test]
fn termination_cause_makes_the_pod_failed() {
    let mut fixture = plain(&["a"]).sandbox().with("a", 0, running());
    let message = "Pod was active on the node longer than the specified deadline";
    fixture.termination_cause = Some(TerminationCause {
        reason: "DeadlineExceeded".to_owned(),
        message: message.to_owned(),
        disruption: false,
    });
    let status = fixture.status();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(status.message.as_deref(), Some(message));
}
