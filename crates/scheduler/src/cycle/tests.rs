use serde_json::{Value, json};

use super::{scheduling_algorithm::FitError, *};
use crate::{
    object::{PodDisruptionBudget, read},
    plugins::{Candidate, PostFilterResult, framework::Frameworks},
    profile::Profile,
    test_cluster::TestCluster,
};
use std::sync::Arc;

fn frameworks() -> Arc<Frameworks> {
    Arc::new(Frameworks::new(vec![Profile::default()]))
}

fn engine() -> SchedulingAlgorithm {
    SchedulingAlgorithm::new(frameworks(), 7)
}

fn find(sample: &TestCluster, pod: &crate::object::Pod) -> ScheduleResult {
    engine().schedule_pod(&Arc::new(pod.clone()), &sample.cluster, &Nominator::default())
}

fn node(found: ScheduleResult) -> String {
    match found {
        ScheduleResult::Node(placement) => placement.node.to_string(),
        other => panic!("{other:?}"),
    }
}

fn unfit(found: ScheduleResult) -> FitError {
    match found {
        ScheduleResult::FitError(unfit) => unfit,
        other => panic!("{other:?}"),
    }
}

fn asks(cpu: &str, priority: i32) -> impl FnOnce(&mut Value) {
    let cpu = cpu.to_owned();
    move |pod| {
        pod["spec"]["priority"] = priority.into();
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    }
}

#[test]
fn fit_error_counts_reasons_per_node() {
    let mut sample = TestCluster::default();
    assert!(matches!(
        find(&sample, &TestCluster::default().pod("p", |_| {})),
        ScheduleResult::NoNodes
    ));
    sample.node("full", |node| node["status"]["allocatable"]["cpu"] = "1".into());
    for name in ["t1", "t2"] {
        sample.node(name, |node| {
            node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
        });
    }
    let pod = sample.pod("p", asks("2", 0));
    let unfit = unfit(find(&sample, &pod));
    assert_eq!(
        unfit.message,
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). \
         preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
    assert_eq!(
        unfit.plugins,
        frameworks().set(&["NodeResourcesFit", "TaintToleration"])
    );
}

#[test]
fn finds_no_victims_without_lower_priority_pods() {
    let mut sample = TestCluster::default();
    sample.node("n", |_| {});
    sample.placed("there", "n", asks("3", 0));
    let pod = sample.pod("p", asks("2", 0));
    assert_eq!(
        unfit(find(&sample, &pod)).message,
        "0/1 nodes are available: 1 Insufficient cpu. \
         preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
}

#[test]
fn preemption_policy_never_is_reported() {
    let mut sample = TestCluster::default();
    sample.node("n", |_| {});
    sample.placed("there", "n", asks("3", 0));
    let mut pod = sample.pod("p", |pod| {
        asks("2", 10)(pod);
        pod["spec"]["preemptionPolicy"] = "Never".into();
    });
    let message = unfit(find(&sample, &pod)).message;
    let expected = "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(message, expected);
    pod = sample.pod("q", asks("2", 10));
    let message = unfit(find(&sample, &pod)).message;
    let expected = "0/1 nodes are available: 1 Insufficient cpu. \
         preemption: found a potential placement for pod on node n, preempting 1 victims";
    assert_eq!(message, expected);
}

#[test]
fn node_name_affinity_limits_the_searched_nodes() {
    let mut sample = TestCluster::default();
    for name in ["a", "b", "c"] {
        sample.node(name, |_| {});
    }
    let named = |name: &str| {
        let rule = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [rule]}}})
    };
    let pod = sample.pod("p", |pod| pod["spec"]["affinity"] = named("b"));
    assert_eq!(node(find(&sample, &pod)), "b");
    let pod = sample.pod("q", |pod| pod["spec"]["affinity"] = named("none"));
    assert_eq!(
        unfit(find(&sample, &pod)).message,
        "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. \
         preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
}

