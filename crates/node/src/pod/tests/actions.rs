//! Actions computed from the spec of a pod and the state of the runtime.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use serde_json::{Value, json};

use super::harness::{container, pod};
use crate::{
    PodIdentity,
    pod::{
        actions::{NewSandbox, PodActions, PodActionsInput, compute_pod_actions, compute_restart_actions},
        spec::hash_container,
        status::PodSnapshot,
        stop::find_container,
    },
    probes::{ProbeOutcome, ProbeResults, ProbeType},
    runtime::{Container, ContainerExit, ContainerId, ContainerState, Sandbox, SandboxId, SandboxState},
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn sandbox(attempt: u32, state: SandboxState) -> Sandbox {
    Sandbox {
        id: SandboxId(format!("s{attempt}")),
        pod: PodIdentity::default(),
        attempt,
        state,
        created: at(attempt.into()),
        addresses: vec!["10.0.0.1".parse().unwrap()],
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

/// A container with state `run`, `new`, `lost` or an exit code.
fn instance(pod: &Pod, sandbox: u32, name: &str, state: &str) -> Container {
    let hash = find_container(pod, name)
        .map(|container| hash_container(&container))
        .unwrap_or_default();
    Container {
        id: ContainerId(format!("{name}-{sandbox}")),
        sandbox: SandboxId(format!("s{sandbox}")),
        pod: PodIdentity::default(),
        name: name.to_owned(),
        attempt: 0,
        image: String::new(),
        image_id: String::new(),
        created: at(10 + i64::from(sandbox)),
        state: match state {
            "run" => ContainerState::Running { started: at(11) },
            "new" => ContainerState::Created,
            "lost" => ContainerState::Unknown,
            code => ContainerState::Exited(ContainerExit {
                code: code.parse().unwrap(),
                signal: None,
                started: Some(at(11)),
                finished: at(12),
                reason: String::new(),
                message: String::new(),
            }),
        },
        annotations: [("io.kubernetes.container.hash".to_owned(), hash)].into(),
        labels: BTreeMap::new(),
    }
}

fn actions_for(pod: &Pod, snapshot: &PodSnapshot, probes: &ProbeResults) -> PodActions {
    let actuated = BTreeMap::new();
    let input = PodActionsInput {
        pod,
        snapshot,
        probes,
        actuated: &actuated,
    };
    compute_pod_actions(&input)
}

/// Describes the actions for a pod with a usable sandbox: `kill pod`, the containers to kill, and the containers to start.
fn describe(pod: &Pod, states: &[(&str, &str)]) -> String {
    describe_with(pod, states, &ProbeResults::default())
}

fn describe_with(pod: &Pod, states: &[(&str, &str)], probes: &ProbeResults) -> String {
    let containers = states
        .iter()
        .map(|(name, state)| instance(pod, 0, name, state))
        .collect();
    let snapshot = PodSnapshot::new(vec![sandbox(0, SandboxState::Ready)], containers);
    let actions = actions_for(pod, &snapshot, probes);
    let mut parts = Vec::new();
    if actions.kill_pod {
        parts.push("kill pod".to_owned());
    }
    parts.extend(actions.kill.iter().map(|kill| format!("kill {}", kill.name)));
    parts.extend(actions.ephemeral.iter().map(|at| format!("ephemeral {at}")));
    parts.extend(actions.init.iter().map(|at| format!("init {at}")));
    parts.extend(actions.regular.iter().map(|at| format!("regular {at}")));
    parts.join(", ")
}

fn two(policy: &str) -> Pod {
    pod(
        "web",
        json!({"restartPolicy": policy, "containers": [container("a"), container("b")]}),
    )
}

fn sidecar(name: &str) -> Value {
    let mut sidecar = container(name);
    sidecar["restartPolicy"] = "Always".into();
    sidecar
}

#[test]
fn starts_missing_containers_and_keeps_running_ones() {
    for (policy, states, expected) in [
        ("Always", &[][..], "regular 0, regular 1"),
        ("Always", &[("a", "run"), ("b", "run")][..], ""),
        ("Always", &[("a", "run")][..], "regular 1"),
        ("Always", &[("a", "0"), ("b", "1")][..], "regular 0, regular 1"),
        ("OnFailure", &[("a", "0"), ("b", "1")][..], "regular 1"),
        ("OnFailure", &[("a", "0"), ("b", "0")][..], "kill pod"),
        ("Never", &[("a", "1"), ("b", "run")][..], ""),
        ("Never", &[("a", "1"), ("b", "0")][..], "kill pod"),
        ("Never", &[("a", "new"), ("b", "run")][..], "regular 0"),
        ("Always", &[("a", "lost"), ("b", "run")][..], "kill a, regular 0"),
    ] {
        assert_eq!(describe(&two(policy), states), expected, "{policy} {states:?}");
    }
}

#[test]
fn failed_probes_kill_containers() {
    let id = ContainerId("a-0".to_owned());
    let states = [("a", "run"), ("b", "run")];
    for (kind, policy, expected) in [
        (ProbeType::Liveness, "Always", "kill a, regular 0"),
        (ProbeType::Startup, "OnFailure", "kill a, regular 0"),
        (ProbeType::Liveness, "Never", "kill a"),
        (ProbeType::Readiness, "Always", ""),
    ] {
        let probes = ProbeResults::default().with(&id, kind, ProbeOutcome::Failure);
        assert_eq!(
            describe_with(&two(policy), &states, &probes),
            expected,
            "{kind} {policy}"
        );
    }
    let probes = ProbeResults::default().with(&id, ProbeType::Liveness, ProbeOutcome::Failure);
    let snapshot = PodSnapshot::new(
        vec![sandbox(0, SandboxState::Ready)],
        vec![
            instance(&two("Always"), 0, "a", "run"),
            instance(&two("Always"), 0, "b", "run"),
        ],
    );
    let actions = actions_for(&two("Always"), &snapshot, &probes);
    assert_eq!(
        actions.kill[0].message,
        "Container a failed liveness probe, will be restarted"
    );
}

#[test]
fn changed_image_restarts_the_container() {
    let mut changed = two("Never");
    let snapshot = PodSnapshot::new(
        vec![sandbox(0, SandboxState::Ready)],
        vec![
            instance(&changed, 0, "a", "run"),
            instance(&changed, 0, "b", "run"),
        ],
    );
    changed.spec.as_mut().unwrap().containers[1].image = Some("other".to_owned());
    let actions = actions_for(&changed, &snapshot, &ProbeResults::default());
    assert_eq!(
        actions.kill[0].message,
        "Container b definition changed, will be restarted"
    );
    assert_eq!(actions.regular, [1]);
}

#[test]
fn init_containers_run_in_order_and_sidecars_keep_running() {
    let init = json!([container("i"), sidecar("s"), container("j")]);
    let with = |policy: &str| {
        pod(
            "web",
            json!({"restartPolicy": policy, "initContainers": init, "containers": [container("a")]}),
        )
    };
    for (policy, states, expected) in [
        ("Always", &[][..], "init 0"),
        ("Always", &[("i", "run")][..], ""),
        ("Always", &[("i", "0")][..], "init 1"),
        ("Always", &[("i", "1")][..], "init 0"),
        ("Never", &[("i", "1")][..], "kill pod"),
        ("Always", &[("i", "new")][..], "init 0"),
        ("Always", &[("i", "0"), ("s", "run")][..], "init 2"),
        ("Always", &[("i", "0"), ("s", "1")][..], "init 1"),
        ("Always", &[("i", "0"), ("s", "1"), ("j", "run")][..], "init 1"),
        ("Always", &[("i", "0"), ("s", "run"), ("j", "0")][..], "regular 0"),
        // The runtime has removed the completed containers.
        ("Always", &[("s", "run"), ("a", "run")][..], ""),
        ("Always", &[("a", "run")][..], "init 1"),
        ("Never", &[("s", "run"), ("j", "0"), ("a", "0")][..], "kill pod"),
        ("Never", &[("s", "1"), ("j", "0"), ("a", "0")][..], "kill pod"),
    ] {
        assert_eq!(describe(&with(policy), states), expected, "{policy} {states:?}");
    }
}

#[test]
fn next_init_container_waits_for_sidecar_startup_probe() {
    let mut slow = sidecar("s");
    slow["startupProbe"] = json!({"exec": {"command": ["true"]}});
    let pod = pod(
        "web",
        json!({"initContainers": [slow, container("j")], "containers": [container("a")]}),
    );
    let id = ContainerId("s-0".to_owned());
    let startup_result = |outcome| ProbeResults::default().with(&id, ProbeType::Startup, outcome);
    let states = [("s", "run")];
    assert_eq!(describe(&pod, &states), "");
    assert_eq!(
        describe_with(&pod, &states, &startup_result(ProbeOutcome::Unknown)),
        ""
    );
    assert_eq!(
        describe_with(&pod, &states, &startup_result(ProbeOutcome::Success)),
        "init 1"
    );
    assert_eq!(
        describe_with(&pod, &states, &startup_result(ProbeOutcome::Failure)),
        "kill s, init 0"
    );
}

#[test]
fn ephemeral_containers_start_once() {
    let pod = pod(
        "web",
        json!({"containers": [container("a")], "ephemeralContainers": [container("e"), container("f")]}),
    );
    assert_eq!(describe(&pod, &[("a", "run"), ("e", "1")]), "ephemeral 1");
}

#[test]
fn unusable_sandbox_restarts_the_pod() {
    let new_sandbox = |attempt, replaces| Some(NewSandbox { attempt, replaces });
    let fresh = actions_for(&two("Always"), &PodSnapshot::default(), &ProbeResults::default());
    assert_eq!(
        (fresh.sandbox, fresh.regular),
        (new_sandbox(0, false), vec![0, 1])
    );

    let dead = |pod: &Pod, states: &[(&str, &str)]| {
        let containers = states
            .iter()
            .map(|(name, state)| instance(pod, 0, name, state))
            .collect();
        PodSnapshot::new(vec![sandbox(0, SandboxState::NotReady)], containers)
    };
    let on_failure = two("OnFailure");
    let actions = actions_for(
        &on_failure,
        &dead(&on_failure, &[("a", "0"), ("b", "137")]),
        &ProbeResults::default(),
    );
    assert_eq!(
        (actions.kill_pod, actions.sandbox, actions.regular),
        (true, new_sandbox(1, true), vec![1])
    );
    let actions = actions_for(
        &on_failure,
        &dead(&on_failure, &[("a", "0"), ("b", "0")]),
        &ProbeResults::default(),
    );
    assert_eq!((actions.kill_pod, actions.sandbox), (true, None));
    let never = two("Never");
    let actions = actions_for(&never, &dead(&never, &[("a", "1")]), &ProbeResults::default());
    assert_eq!((actions.kill_pod, actions.sandbox), (true, None));
    // Never started: retried.
    let actions = actions_for(&never, &dead(&never, &[]), &ProbeResults::default());
    assert_eq!(
        (actions.sandbox, actions.regular),
        (new_sandbox(1, true), vec![0, 1])
    );

    let init = pod(
        "web",
        json!({"initContainers": [container("i")], "containers": [container("a")]}),
    );
    let actions = actions_for(
        &init,
        &dead(&init, &[("i", "0"), ("a", "137")]),
        &ProbeResults::default(),
    );
    assert_eq!(
        (actions.sandbox, actions.init, actions.regular),
        (new_sandbox(1, true), vec![0], vec![])
    );

    let two_ready = PodSnapshot::new(
        vec![sandbox(0, SandboxState::Ready), sandbox(1, SandboxState::Ready)],
        vec![],
    );
    assert_eq!(
        actions_for(&on_failure, &two_ready, &ProbeResults::default()).sandbox,
        new_sandbox(2, true)
    );
    let mut no_address = sandbox(0, SandboxState::Ready);
    no_address.addresses.clear();
    let snapshot = PodSnapshot::new(vec![no_address], vec![]);
    assert_eq!(
        actions_for(&on_failure, &snapshot, &ProbeResults::default()).sandbox,
        new_sandbox(1, true)
    );
}

#[test]
fn restart_all_rule_removes_the_triggering_container_last() {
    let mut trigger = container("a");
    trigger["restartPolicy"] = "Never".into();
    trigger["restartPolicyRules"] =
        json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
    let pod = pod(
        "web",
        json!({"restartPolicy": "Never", "initContainers": [container("i")],
        "containers": [trigger, container("b")]}),
    );
    let containers = vec![
        instance(&pod, 0, "a", "42"),
        instance(&pod, 0, "b", "run"),
        instance(&pod, 0, "i", "0"),
    ];
    let snapshot = PodSnapshot::new(vec![sandbox(0, SandboxState::Ready)], containers);
    let actuated = BTreeMap::new();
    let input = PodActionsInput {
        pod: &pod,
        snapshot: &snapshot,
        probes: &ProbeResults::default(),
        actuated: &actuated,
    };
    let reset: Vec<_> = compute_restart_actions(&input)
        .reset
        .iter()
        .map(|reset| (reset.name.clone(), reset.kill))
        .collect();
    let expected = [("b", true), ("i", false), ("a", false)].map(|(name, kill)| (name.to_owned(), kill));
    assert_eq!(reset, expected);
}
