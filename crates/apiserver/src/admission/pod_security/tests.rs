use k3_api::strategy::TreeMut;
use serde_json::json;

use super::{super::testing::TestCluster, policy::PodSecurityVersion, *};

/// A pod that keeps to the strictest standard.
fn good() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "initContainers": [container("i")],
            "containers": [container("c")],
        },
    })
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "x", "securityContext": {
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
    }})
}

/// The pod with something merged into it.
fn with(change: &Value) -> Value {
    let mut pod = good();
    merge(&mut pod, change);
    pod
}

/// Merges objects; lists by position.
fn merge(into: &mut Value, change: &Value) {
    match change {
        Value::Object(fields) => {
            for (name, value) in fields {
                if value.is_object() || (value.is_array() && into.at(name).is_array()) {
                    if into.at(name).is_null() {
                        into.set(name, json!({}));
                    }
                    merge(into.at_mut(name).unwrap(), value);
                } else if value.is_null() {
                    into.remove(name);
                } else {
                    into.set(name, value.clone());
                }
            }
        }
        Value::Array(items) => {
            let list = into.as_array_mut().unwrap();
            for (at, item) in items.iter().enumerate() {
                match list.get_mut(at) {
                    Some(there) => merge(there, item),
                    None => list.push(item.clone()),
                }
            }
        }
        _ => {}
    }
}

/// In the security context of the container.
fn context(of_container: &Value) -> Value {
    json!({"spec": {"containers": [{"securityContext": of_container}]}})
}

/// In the security context of the pod and of both containers.
fn contexts(every: &Value) -> Value {
    let one = json!([{"securityContext": every}]);
    json!({"spec": {"securityContext": every, "containers": one, "initContainers": one}})
}

/// What is wrong with a pod, by level and version.
fn wrong(level: PodSecurityLevel, version: PodSecurityVersion, change: &Value) -> String {
    let pod = with(change);
    violation::details(&checks::violations(
        LevelVersion { level, version },
        &Pod::of(&pod),
    ))
}

