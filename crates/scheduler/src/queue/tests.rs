use serde_json::json;

use super::*;
use crate::{profile::Profile, test_cluster::TestCluster};

const START: Moment = Duration::from_secs(1000);

fn seconds(number: u64) -> Moment {
    START + Duration::from_secs(number)
}

struct QueueTest {
    queue: SchedulingQueue,
    sample: TestCluster,
}

impl QueueTest {
    fn new() -> Self {
        QueueTest {
            queue: SchedulingQueue::new(BackoffOptions::default(), frameworks()),
            sample: TestCluster::default(),
        }
    }

    fn add(&mut self, name: &str, priority: i32, now: Moment) -> Arc<Pod> {
        let pod = Arc::new(
            self.sample
                .pod(name, |pod| pod["spec"]["priority"] = priority.into()),
        );
        self.queue.add(pod.clone(), now);
        pod
    }

    fn pop(&mut self, now: Moment) -> Option<String> {
        self.queue.pop(now).map(|(pod, _)| pod.name.to_string())
    }
}

fn frameworks() -> Arc<Frameworks> {
    Arc::new(Frameworks::new(vec![Profile::default()]))
}

fn fit() -> PluginSet {
    frameworks().set(&["NodeResourcesFit"])
}

#[test]
fn pops_by_priority_then_timestamp() {
    let mut world = QueueTest::new();
    world.add("late", 0, seconds(2));
    world.add("early", 0, seconds(1));
    world.add("important", 5, seconds(3));
    let order: Vec<_> = std::iter::from_fn(|| world.pop(seconds(4))).collect();
    assert_eq!(order, ["important", "early", "late"]);
}

#[test]
fn keeps_a_rejected_pod_until_a_queueing_hint_matches() {
    let mut world = QueueTest::new();
    let pod = world.add("p", 0, START);
    world.pop(START);
    world.queue.reject(&pod.uid, fit(), START);
    assert_eq!(world.pop(seconds(100)), None);
    let tiny = world
        .sample
        .node("tiny", |node| node["status"]["allocatable"]["pods"] = "0".into());
    let cluster = &world.sample.cluster;
    world.queue.move_all_to_active_or_backoff_queue(
        &ClusterEvent::NodeAdd(&tiny),
        cluster,
        seconds(100),
        |_| true,
    );
    assert_eq!(
        world.pop(seconds(100)),
        None,
        "a node that cannot have it does not help"
    );
    let node = world.sample.node("n", |_| {});
    world.queue.move_all_to_active_or_backoff_queue(
        &ClusterEvent::NodeAdd(&node),
        &world.sample.cluster,
        seconds(100),
        |_| false,
    );
    assert_eq!(
        world.pop(seconds(100)),
        None,
        "it was not among those that are asked"
    );
    world.queue.move_all_to_active_or_backoff_queue(
        &ClusterEvent::NodeAdd(&node),
        &world.sample.cluster,
        seconds(100),
        |_| true,
    );
    assert_eq!(world.pop(seconds(100)).as_deref(), Some("p"));
}

#[test]
fn pops_from_backoff_q_when_active_q_is_empty() {
    let mut world = QueueTest::new();
    let pod = world.add("p", 9, START);
    world.pop(START);
    world.queue.reject(&pod.uid, fit(), START);
    let node = world.sample.node("n", |_| {});
    world.queue.move_all_to_active_or_backoff_queue(
        &ClusterEvent::NodeAdd(&node),
        &world.sample.cluster,
        START,
        |_| true,
    );
    assert_eq!(world.queue.pending_pods().backoff, 1);
    world.add("other", 0, START);
    assert_eq!(world.pop(START).as_deref(), Some("other"));
    assert_eq!(world.pop(START).as_deref(), Some("p"));
}

#[test]
fn backoff_doubles_up_to_the_maximum() {
    let mut world = QueueTest::new();
    let pod = world.add("p", 0, START);
    for (failures, waits) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (40, 10)] {
        let mut queue = SchedulingQueue::new(BackoffOptions::default(), frameworks());
        queue.add(pod.clone(), START);
        for _ in 0..failures {
            queue.pop(START);
            queue.fail(&pod.uid, START);
            queue.leave(&pod.uid);
            queue.enter(&pod.uid, QueueLocation::ActiveQ);
        }
        queue.leave(&pod.uid);
        queue.enter(&pod.uid, QueueLocation::ErrorBackoffQ);
        assert!(queue.pop(seconds(waits)).is_none(), "{failures}");
        assert!(queue.pop(seconds(waits + 1)).is_some(), "{failures}");
    }
}

