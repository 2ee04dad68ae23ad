use kubecontroller::selector::Selector;
use serde_json::{Value, json};

use super::*;
use crate::test_cluster::TestCluster;

fn spread(key: &str, when: &str, change: impl FnOnce(&mut Value)) -> impl FnOnce(&mut Value) {
    let mut rule = json!({
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "a"}},
    });
    change(&mut rule);
    move |pod| {
        pod["metadata"]["labels"] = json!({"app": "a"});
        pod["spec"]["topologySpreadConstraints"] = json!([rule]);
    }
}

fn app(pod: &mut Value) {
    pod["metadata"]["labels"] = json!({"app": "a"});
}

/// Zone a has two nodes, zone b one, and one node has no zone.
fn zones(pods: &[(&str, usize)]) -> TestCluster {
    let mut sample = TestCluster::default();
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", "")] {
        sample.node(name, |node| {
            if !zone.is_empty() {
                node["metadata"]["labels"]["zone"] = zone.into();
            }
        });
    }
    for (node, pods) in pods {
        for number in 0..*pods {
            sample.placed(&format!("{node}-{number}"), node, app);
        }
    }
    sample
}

/// The plugin and its state after `pre_filter`.
fn pre_filter(sample: &TestCluster, pod: &Pod) -> (PodTopologySpread, SpreadState) {
    let plugin = PodTopologySpread::default();
    let mut state = SpreadState::default();
    let result = plugin.pre_filter(&sample.cycle(pod), &mut state);
    assert!(matches!(result, Ok(PreFilterResult::All)));
    (plugin, state)
}

fn fits(sample: &TestCluster, pod: &Pod) -> Vec<&'static str> {
    let (plugin, state) = pre_filter(sample, pod);
    let cycle = sample.cycle(pod);
    let nodes = ["a1", "a2", "b1", "none"].into_iter();
    nodes
        .filter(|name| plugin.filter(&cycle, &state, &sample.candidate(name)).is_ok())
        .collect()
}

#[test]
fn allows_up_to_max_skew() {
    for (pods, change, expected) in [
        (&[][..], json!({}), vec!["a1", "a2", "b1"]),
        (&[("a1", 1)], json!({}), vec!["b1"]),
        (&[("a1", 1), ("b1", 1)], json!({}), vec!["a1", "a2", "b1"]),
        (
            &[("a1", 2), ("b1", 1)],
            json!({"maxSkew": 2}),
            vec!["a1", "a2", "b1"],
        ),
        (&[("a1", 3), ("b1", 1)], json!({"maxSkew": 2}), vec!["b1"]),
        // Too few places: the emptiest counts as empty.
        (&[("a1", 1), ("b1", 1)], json!({"minDomains": 3}), vec![]),
        // A selector that says nothing counts nothing.
        (&[("a1", 9)], json!({"labelSelector": {}}), vec!["a1", "a2", "b1"]),
    ] {
        let mut sample = zones(pods);
        let pod = sample.pod(
            "p",
            spread("zone", "DoNotSchedule", |rule| {
                for (key, value) in change.as_object().unwrap() {
                    rule[key] = value.clone();
                }
            }),
        );
        assert_eq!(fits(&sample, &pod), expected, "{pods:?} {change}");
    }
}

#[test]
fn the_messages_say_what_is_wrong() {
    let mut sample = zones(&[("a1", 1)]);
    let pod = sample.pod("p", spread("zone", "DoNotSchedule", |_| {}));
    let (plugin, state) = pre_filter(&sample, &pod);
    let message = |node| {
        let result = plugin.filter(&sample.cycle(&pod), &state, &sample.candidate(node));
        result.unwrap_err().message()
    };
    assert_eq!(
        message("a1"),
        "node(s) didn't match pod topology spread constraints"
    );
    assert_eq!(
        message("none"),
        "node(s) didn't match pod topology spread constraints (missing required label)"
    );
}

#[test]
fn node_affinity_policy_decides_which_nodes_count() {
    for (policy, expected) in [("Honor", vec!["a1", "a2"]), ("Ignore", vec![])] {
        let mut sample = zones(&[("a1", 1)]);
        let spread = spread("zone", "DoNotSchedule", |rule| {
            rule["nodeAffinityPolicy"] = policy.into();
        });
        let pod = sample.pod("p", |pod| {
            spread(pod);
            pod["spec"]["nodeSelector"] = json!({"zone": "a"});
        });
        let mut fits = fits(&sample, &pod);
        fits.retain(|name| *name != "b1");
        assert_eq!(fits, expected, "{policy}");
    }
}

#[test]
fn node_taints_policy_decides_which_nodes_count() {
    for (policy, expected) in [("Ignore", vec!["b1"]), ("Honor", vec!["a1", "a2", "b1"])] {
        let mut sample = zones(&[("a1", 1)]);
        sample.node("b1", |node| {
            node["metadata"]["labels"]["zone"] = "b".into();
            node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
        });
        let spread = spread("zone", "DoNotSchedule", |rule| {
            rule["nodeTaintsPolicy"] = policy.into();
        });
        let pod = sample.pod("p", spread);
        assert_eq!(fits(&sample, &pod), expected, "{policy}");
    }
}