/// A check: from which version on, on which level, what breaks it, and what is said. The newest idea counts.
type FailingPod = (PodSecurityLevel, i64, Value, &'static str);

fn broken() -> Vec<FailingPod> {
    [broken_baseline(), broken_restricted()].concat()
}

fn broken_baseline() -> Vec<FailingPod> {
    use PodSecurityLevel::Baseline;
    vec![
        (
            Baseline,
            0,
            json!({"metadata": {"annotations": {
                "container.apparmor.security.beta.kubernetes.io/c": "unconfined",
                "container.apparmor.security.beta.kubernetes.io/i": "localhost/x",
            }}, "spec": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}}),
            "forbidden AppArmor profiles (pod and annotation must not set AppArmor profile type to \"Unconfined\", \
             \"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\")",
        ),
        (
            Baseline,
            0,
            json!({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": 1}}}),
            "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
             \"container.apparmor.security.beta.kubernetes.io/c=1\")",
        ),
        (
            Baseline,
            0,
            json!({"spec": {"hostNetwork": true, "hostPID": true, "hostIPC": true}}),
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
        ),
        (
            Baseline,
            0,
            json!({"spec": {"containers": [{"ports": [{"hostPort": 80}, {"hostPort": 8}, {"containerPort": 1}]}],
                "initContainers": [{"ports": [{"hostPort": 80}]}]}}),
            "hostPort (containers \"i\", \"c\" use hostPorts 8, 80)",
        ),
        (
            Baseline,
            34,
            json!({"spec": {"containers": [{
                "livenessProbe": {"httpGet": {"host": "b"}}, "lifecycle": {"preStop": {"tcpSocket": {"host": "a"}}},
            }]}}),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle hosts \"a\", \"b\")",
        ),
        (
            Baseline,
            0,
            context(&json!({"privileged": true})),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (
            Baseline,
            0,
            context(&json!({"procMount": "Unmasked"})),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            Baseline,
            0,
            contexts(&json!({"seLinuxOptions": {"type": "spc_t", "user": "u", "role": "r"}})),
            "seLinuxOptions (pod and containers \"i\", \"c\" set forbidden securityContext.seLinuxOptions: type \"spc_t\"; user \
             may not be set; role may not be set)",
        ),
        (
            Baseline,
            19,
            context(&json!({"seccompProfile": {"type": "Unconfined"}})),
            "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            Baseline,
            0,
            json!({"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_syncookies"}]}}}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            Baseline,
            0,
            contexts(&json!({"windowsOptions": {"hostProcess": true}})),
            "hostProcess (pod and containers \"i\", \"c\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ]
}

fn broken_restricted() -> Vec<FailingPod> {
    use PodSecurityLevel::Restricted;
    vec![
        (
            Restricted,
            8,
            context(&json!({"allowPrivilegeEscalation": null})),
            "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false)",
        ),
        (
            Restricted,
            22,
            context(&json!({"capabilities": {"drop": null, "add": ["CHOWN", "NET_BIND_SERVICE"]}})),
            "unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]; container \"c\" must \
             not include \"CHOWN\" in securityContext.capabilities.add)",
        ),
        (
            Restricted,
            0,
            json!({"spec": {"volumes": [{"name": "a", "hostPath": {}}, {"name": "b", "nfs": {}}, {"name": "s", "secret": {}}]}}),
            "restricted volume types (volumes \"a\", \"b\" use restricted volume types \"hostPath\", \"nfs\")",
        ),
        (
            Restricted,
            0,
            json!({"spec": {"securityContext": {"runAsNonRoot": null}, "containers": [{"securityContext": {"runAsNonRoot": true}}]}}),
            "runAsNonRoot != true (pod or container \"i\" must set securityContext.runAsNonRoot=true)",
        ),
        (
            Restricted,
            0,
            context(&json!({"runAsNonRoot": false})),
            "runAsNonRoot != true (container \"c\" must not set securityContext.runAsNonRoot=false)",
        ),
        (
            Restricted,
            23,
            contexts(&json!({"runAsUser": 0})),
            "runAsUser=0 (pod and containers \"i\", \"c\" must not set runAsUser=0)",
        ),
        (
            Restricted,
            19,
            json!({"spec": {"securityContext": {"seccompProfile": null}}}),
            "seccompProfile (pod or containers \"i\", \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
             \"Localhost\")",
        ),
    ]
}

#[test]
fn each_check_applies_from_its_version_and_level() {
    for version in (0..=37)
        .map(PodSecurityVersion::Minor)
        .chain([PodSecurityVersion::Minor(99), PodSecurityVersion::Latest])
    {
        for level in [PodSecurityLevel::Baseline, PodSecurityLevel::Restricted] {
            assert_eq!(wrong(level, version, &json!({})), "", "{version:?}");
        }
        for (of, from, change, said) in broken() {
            let since = version == PodSecurityVersion::Latest
                || matches!(version, PodSecurityVersion::Minor(minor) if minor >= from);
            let expected = if since { said } else { "" };
            assert_eq!(
                wrong(PodSecurityLevel::Restricted, version, &change),
                expected,
                "{version:?}"
            );
            let expected = if of == PodSecurityLevel::Baseline {
                expected
            } else {
                ""
            };
            // Volumes of the host break the wider standard too, in other words.
            if !said.starts_with("restricted volume types") {
                assert_eq!(
                    wrong(PodSecurityLevel::Baseline, version, &change),
                    expected,
                    "{version:?}"
                );
            }
            assert_eq!(wrong(PodSecurityLevel::Privileged, version, &change), "");
        }
    }
}

#[test]
fn checks_follow_policy_version() {
    let at = |level: PodSecurityLevel, minor: i64, change: &Value| {
        wrong(level, PodSecurityVersion::Minor(minor), change)
    };
    let engine = contexts(&json!({"seLinuxOptions": {"type": "container_engine_t"}}));
    assert!(at(PodSecurityLevel::Baseline, 30, &engine).contains("type \"container_engine_t\""));
    assert_eq!(at(PodSecurityLevel::Baseline, 31, &engine), "");
    for (name, from) in [
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_fin_timeout", 29),
        ("net.ipv4.tcp_wmem", 32),
        ("net.ipv4.tcp_notsent_lowat", 37),
    ] {
        let sysctl = json!({"spec": {"securityContext": {"sysctls": [{"name": name}]}}});
        assert_eq!(
            at(PodSecurityLevel::Baseline, from - 1, &sysctl),
            format!("forbidden sysctls ({name})")
        );
        assert_eq!(at(PodSecurityLevel::Baseline, from, &sysctl), "");
    }
    let windows = json!({"spec": {"os": {"name": "windows"}, "securityContext": {"seccompProfile": null}, "containers": [
        {"securityContext": {"allowPrivilegeEscalation": true, "capabilities": {"drop": null}}},
    ]}});
    assert_eq!(
        at(PodSecurityLevel::Restricted, 24, &windows)
            .matches('(')
            .count(),
        3
    );
    assert_eq!(at(PodSecurityLevel::Restricted, 25, &windows), "");
    let own_users = json!({"spec": {"hostUsers": false, "securityContext": {"runAsNonRoot": null, "runAsUser": 0}, "containers": [
        {"securityContext": {"procMount": "Unmasked"}},
    ]}});
    assert_eq!(
        at(PodSecurityLevel::Restricted, 34, &own_users)
            .matches('(')
            .count(),
        3
    );
    assert!(at(PodSecurityLevel::Restricted, 35, &own_users).starts_with("procMount ("));
    assert_eq!(at(PodSecurityLevel::Baseline, 35, &own_users), "");
    let annotations = json!({"metadata": {"annotations": {
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/c": "localhost/x",
    }}});
    assert_eq!(
        at(PodSecurityLevel::Restricted, 18, &annotations),
        "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")"
    );
    assert_eq!(at(PodSecurityLevel::Restricted, 19, &annotations), "");
}

#[test]
fn restricted_check_overrides_baseline_check() {
    let volume = json!({"spec": {"volumes": [{"name": "a", "hostPath": {}}]}});
    assert_eq!(
        wrong(PodSecurityLevel::Baseline, PodSecurityVersion::Latest, &volume),
        "hostPath volumes (volume \"a\")"
    );
    let adds = context(&json!({"capabilities": {"add": ["SYS_ADMIN"]}}));
    let wide = "non-default capabilities (container \"c\" must not include \"SYS_ADMIN\" in securityContext.capabilities.add)";
    assert_eq!(
        wrong(PodSecurityLevel::Baseline, PodSecurityVersion::Latest, &adds),
        wide
    );
    assert_eq!(
        wrong(PodSecurityLevel::Restricted, PodSecurityVersion::Minor(21), &adds),
        wide
    );
    assert!(
        wrong(PodSecurityLevel::Restricted, PodSecurityVersion::Minor(22), &adds)
            .starts_with("unrestricted capabilities (")
    );
}

fn namespace(labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}})
}