#[test]
fn missing_claim_is_reported_by_pre_filter() {
    let mut sample = TestCluster::default();
    sample.node("n", |_| {});
    let pod = sample.pod("p", |pod| {
        pod["spec"]["volumes"] = json!([{"persistentVolumeClaim": {"claimName": "c"}}]);
    });
    assert_eq!(
        unfit(find(&sample, &pod)).message,
        "0/1 nodes are available: persistentvolumeclaim \"c\" not found. \
         preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
}

#[test]
fn breaks_ties_randomly_and_reproducibly_by_seed() {
    let mut sample = TestCluster::default();
    for number in 0..20 {
        sample.node(&format!("n{number}"), |_| {});
    }
    let pod = Arc::new(sample.pod("p", |_| {}));
    let run = |seed| {
        let mut engine = SchedulingAlgorithm::new(frameworks(), seed);
        let names = (0..30).map(|_| node(engine.schedule_pod(&pod, &sample.cluster, &Nominator::default())));
        names.collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    let different: std::collections::BTreeSet<_> = run(1).into_iter().collect();
    assert!(different.len() > 5, "{different:?}");
}

#[test]
fn nominated_pods_keep_their_resources() {
    let mut sample = TestCluster::default();
    sample.node("n", |_| {});
    let waiting = Arc::new(sample.pod("waiting", asks("3", 10)));
    let mut nominator = Nominator::default();
    nominator.set(waiting.clone(), Some("n".into()));
    let weaker = Arc::new(sample.pod("weaker", asks("2", 5)));
    let stronger = Arc::new(sample.pod("stronger", asks("2", 20)));
    let mut engine = engine();
    assert!(matches!(
        engine.schedule_pod(&weaker, &sample.cluster, &nominator),
        ScheduleResult::FitError(_)
    ));
    assert!(matches!(
        engine.schedule_pod(&stronger, &sample.cluster, &nominator),
        ScheduleResult::Node(_)
    ));
    assert!(matches!(
        engine.schedule_pod(&waiting, &sample.cluster, &nominator),
        ScheduleResult::Node(_)
    ));
}

fn preemption(sample: &TestCluster, pod: &crate::object::Pod) -> (String, Vec<String>) {
    match unfit(find(sample, pod)).post_filter {
        PostFilterResult::Candidate(Candidate { node, victims }) => (
            node.to_string(),
            victims.iter().map(|pod| pod.name.to_string()).collect(),
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn evicts_the_fewest_and_least_important_pods() {
    let mut sample = TestCluster::default();
    sample.node("n", |_| {});
    for (name, cpu, priority) in [
        ("low", "1", 1),
        ("mid", "1", 2),
        ("high", "1", 3),
        ("top", "1", 50),
    ] {
        sample.placed(name, "n", asks(cpu, priority));
    }
    let pod = sample.pod("p", asks("2", 10));
    assert_eq!(preemption(&sample, &pod).1, ["mid", "low"]);
    let pod = sample.pod("q", asks("1", 10));
    assert_eq!(preemption(&sample, &pod).1, ["low"]);
    let pod = sample.pod("r", asks("4", 10));
    assert!(matches!(
        unfit(find(&sample, &pod)).post_filter,
        PostFilterResult::NoCandidate
    ));
}

#[test]
fn picks_the_candidate_node_by_upstream_criteria() {
    // Each row: nodes with pods of (processors, priority, start), and the node that is to be chosen.
    let second = |number: u32| format!("2020-01-01T00:00:{number:02}Z");
    for (nodes, chosen) in [
        // Lowest highest priority.
        (vec![("a", vec![("4", 5, 1)]), ("b", vec![("4", 3, 1)])], "b"),
        // Lowest sum.
        (
            vec![
                ("a", vec![("2", 5, 1), ("2", 4, 1)]),
                ("b", vec![("2", 5, 1), ("2", 1, 1)]),
            ],
            "b",
        ),
        // Fewest pods.
        (
            vec![("a", vec![("2", 5, 1), ("2", 5, 1)]), ("b", vec![("4", 5, 1)])],
            "b",
        ),
        // The youngest.
        (
            vec![
                ("a", vec![("4", 5, 1)]),
                ("b", vec![("4", 5, 9)]),
                ("c", vec![("4", 5, 2)]),
            ],
            "b",
        ),
    ] {
        let mut sample = TestCluster::default();
        for (node, pods) in &nodes {
            sample.node(node, |_| {});
            for (number, (cpu, priority, start)) in pods.iter().enumerate() {
                sample.placed(&format!("{node}{number}"), node, |pod| {
                    asks(cpu, *priority)(pod);
                    pod["status"]["startTime"] = second(*start).into();
                });
            }
        }
        let pod = sample.pod("p", asks("4", 10));
        assert_eq!(preemption(&sample, &pod).0, chosen, "{nodes:?}");
    }
}

#[test]
fn avoids_pod_disruption_budget_violations() {
    let mut sample = TestCluster::default();
    for name in ["a", "b"] {
        sample.node(name, |_| {});
        sample.placed(&format!("on-{name}"), name, |pod| {
            asks("4", if name == "a" { 1 } else { 5 })(pod);
            pod["metadata"]["labels"] = json!({"node": name});
        });
    }
    let budget = json!({
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"node": "a"}}}, "status": {"disruptionsAllowed": 0},
    });
    let budget = read::<PodDisruptionBudget>(budget, &mut sample.interner);
    let pod = sample.pod("p", asks("4", 10));
    assert_eq!(preemption(&sample, &pod).0, "a");
    sample
        .cluster
        .budgets
        .insert(("default".into(), "x".into()), budget.into());
    assert_eq!(
        preemption(&sample, &pod).0,
        "b",
        "a higher priority, but no budget is broken"
    );
    sample.cluster.remove_node("b");
    assert_eq!(preemption(&sample, &pod).0, "a", "a budget is not a wall");
}

#[test]
fn does_not_preempt_while_a_victim_is_terminating() {
    let mut sample = TestCluster::default();
    sample.node("n", |_| {});
    sample.placed("terminating", "n", |pod| {
        asks("4", 1)(pod);
        pod["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
        pod["status"]["conditions"] =
            json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]);
    });
    let pod = sample.pod("p", |pod| {
        asks("4", 10)(pod);
        pod["status"]["nominatedNodeName"] = "n".into();
    });
    let unfit = unfit(find(&sample, &pod));
    assert!(matches!(unfit.post_filter, PostFilterResult::Noop));
    assert!(
        unfit
            .message
            .ends_with("preemption: not eligible due to a terminating pod on the nominated node.")
    );
}

#[test]
fn stops_after_enough_feasible_nodes_and_resumes_there() {
    let mut sample = TestCluster::default();
    for number in 0..200 {
        sample.node(&format!("n{number}"), |_| {});
    }
    let pod = Arc::new(sample.pod("p", |_| {}));
    let mut engine = engine();
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..40 {
        assert_eq!(engine.next, round % 2 * 100);
        let ScheduleResult::Node(placement) =
            engine.schedule_pod(&pod, &sample.cluster, &Nominator::default())
        else {
            panic!()
        };
        seen.insert(placement.node);
    }
    let beyond = seen.iter().any(|name| name[1..].parse::<u32>().unwrap() >= 100);
    assert!(beyond, "the second hundred has its turn");
}
