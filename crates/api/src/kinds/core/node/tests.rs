use super::*;

fn messages(judge: impl Fn(&mut ErrorList)) -> Vec<String> {
    let mut errors = ErrorList::new();
    judge(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn the_one_network_and_the_list_are_kept_together() {
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
        settle_networks(&mut spec);
        assert_eq!(spec, after);
    }
}

#[test]
fn two_networks_are_of_two_families() {
    let of = |list: &[&str]| messages(|errors| networks(errors, &json!({"podCIDRs": list})));
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
fn taints_in_an_annotation_are_judged_too() {
    let key = "scheduler.alpha.kubernetes.io/taints";
    let node = |text: &str| json!({"metadata": {"annotations": {key: text}}});
    assert_eq!(
        messages(|errors| annotation::annotations(errors, &node("[{\"key\":\"a\"}]"))),
        ["metadata.annotations.scheduler.alpha.kubernetes.io/taints[0].effect: Required value"]
    );
    assert_eq!(
        messages(|errors| annotation::annotations(errors, &node("["))),
        [
            "metadata.annotations: Invalid value: \"scheduler.alpha.kubernetes.io/taints\": unexpected end of JSON \
             input"
        ]
    );
}

#[test]
fn features_are_sorted_words() {
    let of =
        |list: &[&str]| messages(|errors| features(errors, &json!({"status": {"declaredFeatures": list}})));
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
fn a_stored_configuration_stays_valid() {
    let map = json!({"namespace": "n", "name": "m", "kubeletConfigKey": "k", "uid": "u"});
    let judged = |field_path| {
        messages(|errors| config::source(errors, &Path::new("c"), &json!({"configMap": map}), field_path))
    };
    assert_eq!(
        judged(config::Place::Spec),
        ["c.configMap.uid: Forbidden: uid must not be set in spec"]
    );
    assert_eq!(
        judged(config::Place::Status),
        ["c.configMap.resourceVersion: Required value"]
    );
}

#[test]
fn rows_show_readiness_and_roles() {
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