fn labels(pairs: &[(&str, &str)]) -> Value {
    let pairs = pairs
        .iter()
        .map(|(mode, value)| (format!("{PREFIX}{mode}"), json!(value)));
    Value::Object(pairs.collect())
}

#[test]
fn parses_namespace_labels() {
    let read = |pairs: &[(&str, &str)]| {
        let labels = labels(pairs);
        let (policy, errors) = NamespacePodSecurity::read(|label| labels.get(label).and_then(Value::as_str));
        let said = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        (said, errors.len())
    };
    for (pairs, said, faults) in [
        (
            &[][..],
            "privileged:latest privileged:latest privileged:latest",
            0,
        ),
        // Who enforces something warns of it.
        (
            &[("enforce", "baseline"), ("enforce-version", "v1.20")],
            "baseline:v1.20 privileged:latest baseline:v1.20",
            0,
        ),
        (
            &[("enforce", "baseline"), ("warn-version", "v1.20")],
            "baseline:latest privileged:latest baseline:v1.20",
            0,
        ),
        (
            &[
                ("enforce", "restricted"),
                ("warn", "privileged"),
                ("audit", "baseline"),
            ],
            "restricted:latest baseline:latest privileged:latest",
            0,
        ),
        // What is enforced fails closed, the rest open.
        (
            &[
                ("enforce", "x"),
                ("audit", "x"),
                ("warn", "x"),
                ("enforce-version", "v1.01"),
            ],
            "restricted:latest privileged:latest privileged:latest",
            4,
        ),
    ] {
        assert_eq!(read(pairs), (said.to_owned(), faults));
    }
}

/// What is said to a pod in a namespace: the refusal, the warnings, and the notes.
async fn evaluate_in_namespace(pairs: &[(&str, &str)], object: Value) -> (String, Vec<String>, Vec<String>) {
    let world = TestCluster::new().await;
    world.put(namespace(&labels(pairs))).await;
    let mut question = world.question(Operation::Create, "", object);
    let refused = world.put_to(&PodSecurity, &mut question, None).err();
    let notes = question.ctx.notes.all().into_iter();
    (
        refused.map(|status| status.message).unwrap_or_default(),
        question.warnings,
        notes
            .map(|(key, add_audit_annotation)| format!("{}={add_audit_annotation}", key.replace(PREFIX, "")))
            .collect(),
    )
}

