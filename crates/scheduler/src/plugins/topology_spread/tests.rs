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

fn fits(sample: &TestCluster, pod: &Pod) -> Vec<&'static str> {
    let mut folds = IncrementalCache::default();
    let (_, hard) = pre_filter(pod, &sample.cluster, &mut folds);
    let hard = hard.unwrap();
    let nodes = ["a1", "a2", "b1", "none"].into_iter();
    nodes
        .filter(|name| hard.filter(sample.cluster.slot(name).unwrap(), &[]).is_ok())
        .collect()
}

#[test]
fn a_place_may_be_ahead_by_the_skew() {
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
    let (_, hard) = pre_filter(&pod, &sample.cluster, &mut IncrementalCache::default());
    let message = |node| {
        let slot = sample.cluster.slot(node).unwrap();
        hard.as_ref().unwrap().filter(slot, &[]).unwrap_err().message()
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
fn nodes_that_the_pod_cannot_be_on_do_not_count_unless_told_so() {
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
fn tainted_nodes_count_unless_told_otherwise() {
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
    let mut folds = IncrementalCache::default();
    let mut fits = |sample: &TestCluster| {
        let (_, hard) = pre_filter(&pod, &sample.cluster, &mut folds);
        let hard = hard.unwrap();
        let nodes = ["a1", "b1"].into_iter();
        let fits: Vec<_> = nodes
            .filter(|name| hard.filter(sample.cluster.slot(name).unwrap(), &[]).is_ok())
            .collect();
        folds.put(hard.borrowed);
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
    let (_, hard) = pre_filter(&pod, &sample.cluster, &mut IncrementalCache::default());
    assert!(
        hard.unwrap()
            .filter(sample.cluster.slot("b1").unwrap(), &[])
            .is_ok(),
        "one place is even"
    );
}

#[test]
fn pods_that_go_in_thought_make_room() {
    let mut sample = zones(&[("a1", 1)]);
    let victim = sample.cluster.pod("a1-0").unwrap().clone();
    let pod = sample.pod("p", spread("zone", "DoNotSchedule", |_| {}));
    let (_, hard) = pre_filter(&pod, &sample.cluster, &mut IncrementalCache::default());
    let hard = hard.unwrap();
    let slot = sample.cluster.slot("a1").unwrap();
    let mut deltas = Vec::new();
    hard.delta(slot, &pod, &victim, -1, &mut deltas);
    assert!(hard.filter(slot, &deltas).is_ok());
    hard.delta(slot, &pod, &victim, 1, &mut deltas);
    assert!(hard.filter(slot, &deltas).is_err());
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
fn emptier_places_score_better() {
    let mut sample = zones(&[("a1", 2), ("b1", 1)]);
    let pod = sample.pod("p", spread("zone", "ScheduleAnyway", |_| {}));
    let nodes: Vec<_> = ["a1", "a2", "b1", "none"]
        .iter()
        .map(|name| sample.cluster.slot(name).unwrap())
        .collect();
    let soft = pre_score(&pod, &sample.cluster, &nodes, &mut IncrementalCache::default()).unwrap();
    let mut scores: Vec<_> = nodes.iter().map(|slot| soft.score(*slot)).collect();
    // Two places weigh ln 4 each.
    assert_eq!(scores, [3, 3, 1, 0]);
    soft.normalize(&nodes, &mut scores);
    assert_eq!(scores, [33, 33, 100, 0], "a node without the label gets nothing");
}

#[test]
fn pods_of_a_service_spread_without_being_told() {
    let mut sample = zones(&[("a1", 1)]);
    let pod = sample.pod("p", app);
    let nodes: Vec<_> = ["a1", "b1"]
        .iter()
        .map(|name| sample.cluster.slot(name).unwrap())
        .collect();
    let score = |sample: &TestCluster, pod: &Pod| {
        let soft = pre_score(pod, &sample.cluster, &nodes, &mut IncrementalCache::default())?;
        Some(nodes.iter().map(|slot| soft.score(*slot)).collect::<Vec<_>>())
    };
    assert_eq!(score(&sample, &pod), None, "nothing is known that it belongs to");
    let selector = [("app".into(), "a".into())].into();
    sample
        .cluster
        .default_selectors
        .set_service("default".into(), "s".into(), Some(selector));
    // Hosts weigh ln 4; there is no label of zones here.
    assert_eq!(score(&sample, &pod), Some(vec![3, 2]));
}

#[test]
fn a_pod_is_tried_again_when_a_count_changes() {
    let mut sample = zones(&[("a1", 1)]);
    let pod = sample.pod("p", spread("zone", "DoNotSchedule", |_| {}));
    let same = sample.pod("x", app);
    let other = sample.pod("y", |_| {});
    let queueing_hint = |event| queueing_hint(&pod, &event, &sample.cluster);
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
