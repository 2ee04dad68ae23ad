//! What is planned, of what is asked for and what is there.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use serde_json::{Value, json};

use super::stage::{container, pod};
use crate::{
    PodIdentity,
    pod::{
        plan::{NewSandbox, Plan, View, plan},
        spec::hash,
        status::Seen,
        stop::find,
    },
    probes::{Outcome, ProbeKind, ProbeResults},
    runtime::{Container, ContainerId, ContainerState, Exit, Sandbox, SandboxId, SandboxState},
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

/// `name`, and `run`, `new`, `lost` or an exit code.
fn there(pod: &Pod, sandbox: u32, name: &str, state: &str) -> Container {
    let hash = find(pod, name)
        .map(|container| hash(&container))
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
            code => ContainerState::Exited(Exit {
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

fn planned(pod: &Pod, seen: &Seen, probes: &ProbeResults) -> Plan {
    let actuated = BTreeMap::new();
    let view = View {
        pod,
        seen,
        probes,
        actuated: &actuated,
    };
    plan(&view, false)
}

/// With one good sandbox: `kill pod`, what is ended and what is started, in words.
fn words(pod: &Pod, states: &[(&str, &str)]) -> String {
    words_with(pod, states, &ProbeResults::default())
}

fn words_with(pod: &Pod, states: &[(&str, &str)], probes: &ProbeResults) -> String {
    let containers = states
        .iter()
        .map(|(name, state)| there(pod, 0, name, state))
        .collect();
    let seen = Seen::new(vec![sandbox(0, SandboxState::Ready)], containers);
    let plan = planned(pod, &seen, probes);
    let mut words = Vec::new();
    if plan.kill_pod {
        words.push("kill pod".to_owned());
    }
    words.extend(plan.kill.iter().map(|kill| format!("kill {}", kill.name)));
    words.extend(plan.ephemeral.iter().map(|at| format!("ephemeral {at}")));
    words.extend(plan.init.iter().map(|at| format!("init {at}")));
    words.extend(plan.regular.iter().map(|at| format!("regular {at}")));
    words.join(", ")
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
fn what_is_missing_is_started_and_what_runs_is_left_alone() {
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
        assert_eq!(words(&two(policy), states), expected, "{policy} {states:?}");
    }
}

#[test]
fn probes_that_fail_end_containers() {
    let id = ContainerId("a-0".to_owned());
    let states = [("a", "run"), ("b", "run")];
    for (kind, policy, expected) in [
        (ProbeKind::Liveness, "Always", "kill a, regular 0"),
        (ProbeKind::Startup, "OnFailure", "kill a, regular 0"),
        (ProbeKind::Liveness, "Never", "kill a"),
        (ProbeKind::Readiness, "Always", ""),
    ] {
        let probes = ProbeResults::default().with(&id, kind, Outcome::Failure);
        assert_eq!(
            words_with(&two(policy), &states, &probes),
            expected,
            "{kind} {policy}"
        );
    }
    let probes = ProbeResults::default().with(&id, ProbeKind::Liveness, Outcome::Failure);
    let seen = Seen::new(
        vec![sandbox(0, SandboxState::Ready)],
        vec![
            there(&two("Always"), 0, "a", "run"),
            there(&two("Always"), 0, "b", "run"),
        ],
    );
    let plan = planned(&two("Always"), &seen, &probes);
    assert_eq!(
        plan.kill[0].message,
        "Container a failed liveness probe, will be restarted"
    );
}

#[test]
fn a_container_with_another_image_is_another_one() {
    let mut changed = two("Never");
    let seen = Seen::new(
        vec![sandbox(0, SandboxState::Ready)],
        vec![there(&changed, 0, "a", "run"), there(&changed, 0, "b", "run")],
    );
    changed.spec.as_mut().unwrap().containers[1].image = Some("other".to_owned());
    let plan = planned(&changed, &seen, &ProbeResults::default());
    assert_eq!(
        plan.kill[0].message,
        "Container b definition changed, will be restarted"
    );
    assert_eq!(plan.regular, [1]);
}

#[test]
fn init_containers_come_in_order_and_sidecars_stay() {
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
        // The runtime forgot what is over.
        ("Always", &[("s", "run"), ("a", "run")][..], ""),
        ("Always", &[("a", "run")][..], "init 1"),
        ("Never", &[("s", "run"), ("j", "0"), ("a", "0")][..], "kill pod"),
        ("Never", &[("s", "1"), ("j", "0"), ("a", "0")][..], "kill pod"),
    ] {
        assert_eq!(words(&with(policy), states), expected, "{policy} {states:?}");
    }
}

#[test]
fn the_next_init_container_waits_until_a_sidecar_has_started() {
    let mut slow = sidecar("s");
    slow["startupProbe"] = json!({"exec": {"command": ["true"]}});
    let pod = pod(
        "web",
        json!({"initContainers": [slow, container("j")], "containers": [container("a")]}),
    );
    let id = ContainerId("s-0".to_owned());
    let found = |outcome| ProbeResults::default().with(&id, ProbeKind::Startup, outcome);
    let states = [("s", "run")];
    assert_eq!(words(&pod, &states), "");
    assert_eq!(words_with(&pod, &states, &found(Outcome::Unknown)), "");
    assert_eq!(words_with(&pod, &states, &found(Outcome::Success)), "init 1");
    assert_eq!(
        words_with(&pod, &states, &found(Outcome::Failure)),
        "kill s, init 0"
    );
}

#[test]
fn ephemeral_containers_are_started_once() {
    let pod = pod(
        "web",
        json!({"containers": [container("a")], "ephemeralContainers": [container("e"), container("f")]}),
    );
    assert_eq!(words(&pod, &[("a", "run"), ("e", "1")]), "ephemeral 1");
}

#[test]
fn without_a_good_sandbox_everything_begins_anew() {
    let replaces = |attempt, replaces| Some(NewSandbox { attempt, replaces });
    let fresh = planned(&two("Always"), &Seen::default(), &ProbeResults::default());
    assert_eq!((fresh.sandbox, fresh.regular), (replaces(0, false), vec![0, 1]));

    let dead = |pod: &Pod, states: &[(&str, &str)]| {
        let containers = states
            .iter()
            .map(|(name, state)| there(pod, 0, name, state))
            .collect();
        Seen::new(vec![sandbox(0, SandboxState::NotReady)], containers)
    };
    let pod_of = two("OnFailure");
    let plan = planned(
        &pod_of,
        &dead(&pod_of, &[("a", "0"), ("b", "137")]),
        &ProbeResults::default(),
    );
    assert_eq!(
        (plan.kill_pod, plan.sandbox, plan.regular),
        (true, replaces(1, true), vec![1])
    );
    let plan = planned(
        &pod_of,
        &dead(&pod_of, &[("a", "0"), ("b", "0")]),
        &ProbeResults::default(),
    );
    assert_eq!((plan.kill_pod, plan.sandbox), (true, None));
    let never = two("Never");
    let plan = planned(&never, &dead(&never, &[("a", "1")]), &ProbeResults::default());
    assert_eq!((plan.kill_pod, plan.sandbox), (true, None));
    // Never begun: tried again.
    let plan = planned(&never, &dead(&never, &[]), &ProbeResults::default());
    assert_eq!((plan.sandbox, plan.regular), (replaces(1, true), vec![0, 1]));

    let init = pod(
        "web",
        json!({"initContainers": [container("i")], "containers": [container("a")]}),
    );
    let plan = planned(
        &init,
        &dead(&init, &[("i", "0"), ("a", "137")]),
        &ProbeResults::default(),
    );
    assert_eq!(
        (plan.sandbox, plan.init, plan.regular),
        (replaces(1, true), vec![0], vec![])
    );

    let two_ready = Seen::new(
        vec![sandbox(0, SandboxState::Ready), sandbox(1, SandboxState::Ready)],
        vec![],
    );
    assert_eq!(
        planned(&pod_of, &two_ready, &ProbeResults::default()).sandbox,
        replaces(2, true)
    );
    let mut no_address = sandbox(0, SandboxState::Ready);
    no_address.addresses.clear();
    let seen = Seen::new(vec![no_address], vec![]);
    assert_eq!(
        planned(&pod_of, &seen, &ProbeResults::default()).sandbox,
        replaces(1, true)
    );
}

#[test]
fn a_rule_that_restarts_all_removes_who_asked_last() {
    let mut asking = container("a");
    asking["restartPolicy"] = "Never".into();
    asking["restartPolicyRules"] =
        json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
    let pod = pod(
        "web",
        json!({"restartPolicy": "Never", "initContainers": [container("i")],
        "containers": [asking, container("b")]}),
    );
    let containers = vec![
        there(&pod, 0, "a", "42"),
        there(&pod, 0, "b", "run"),
        there(&pod, 0, "i", "0"),
    ];
    let seen = Seen::new(vec![sandbox(0, SandboxState::Ready)], containers);
    let actuated = BTreeMap::new();
    let view = View {
        pod: &pod,
        seen: &seen,
        probes: &ProbeResults::default(),
        actuated: &actuated,
    };
    let reset: Vec<_> = plan(&view, true)
        .reset
        .iter()
        .map(|reset| (reset.name.clone(), reset.kill))
        .collect();
    let expected = [("b", true), ("i", false), ("a", false)].map(|(name, kill)| (name.to_owned(), kill));
    assert_eq!(reset, expected);
}