#[tokio::test]
async fn enforces_audits_and_warns() {
    let host = || with(&json!({"spec": {"hostNetwork": true}}));
    let (refused, warnings, notes) =
        evaluate_in_namespace(&[("enforce", "baseline"), ("audit", "baseline")], host()).await;
    assert_eq!(
        refused,
        "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"
    );
    assert!(warnings.is_empty());
    let would = "would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    assert_eq!(
        notes,
        [
            format!("audit-violations={would}"),
            "enforce-policy=baseline:latest".to_owned()
        ]
    );
    let (refused, warnings, _) = evaluate_in_namespace(&[("warn", "baseline")], host()).await;
    assert_eq!((refused.as_str(), warnings), ("", vec![would.to_owned()]));
    let (refused, warnings, notes) = evaluate_in_namespace(&[], host()).await;
    assert_eq!((refused.as_str(), warnings.len()), ("", 0));
    assert_eq!(notes, ["enforce-policy=privileged:latest"]);
}

#[tokio::test]
async fn pod_templates_only_warn() {
    let template = with(&json!({"spec": {"hostPID": true}}));
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
        "spec": {"template": {"metadata": {}, "spec": template.at("spec")}},
    });
    let (refused, warnings, notes) = evaluate_in_namespace(&[("enforce", "baseline")], deployment).await;
    let would = "would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    assert_eq!(
        (refused.as_str(), warnings, notes.len()),
        ("", vec![would.to_owned()], 0)
    );
}

#[tokio::test]
async fn update_is_evaluated_when_images_or_containers_change() {
    let world = TestCluster::new().await;
    world.put(namespace(&labels(&[("enforce", "baseline")]))).await;
    let old = with(&json!({"spec": {"hostPID": true}}));
    let update = |part: &str, change: &Value| {
        let mut new = old.clone();
        merge(&mut new, change);
        world.update_part(&PodSecurity, part, new, &old).is_ok()
    };
    assert!(update("", &json!({"metadata": {"labels": {"a": "b"}}})));
    assert!(!update("", &json!({"spec": {"containers": [{"image": "y"}]}})));
    assert!(!update(
        "ephemeralcontainers",
        &json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "y"}]}})
    ));
    assert!(update(
        "status",
        &json!({"spec": {"containers": [{"image": "y"}]}})
    ));
}

#[tokio::test]
async fn namespace_update_reports_invalid_labels_and_violating_pods() {
    let world = TestCluster::new().await;
    for (name, owner) in [("b", "1"), ("a", "1"), ("c", "")] {
        let mut pod = with(&json!({"spec": {"hostPID": true}}));
        pod["metadata"] =
            json!({"name": name, "namespace": "n", "ownerReferences": [{"uid": owner, "controller": true}]});
        world.put(pod).await;
    }
    let bare = json!({"name": "d", "namespace": "n"});
    let mut pod = with(&json!({"spec": {"hostPID": true, "hostNetwork": true}}));
    pod["metadata"] = bare;
    world.put(pod).await;
    let old = namespace(&json!({}));
    let new = namespace(&labels(&[("enforce", "baseline"), ("enforce-version", "v1.20")]));
    let update = |new: &Value, old: &Value| {
        let mut question = world.question(Operation::Update, "", new.clone());
        let refused = world.put_to(&PodSecurity, &mut question, Some(old)).err();
        (refused.map(|status| status.message), question.warnings)
    };
    let (refused, warnings) = update(&new, &old);
    assert_eq!(refused, None);
    assert_eq!(
        warnings,
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:v1.20\"",
            "a (and 3 other pods): host namespaces"
        ]
    );
    assert_eq!(update(&new, &new), (None, vec![]));
    assert_eq!(update(&old, &new), (None, vec![]));
    let bad = namespace(&labels(&[("enforce", "x")]));
    assert_eq!(
        update(&bad, &old).0.unwrap(),
        "Namespace \"n\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"x\": must be one of \
         privileged, baseline, restricted"
    );
    // What was wrong before does not keep a namespace from being changed.
    assert_eq!(update(&bad, &bad).0, None);
}
