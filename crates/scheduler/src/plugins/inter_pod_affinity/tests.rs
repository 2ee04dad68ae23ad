use serde_json::{Value, json};

use super::*;
use crate::{labels::Labels, test_cluster::TestCluster};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn term(app: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
}

/// A pod with label `app` and an affinity.
fn app_with(app: &str, affinity: Value) -> impl FnOnce(&mut Value) {
    let app = app.to_owned();
    move |pod| {
        pod["metadata"]["labels"] = json!({"app": app});
        pod["spec"]["affinity"] = affinity;
    }
}

fn with_affinity(terms: &Value) -> Value {
    json!({"podAffinity": {REQUIRED: terms}})
}

fn with_anti_affinity(terms: &Value) -> Value {
    json!({"podAntiAffinity": {REQUIRED: terms}})
}

/// Zone a has two nodes, zone b one, and one node has no zone.
fn zones() -> TestCluster {
    let mut sample = TestCluster::default();
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", "")] {
        sample.node(name, |node| {
            if !zone.is_empty() {
                node["metadata"]["labels"]["zone"] = zone.into();
            }
        });
    }
    sample
}

fn pre_filter(plugin: &InterPodAffinity, sample: &TestCluster, pod: &Pod) -> AffinityState {
    let mut state = AffinityState::default();
    plugin.pre_filter(&sample.cycle(pod), &mut state).unwrap();
    state
}

fn fits(sample: &TestCluster, pod: &Pod) -> Vec<&'static str> {
    let plugin = InterPodAffinity::default();
    let state = pre_filter(&plugin, sample, pod);
    let does = |name: &&str| {
        let result = plugin.filter(&sample.cycle(pod), &state, &sample.candidate(name));
        result.is_ok()
    };
    ["a1", "a2", "b1", "none"].into_iter().filter(does).collect()
}

#[test]
fn requires_pod_affinity() {
    for (there, terms, expected) in [
        (vec![("db", "a1")], json!([term("db", "zone")]), vec!["a1", "a2"]),
        (
            vec![("db", "a1")],
            json!([term("db", "kubernetes.io/hostname")]),
            vec!["a1"],
        ),
        (vec![("db", "none")], json!([term("db", "zone")]), vec![]),
        (vec![("web", "a1")], json!([term("db", "zone")]), vec![]),
        // One pod must match all terms.
        (
            vec![("db", "a1"), ("x", "b1")],
            json!([term("db", "zone"), term("x", "zone")]),
            vec![],
        ),
        // The first of its kind may go anywhere that has the label.
        (vec![], json!([term("web", "zone")]), vec!["a1", "a2", "b1"]),
        (vec![("web", "b1")], json!([term("web", "zone")]), vec!["b1"]),
    ] {
        let mut sample = zones();
        for (app, node) in &there {
            sample.placed(app, node, |pod| pod["metadata"]["labels"] = json!({"app": app}));
        }
        let pod = sample.pod("p", app_with("web", with_affinity(&terms)));
        assert_eq!(fits(&sample, &pod), expected, "{there:?} {terms}");
    }
}

#[test]
fn enforces_anti_affinity_of_both_sides() {
    let mut sample = zones();
    sample.placed("db", "a1", |pod| pod["metadata"]["labels"] = json!({"app": "db"}));
    let pod = sample.pod(
        "p",
        app_with("web", with_anti_affinity(&json!([term("db", "zone")]))),
    );
    assert_eq!(fits(&sample, &pod), ["b1", "none"]);
    let pod = sample.pod(
        "q",
        app_with(
            "web",
            with_anti_affinity(&json!([term("db", "kubernetes.io/hostname")])),
        ),
    );
    assert_eq!(fits(&sample, &pod), ["a2", "b1", "none"]);
    sample.placed(
        "lonely",
        "b1",
        app_with("x", with_anti_affinity(&json!([term("web", "zone")]))),
    );
    let pod = sample.pod("r", |pod| pod["metadata"]["labels"] = json!({"app": "web"}));
    assert_eq!(fits(&sample, &pod), ["a1", "a2", "none"]);
    let other = sample.pod("s", |pod| pod["metadata"]["labels"] = json!({"app": "other"}));
    assert_eq!(fits(&sample, &other).len(), 4);
}

#[test]
fn terms_match_namespaces_and_namespace_selectors() {
    let mut sample = zones();
    sample.placed("db", "a1", |pod| {
        pod["metadata"]["labels"] = json!({"app": "db"});
        pod["metadata"]["namespace"] = "other".into();
    });
    let labels = Labels::read([("team", "x")], &mut sample.interner);
    sample.cluster.namespaces.set("other".into(), Some(labels));
    for (change, meant) in [
        (json!({}), false),
        (json!({"namespaces": ["other"]}), true),
        (json!({"namespaceSelector": {}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}), true),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "y"}}}),
            false,
        ),
    ] {
        let mut term = term("db", "zone");
        for (key, value) in change.as_object().unwrap() {
            term[key] = value.clone();
        }
        let pod = sample.pod("p", app_with("web", with_anti_affinity(&json!([term]))));
        assert_eq!(!fits(&sample, &pod).contains(&"a1"), meant, "{change}");
    }
}