#[test]
fn does_not_pop_early_from_the_error_backoff_q() {
    let mut world = QueueTest::new();
    let pod = world.add("p", 0, START);
    world.pop(START);
    world.queue.reject(&pod.uid, PluginSet::default(), START);
    assert!(!world.queue.is_ready());
    assert_eq!(world.pop(seconds(1)), None);
    assert_eq!(world.pop(seconds(2)).as_deref(), Some("p"));
}

#[test]
fn flushes_unschedulable_pods_after_the_timeout() {
    let mut world = QueueTest::new();
    let pod = world.add("p", 0, START);
    world.pop(START);
    world.queue.reject(&pod.uid, fit(), START);
    world.queue.flush_unschedulable_pods_leftover(seconds(300));
    assert_eq!(world.pop(seconds(300)), None);
    world.queue.flush_unschedulable_pods_leftover(seconds(301));
    assert_eq!(world.pop(seconds(301)).as_deref(), Some("p"));
}

#[test]
fn queues_a_gated_pod_when_its_gates_are_removed() {
    let mut world = QueueTest::new();
    let gated = world
        .sample
        .pod("p", |pod| pod["spec"]["schedulingGates"] = json!([{"name": "g"}]));
    let gated = Arc::new(gated);
    world.queue.add(gated.clone(), START);
    assert_eq!(world.pop(START), None);
    assert_eq!(world.queue.pending_pods().gated, 1);
    world.queue.flush_unschedulable_pods_leftover(seconds(1000));
    assert_eq!(world.pop(seconds(1000)), None, "time opens no gate");
    let open = Arc::new(world.sample.pod("p", |_| {}));
    world.queue.update(&gated, &open, &world.sample.cluster, START);
    assert_eq!(world.pop(START).as_deref(), Some("p"));
}

#[test]
fn update_of_the_pod_itself_may_requeue_it() {
    let mut world = QueueTest::new();
    let pod = world.add("p", 0, START);
    world.pop(START);
    world
        .queue
        .reject(&pod.uid, frameworks().set(&["TaintToleration"]), START);
    let same = Arc::new(
        world
            .sample
            .pod("p", |pod| pod["metadata"]["labels"]["x"] = "y".into()),
    );
    world.queue.update(&pod, &same, &world.sample.cluster, START);
    assert_eq!(world.pop(START), None);
    let tolerates = world.sample.pod("p", |pod| {
        pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    });
    let tolerates = Arc::new(tolerates);
    world
        .queue
        .update(&same, &tolerates, &world.sample.cluster, START);
    assert_eq!(world.pop(START).as_deref(), Some("p"));
}

#[test]
fn does_not_requeue_during_its_preemption() {
    for (outcome, move_all_to_active_or_backoff_queue, preemption_attempted) in [
        (PreemptionOutcome::Evicted, true, true),
        (PreemptionOutcome::Evicted, false, false),
        (PreemptionOutcome::Failed, false, true),
    ] {
        let mut world = QueueTest::new();
        let pod = world.add("p", 0, START);
        world.pop(START);
        world.queue.preempting(&pod.uid);
        world.queue.reject(&pod.uid, fit(), START);
        if move_all_to_active_or_backoff_queue {
            let deleted = world.sample.pod("deleted", |_| {});
            world.queue.move_all_to_active_or_backoff_queue(
                &ClusterEvent::AssignedPodDelete(&deleted),
                &world.sample.cluster,
                START,
                |_| true,
            );
        }
        assert_eq!(world.pop(START), None);
        world.queue.preempted(&pod.uid, outcome, seconds(5));
        assert_eq!(
            world.pop(seconds(5)).is_some(),
            preemption_attempted,
            "{outcome:?} {move_all_to_active_or_backoff_queue}"
        );
    }
}

#[test]
fn does_not_pop_a_deleted_pod() {
    let mut world = QueueTest::new();
    let pods: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| world.add(name, 0, START))
        .collect();
    world.pop(START);
    world.queue.reject(&pods[0].uid, fit(), START);
    for pod in &pods {
        world.queue.delete(&pod.uid);
    }
    assert_eq!(world.pop(seconds(900)), None);
    assert_eq!(world.queue.pending_pods(), PendingPods::default());
    assert!(world.queue.rejected.values().all(|count| *count == 0));
}
