use serde_json::{Value, json};

use super::*;
use crate::test_cluster::TestCluster;
use std::time::Duration;

const NOW: Moment = Duration::from_secs(1000);

/// A core, and a cluster that applies its decisions on request.
struct SchedulerTest {
    core: SchedulerCore,
    sample: TestCluster,
}

impl SchedulerTest {
    fn new() -> Self {
        SchedulerTest {
            core: SchedulerCore::new(vec![Profile::default()], BackoffOptions::default(), 1),
            sample: TestCluster::default(),
        }
    }

    fn node(&mut self, name: &str) {
        let node = self.sample.read_node(name, |_| {});
        self.core.node(&Arc::new(node), NOW);
    }

    fn pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) -> Arc<Pod> {
        let pod = Arc::new(self.sample.pod(name, change));
        self.core.pod(None, &pod, NOW);
        pod
    }

    fn next(&mut self) -> Option<String> {
        self.at(NOW)
    }

    fn at(&mut self, now: Moment) -> Option<String> {
        Some(match self.core.next(now)? {
            Decision::Bind { pod, node, .. } => format!("{} on {node}", pod.name),
            Decision::Fail {
                pod,
                preemption: Some(preemption),
                ..
            } => {
                let victims: Vec<_> = preemption.victims.iter().map(|pod| &*pod.name).collect();
                format!("{} for {} on {}", victims.join(" "), pod.name, preemption.node)
            }
            Decision::Fail { pod, .. } => format!("{} nowhere", pod.name),
            Decision::Skip(pod) => format!("{} skipped", pod.name),
        })
    }
}

fn cpu(amount: &str, priority: i32) -> impl FnOnce(&mut Value) {
    let amount = amount.to_owned();
    move |pod| {
        pod["spec"]["priority"] = priority.into();
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": amount}});
    }
}

#[test]
fn assumed_pods_use_resources_before_the_bind_is_observed() {
    let mut world = SchedulerTest::new();
    world.node("n");
    world.pod("a", cpu("3", 0));
    world.pod("b", cpu("3", 0));
    assert_eq!(world.next().as_deref(), Some("a on n"));
    assert_eq!(world.next().as_deref(), Some("b nowhere"));
    assert_eq!(world.next(), None);
}

#[test]
fn failed_bind_frees_resources_and_retries() {
    let mut world = SchedulerTest::new();
    world.node("n");
    let a = world.pod("a", cpu("3", 0));
    world.pod("b", cpu("3", 0));
    assert_eq!(
        (world.next().as_deref(), world.next().as_deref()),
        (Some("a on n"), Some("b nowhere"))
    );
    world.core.not_bound(&a.uid, NOW);
    assert_eq!(world.next().as_deref(), Some("b on n"));
    assert_eq!(world.next(), None, "it backs off");
    assert_eq!(
        world.at(NOW + Duration::from_secs(5)).as_deref(),
        Some("a nowhere")
    );
}

#[test]
fn reported_bind_failure_after_success_changes_nothing() {
    let mut world = SchedulerTest::new();
    world.node("n");
    let pod = world.pod("p", cpu("3", 0));
    world.next();
    let placed = Arc::new(pod.on("n".into()));
    world.core.pod(Some(&pod), &placed, NOW);
    world.core.not_bound(&pod.uid, NOW);
    assert_eq!(world.at(NOW + Duration::from_mins(1)), None);
    assert!(world.core.cluster.pod(&pod.uid).is_some());
}

#[test]
fn ignores_pods_bound_by_another_scheduler() {
    let mut world = SchedulerTest::new();
    world.node("n");
    let pod = world.pod("p", |_| {});
    world.core.pod(Some(&pod), &Arc::new(pod.on("n".into())), NOW);
    assert_eq!(world.next(), None);
    world.pod("other", |pod| pod["spec"]["schedulerName"] = "other".into());
    assert_eq!(world.next(), None);
}

#[test]
fn schedules_when_a_node_or_resources_become_available() {
    let mut world = SchedulerTest::new();
    world.pod("p", cpu("3", 0));
    assert_eq!(
        world.next().as_deref(),
        Some("p nowhere"),
        "there is no node at all"
    );
    world.node("n");
    assert_eq!(world.at(NOW + Duration::from_secs(5)).as_deref(), Some("p on n"));
    world.pod("q", cpu("3", 0));
    assert_eq!(world.next().as_deref(), Some("q nowhere"));
    let deleted = world.core.cluster.pod("p").unwrap().clone();
    world.core.remove_pod(&deleted, NOW);
    assert_eq!(world.next().as_deref(), Some("q on n"));
}

#[test]
fn skips_a_terminating_pod_and_frees_its_assumed_resources() {
    let mut world = SchedulerTest::new();
    world.node("n");
    let terminating = |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    world.pod("terminating", terminating);
    assert_eq!(world.next().as_deref(), Some("terminating skipped"));
    let pod = world.pod("p", cpu("3", 0));
    world.pod("q", cpu("3", 0));
    assert_eq!(
        (world.next().as_deref(), world.next().as_deref()),
        (Some("p on n"), Some("q nowhere"))
    );
    let now_terminating = Arc::new(world.sample.pod("p", |pod| {
        cpu("3", 0)(pod);
        terminating(pod);
    }));
    world.core.pod(Some(&pod), &now_terminating, NOW);
    assert_eq!(world.next().as_deref(), Some("q on n"));
}

#[test]
fn preemptor_keeps_its_nominated_node() {
    let mut world = SchedulerTest::new();
    world.node("n");
    let weak = Arc::new(world.sample.pod("weak", cpu("3", 0)).on("n".into()));
    world.core.pod(None, &weak, NOW);
    let strong = world.pod("strong", cpu("3", 10));
    assert_eq!(world.next().as_deref(), Some("weak for strong on n"));
    world.pod("small", cpu("2", 0));
    world.core.remove_pod(&weak, NOW);
    assert_eq!(
        world.next().as_deref(),
        Some("small nowhere"),
        "the resources are reserved for the nominated pod"
    );
    world.core.preempted(&strong.uid, PreemptionOutcome::Evicted, NOW);
    assert_eq!(world.next().as_deref(), Some("strong on n"));
}

#[test]
fn cleared_nomination_frees_resources_for_lower_priority_pods() {
    let mut world = SchedulerTest::new();
    world.node("n");
    let weak = Arc::new(world.sample.pod("weak", cpu("3", 0)).on("n".into()));
    world.core.pod(None, &weak, NOW);
    let strong = world.pod("strong", |pod| {
        cpu("3", 10)(pod);
        pod["status"]["nominatedNodeName"] = "n".into();
    });
    assert!(world.next().is_some());
    world.pod("small", cpu("2", 0));
    world.core.remove_pod(&weak, NOW);
    assert_eq!(world.next().as_deref(), Some("small nowhere"));
    world.core.remove_pod(&strong, NOW);
    assert_eq!(world.next().as_deref(), Some("small on n"));
}
