use super::*;

fn messages(validate: impl Fn(&mut ErrorList)) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn synchronizes_pod_cidr_and_pod_cidrs() {
    for (before, after) in [
        (
            json!({"podCIDR": "a"}),
            json!({"podCIDR": "a", "podCIDRs": ["a"]}),
        ),
        (
            json!({"podCIDRs": ["a", "b"]}),
            json!({"podCIDR": "a", "podCIDRs": ["a", "b"]}),
        ),
        (
            json!({"podCIDR": "c", "podCIDRs": ["a", "b"]}),
            json!({"podCIDR": "c", "podCIDRs": ["c"]}),
        ),
        (json!({}), json!({})),
    ] {
        let mut spec = before;
        synchronize_pod_cidrs(&mut spec);
        assert_eq!(spec, after);
    }
}

#[test]
fn rejects_two_networks_of_one_family() {
    let of = |list: &[&str]| messages(|errors| validate_pod_cidrs(errors, &json!({"podCIDRs": list})));
    assert!(of(&["10.0.0.0/24", "fd00::/64"]).is_empty());
    assert_eq!(
        of(&["10.0.0.0/24", "10.1.0.0/24"]),
        [
            "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one CIDR for \
             each IP family"
        ]
    );
}

#[test]
fn validates_taints_in_annotations() {
    let key = "scheduler.alpha.kubernetes.io/taints";
    let node = |text: &str| json!({"metadata": {"annotations": {key: text}}});
    assert_eq!(
        messages(|errors| annotation::validate_node_annotations(errors, &node("[{\"key\":\"a\"}]"))),
        ["metadata.annotations.scheduler.alpha.kubernetes.io/taints[0].effect: Required value"]
    );
    assert_eq!(
        messages(|errors| annotation::validate_node_annotations(errors, &node("["))),
        [
            "metadata.annotations: Invalid value: \"scheduler.alpha.kubernetes.io/taints\": unexpected end of JSON \
             input"
        ]
    );
}

#[test]
fn rejects_unsorted_and_malformed_features() {
    let of = |list: &[&str]| {
        messages(|errors| validate_declared_features(errors, &json!({"status": {"declaredFeatures": list}})))
    };
    assert!(of(&["A", "B/c", "B/cD9"]).is_empty());
    assert_eq!(
        of(&["B", "B", "A"]),
        [
            "status.declaredFeatures[1]: Duplicate value: \"B\"",
            "status.declaredFeatures[2]: Invalid value: \"A\": list must be sorted alphabetically",
        ]
    );
    assert_eq!(of(&["a"]).len(), 1);
    assert_eq!(of(&["A//b"]).len(), 1);
}

#[test]
fn accepts_stored_config_sources() {
    let map = json!({"namespace": "n", "name": "m", "kubeletConfigKey": "k", "uid": "u"});
    let validate = |holder| {
        messages(|errors| {
            config::validate_config_source(errors, &Path::new("c"), &json!({"configMap": map}), holder);
        })
    };
    assert_eq!(
        validate(config::ConfigSourceHolder::Spec),
        ["c.configMap.uid: Forbidden: uid must not be set in spec"]
    );
    assert_eq!(
        validate(config::ConfigSourceHolder::Status),
        ["c.configMap.resourceVersion: Required value"]
    );
}

#[test]
fn row_shows_status_and_roles() {
    let node = json!({
        "metadata": {
            "name": "n",
            "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "control", "other": "x"},
        },
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "arm64", "osImage": ""},
        },
    });
    assert_eq!(
        Node.row(&node, Time::from_unix(0, 0)).cells,
        [
            "n",
            "NotReady,SchedulingDisabled",
            "control,worker",
            "<unknown>",
            "v1",
            "10.0.0.1",
            "<none>",
            "<unknown>",
            "6 (arm64)",
            "<unknown>",
        ]
    );
}