#[test]
fn counts_follow_the_cluster() {
    let mut sample = zones(&[]);
    let pod = sample.pod("p", spread("zone", "DoNotSchedule", |_| {}));
    let plugin = PodTopologySpread::default();
    let fits = |sample: &TestCluster| {
        let cycle = sample.cycle(&pod);
        let mut state = SpreadState::default();
        plugin.pre_filter(&cycle, &mut state).unwrap();
        let nodes = ["a1", "b1"].into_iter();
        let fits: Vec<_> = nodes
            .filter(|name| plugin.filter(&cycle, &state, &sample.candidate(name)).is_ok())
            .collect();
        plugin.end_cycle(state);
        fits
    };
    assert_eq!(fits(&sample), ["a1", "b1"]);
    let first = sample.placed("x", "a2", app);
    assert_eq!(fits(&sample), ["b1"]);
    sample.placed("y", "b1", app);
    assert_eq!(fits(&sample), ["a1", "b1"]);
    sample.cluster.remove_pod(&first.uid);
    assert_eq!(fits(&sample), ["a1"]);
    sample.cluster.remove_node("a1");
    sample.cluster.remove_node("a2");
    assert_eq!(sample.cluster.order().len(), 2);
    let (plugin, state) = pre_filter(&sample, &pod);
    let result = plugin.filter(&sample.cycle(&pod), &state, &sample.candidate("b1"));
    assert!(result.is_ok(), "one place is even");
}

#[test]
fn simulated_removals_change_counts() {
    let mut sample = zones(&[("a1", 1)]);
    let victim = sample.cluster.pod("a1-0").unwrap().clone();
    let pod = sample.pod("p", spread("zone", "DoNotSchedule", |_| {}));
    let (plugin, mut state) = pre_filter(&sample, &pod);
    let cycle = sample.cycle(&pod);
    let node = sample.candidate("a1");
    plugin.remove_pod(&cycle, &mut state, &victim, &node);
    assert!(plugin.filter(&cycle, &state, &node).is_ok());
    plugin.add_pod(&cycle, &mut state, &victim, &node);
    assert!(plugin.filter(&cycle, &state, &node).is_err());
}

#[test]
fn labels_of_the_pod_itself_may_count_too() {
    let mut sample = zones(&[("a1", 1)]);
    let rule = spread("zone", "DoNotSchedule", |rule| {
        rule["matchLabelKeys"] = json!(["version"]);
    });
    let pod = sample.pod("p", |pod| {
        rule(pod);
        pod["metadata"]["labels"]["version"] = "2".into();
    });
    assert_eq!(
        fits(&sample, &pod),
        ["a1", "a2", "b1"],
        "the other is of another version"
    );
}

#[test]
fn prefers_domains_with_fewer_pods() {
    let mut sample = zones(&[("a1", 2), ("b1", 1)]);
    let pod = sample.pod("p", spread("zone", "ScheduleAnyway", |_| {}));
    let nodes = ["a1", "a2", "b1", "none"].map(|name| sample.candidate(name));
    let plugin = PodTopologySpread::default();
    let mut state = SpreadState::default();
    let cycle = sample.cycle(&pod);
    assert_eq!(
        plugin.pre_score(&cycle, &mut state, &nodes),
        PreScoreResult::Score
    );
    let mut scores = nodes.map(|node| plugin.score(&cycle, &state, &node));
    // Two places weigh ln 4 each.
    assert_eq!(scores, [3, 3, 1, 0]);
    plugin.normalize_score(&state, &nodes, &mut scores);
    assert_eq!(scores, [33, 33, 100, 0], "a node without the label gets nothing");
}

#[test]
fn default_constraints_spread_pods_of_a_service() {
    let mut sample = zones(&[("a1", 1)]);
    let pod = sample.pod("p", app);
    let score = |sample: &TestCluster, pod: &Pod| {
        let nodes = ["a1", "b1"].map(|name| sample.candidate(name));
        let plugin = PodTopologySpread::default();
        let mut state = SpreadState::default();
        let cycle = sample.cycle(pod);
        let result = plugin.pre_score(&cycle, &mut state, &nodes);
        (result == PreScoreResult::Score).then(|| nodes.map(|node| plugin.score(&cycle, &state, &node)))
    };
    assert_eq!(score(&sample, &pod), None, "nothing is known that it belongs to");
    let selector = Selector::from_labels([("app", "a")]);
    sample
        .cluster
        .default_selectors
        .set_service("default".into(), "s".into(), Some(selector));
    // Hosts weigh ln 4; there is no label of zones here.
    assert_eq!(score(&sample, &pod), Some([3, 2]));
}

#[test]
fn queueing_hint_follows_changed_counts() {
    let mut sample = zones(&[("a1", 1)]);
    let pod = sample.pod("p", spread("zone", "DoNotSchedule", |_| {}));
    let same = sample.pod("x", app);
    let other = sample.pod("y", |_| {});
    let plugin = PodTopologySpread::default();
    let queueing_hint = |event| plugin.queueing_hint(&pod, &event, &sample.cluster);
    assert!(
        queueing_hint(ClusterEvent::AssignedPodAdd(&same))
            && queueing_hint(ClusterEvent::AssignedPodDelete(&same))
    );
    assert!(!queueing_hint(ClusterEvent::AssignedPodAdd(&other)));
    assert!(queueing_hint(ClusterEvent::AssignedPodUpdate {
        old: &same,
        new: &other
    }));
    let node = |name| sample.cluster.node(sample.cluster.slot(name).unwrap()).unwrap();
    assert!(
        queueing_hint(ClusterEvent::NodeAdd(node("a1")))
            && !queueing_hint(ClusterEvent::NodeAdd(node("none")))
    );
}
