use serde_json::{Value, json};

use super::*;
use crate::test_cluster::TestCluster;
use std::time::Duration;

const NOW: Moment = Duration::from_secs(1000);

/// A core, and a cluster that does what it is told when it is asked to.
struct World {
    core: SchedulerCore,
    sample: TestCluster,
}

impl World {
    fn new() -> Self {
        World {
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
fn placed_pods_take_room_before_the_cluster_says_so() {
    let mut world = World::new();
    world.node("n");
    world.pod("a", cpu("3", 0));
    world.pod("b", cpu("3", 0));
    assert_eq!(world.next().as_deref(), Some("a on n"));
    assert_eq!(world.next().as_deref(), Some("b nowhere"));
    assert_eq!(world.next(), None);
}

#[test]
fn a_pod_that_could_not_be_bound_is_tried_again_and_others_may_have_its_room() {
    let mut world = World::new();
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
fn a_bind_that_failed_although_it_succeeded_changes_nothing() {
    let mut world = World::new();
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
fn a_pod_that_another_scheduler_placed_is_left_alone() {
    let mut world = World::new();
    world.node("n");
    let pod = world.pod("p", |_| {});
    world.core.pod(Some(&pod), &Arc::new(pod.on("n".into())), NOW);
    assert_eq!(world.next(), None);
    world.pod("other", |pod| pod["spec"]["schedulerName"] = "other".into());
    assert_eq!(world.next(), None);
}

#[test]
fn a_pod_waits_for_a_node_and_for_room() {
    let mut world = World::new();
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
    let gone = world.core.cluster.pod("p").unwrap().clone();
    world.core.remove_pod(&gone, NOW);
    assert_eq!(world.next().as_deref(), Some("q on n"));
}

#[test]
fn a_pod_that_is_going_is_not_placed_and_frees_what_it_was_to_have() {
    let mut world = World::new();
    world.node("n");
    let terminating = |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    world.pod("gone", terminating);
    assert_eq!(world.next().as_deref(), Some("gone skipped"));
    let pod = world.pod("p", cpu("3", 0));
    world.pod("q", cpu("3", 0));
    assert_eq!(
        (world.next().as_deref(), world.next().as_deref()),
        (Some("p on n"), Some("q nowhere"))
    );
    let now_going = Arc::new(world.sample.pod("p", |pod| {
        cpu("3", 0)(pod);
        terminating(pod);
    }));
    world.core.pod(Some(&pod), &now_going, NOW);
    assert_eq!(world.next().as_deref(), Some("q on n"));
}

#[test]
fn the_stronger_gets_the_room_of_the_weaker_and_keeps_its_promise() {
    let mut world = World::new();
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
        "the room is promised"
    );
    world.core.preempted(&strong.uid, true, NOW);
    assert_eq!(world.next().as_deref(), Some("strong on n"));
}

#[test]
fn a_promise_that_is_taken_back_frees_the_room_for_the_weaker() {
    let mut world = World::new();
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