#[test]
fn counts_follow_the_cluster() {
    let mut sample = zones();
    let labels = Labels::read([("team", "x")], &mut sample.interner);
    let mut by_team = term("db", "zone");
    by_team["namespaceSelector"] = json!({"matchLabels": {"team": "x"}});
    let pod = sample.pod("p", app_with("web", with_anti_affinity(&json!([by_team]))));
    let plugin = InterPodAffinity::default();
    let free = |sample: &TestCluster| {
        let state = pre_filter(&plugin, sample, &pod);
        let result = plugin.filter(&sample.cycle(&pod), &state, &sample.candidate("a2"));
        plugin.end_cycle(state);
        result.is_ok()
    };
    assert!(free(&sample));
    let db = sample.placed("db", "a1", |pod| pod["metadata"]["labels"] = json!({"app": "db"}));
    assert!(free(&sample), "its namespace is not meant yet");
    sample.cluster.namespaces.set("default".into(), Some(labels));
    assert!(!free(&sample));
    sample.node("a2", |node| node["metadata"]["labels"]["zone"] = "c".into());
    assert!(free(&sample), "the node moved to another zone");
    sample.node("a2", |node| node["metadata"]["labels"]["zone"] = "a".into());
    assert!(!free(&sample));
    sample.cluster.remove_pod(&db.uid);
    assert!(free(&sample));
}

#[test]
fn simulated_removals_change_counts() {
    let mut sample = zones();
    let wrong = sample.placed("db", "a1", |pod| pod["metadata"]["labels"] = json!({"app": "db"}));
    let refusing = sample.placed(
        "x",
        "a1",
        app_with("x", with_anti_affinity(&json!([term("web", "zone")]))),
    );
    let pod = sample.pod(
        "p",
        app_with("web", with_anti_affinity(&json!([term("db", "zone")]))),
    );
    let plugin = InterPodAffinity::default();
    let mut state = pre_filter(&plugin, &sample, &pod);
    let cycle = sample.cycle(&pod);
    let node = sample.candidate("a1");
    let mut without = |other: &Pod| {
        plugin.remove_pod(&cycle, &mut state, other, &node);
        let result = plugin.filter(&cycle, &state, &node);
        result.err().map(|rejection| rejection.message())
    };
    let refused = "node(s) didn't satisfy existing pods anti-affinity rules";
    assert_eq!(without(&wrong).as_deref(), Some(refused));
    assert_eq!(without(&refusing), None);
}

#[test]
fn preferred_terms_of_both_sides_add_up() {
    let mut sample = zones();
    let wish = |weight: i64, app: &str| json!([{"weight": weight, "podAffinityTerm": term(app, "zone")}]);
    sample.placed("db", "a1", |pod| pod["metadata"]["labels"] = json!({"app": "db"}));
    sample.placed(
        "x",
        "b1",
        app_with("x", json!({"podAffinity": {PREFERRED: wish(3, "web")}})),
    );
    sample.placed(
        "y",
        "b1",
        app_with("y", with_affinity(&json!([term("web", "zone")]))),
    );
    let pod = sample.pod(
        "p",
        app_with(
            "web",
            json!({
                "podAffinity": {PREFERRED: wish(10, "x")}, "podAntiAffinity": {PREFERRED: wish(5, "db")},
            }),
        ),
    );
    let plugin = InterPodAffinity::default();
    let cycle = sample.cycle(&pod);
    let mut state = pre_filter(&plugin, &sample, &pod);
    let nodes = ["a1", "b1", "none"].map(|name| sample.candidate(name));
    assert_eq!(
        plugin.pre_score(&cycle, &mut state, &nodes),
        PreScoreResult::Score
    );
    let mut scores = nodes.map(|node| plugin.score(&cycle, &state, &node));
    assert_eq!(scores, [-5, 10 + 3 + 1, 0]);
    plugin.normalize_score(&state, &nodes, &mut scores);
    assert_eq!(scores, [0, 100, 26]);
}

#[test]
fn queueing_hint_follows_matching_pods() {
    let mut sample = zones();
    let db = sample.pod("db", |pod| pod["metadata"]["labels"] = json!({"app": "db"}));
    let other = sample.pod("other", |_| {});
    let wants = sample.pod("p", app_with("web", with_affinity(&json!([term("db", "zone")]))));
    let avoids = sample.pod(
        "q",
        app_with("web", with_anti_affinity(&json!([term("db", "zone")]))),
    );
    let plugin = InterPodAffinity::default();
    let queueing_hint = |pod, event| plugin.queueing_hint(pod, &event, &sample.cluster);
    assert!(
        queueing_hint(&wants, ClusterEvent::AssignedPodAdd(&db))
            && !queueing_hint(&wants, ClusterEvent::AssignedPodAdd(&other))
    );
    assert!(
        queueing_hint(&avoids, ClusterEvent::AssignedPodDelete(&db))
            && !queueing_hint(&avoids, ClusterEvent::AssignedPodDelete(&other))
    );
    assert!(
        !queueing_hint(&db, ClusterEvent::AssignedPodDelete(&wants))
            && !queueing_hint(&other, ClusterEvent::AssignedPodDelete(&avoids))
    );
    assert!(
        queueing_hint(&db, ClusterEvent::AssignedPodDelete(&avoids)),
        "it was kept away by the other"
    );
}
