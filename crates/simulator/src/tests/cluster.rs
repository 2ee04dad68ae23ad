//! An in-memory cluster with a simulator and a paused clock.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Node, Pod},
    jiff::Timestamp,
};
use kube::core::ApiResource;
use kubecontroller::{
    Clock,
    informer::SharedInformerFactory,
    manager::{Runnable, Stop},
    testing::{FakeApi, Fault, RequestMatcher, eventually_within},
};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{Rules, Simulator};

/// Timeout of all waits.
const LONGEST: Duration = Duration::from_mins(30);

/// A cluster without controllers. Needs tokio's paused clock, from which it derives the time of objects.
pub(super) struct TestCluster {
    pub(super) api: FakeApi,
    clock: Clock,
}

/// A running simulator. Dropping it simulates a crash.
pub(super) struct RunningSimulator {
    _tasks: JoinSet<()>,
    _informers: SharedInformerFactory,
}

/// A scenario whose final state does not depend on crashes of the simulator.
pub(super) struct CrashScenario {
    pub(super) rules: &'static str,
    pub(super) setup: fn(&TestCluster),
    /// Called repeatedly: requests of other clients.
    pub(super) act_as_other_clients: fn(&TestCluster),
    /// Returns the final state once it is reached.
    pub(super) end: fn(&TestCluster) -> Option<Value>,
}

impl TestCluster {
    pub(super) fn new() -> Self {
        let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let start = Instant::now();
        let clock = Clock::new(move || begin + start.elapsed());
        TestCluster {
            api: FakeApi::with_clock(clock.clone()),
            clock,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates a simulator with `name` as user agent.
    pub(super) fn simulator(
        &self,
        name: &str,
        nodes: u32,
        rules: &str,
    ) -> (Simulator, SharedInformerFactory) {
        let client = self.api.client_with_user_agent(name);
        let informers = SharedInformerFactory::new(client.clone());
        let rules = Rules::parse(rules).unwrap();
        let simulator = Simulator::new(client, informers.clone(), self.clock.clone(), nodes, rules);
        (simulator, informers)
    }

    /// Creates and runs a simulator.
    pub(super) fn start(&self, name: &str, nodes: u32, rules: &str) -> RunningSimulator {
        let (simulator, informers) = self.simulator(name, nodes, rules);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            simulator
                .run(Stop::new())
                .await
                .expect("the simulator is never stopped");
        });
        RunningSimulator {
            _tasks: tasks,
            _informers: informers,
        }
    }

    /// Creates a pod on node 0; `spec` is merged into the default spec.
    pub(super) fn create_pod(&self, name: &str, spec: Value) {
        self.create_pod_with_metadata(name, json!({}), spec);
    }

    /// Creates a pod on node 0; `metadata` and `spec` are merged into the defaults.
    pub(super) fn create_pod_with_metadata(&self, name: &str, metadata: Value, spec: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": "simulated-0", "containers": [{"name": "web", "image": "web:1"}]},
            "status": {"phase": "Pending"},
        });
        merge(&mut pod["metadata"], metadata);
        merge(&mut pod["spec"], spec);
        self.api.put_value(&ApiResource::erase::<Pod>(&()), pod);
    }

    pub(super) fn pod(&self, name: &str) -> Option<Value> {
        let pod = self.api.get::<Pod>("shop", name)?;
        Some(serde_json::to_value(pod).unwrap())
    }

    pub(super) fn node(&self, name: &str) -> Option<Value> {
        let node = self.api.get::<Node>("", name)?;
        Some(serde_json::to_value(node).unwrap())
    }

    /// Requests the deletion of a pod as a user.
    pub(super) async fn delete(&self, name: &str) {
        let pods: kube::Api<Pod> = kube::Api::namespaced(self.api.client_with_user_agent("user"), "shop");
        pods.delete(name, &kube::api::DeleteParams::default())
            .await
            .unwrap();
    }

    /// Waits until a pod matches the predicate, and returns it.
    pub(super) async fn wait_until(&self, name: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        eventually_within(LONGEST, || {
            let pod = self.pod(name);
            let found = match pod {
                Some(pod) if wanted(&pod) => Ok(pod),
                other => Err(other),
            };
            async move { found }
        })
        .await
    }

    /// Waits until a pod is deleted.
    pub(super) async fn wait_until_deleted(&self, name: &str) {
        eventually_within(LONGEST, || {
            let is_not_found = self.pod(name).is_none();
            async move { is_not_found }
        })
        .await;
    }

    /// Waits until `count` nodes are ready and have leases.
    pub(super) async fn wait_until_nodes_ready(&self, count: usize) {
        eventually_within(LONGEST, || {
            let leases = self.api.list::<k8s_openapi::api::coordination::v1::Lease>();
            let nodes = self.api.list::<Node>();
            let is_ready = |node: &Node| {
                let status = serde_json::to_value(&node.status).unwrap();
                status["conditions"][3]["status"] == "True"
            };
            let found = (nodes.iter().filter(|node| is_ready(node)).count(), leases.len());
            async move {
                if found == (count, count) {
                    Ok(())
                } else {
                    Err(found)
                }
            }
        })
        .await;
    }

    /// The number of write requests of a simulator.
    pub(super) fn write_count(&self, name: &str) -> usize {
        let writes = self.api.writes();
        writes.iter().filter(|write| write.agent == name).count()
    }
}

// --- CrashScenario ---

impl CrashScenario {
    /// Checks that the final state is the same when a simulator crashes after any of its writes, whether the write succeeded or
    /// not, and another takes over; and when two simulators run concurrently.
    pub(super) async fn assert_survives_crashes(&self) -> Value {
        let cluster = TestCluster::new();
        (self.setup)(&cluster);
        let one = cluster.start("one", 1, self.rules);
        let expected = self.wait_until_end(&cluster, || {}).await;
        drop(one);
        let writes = cluster.write_count("one");
        for last in 0..writes {
            for fault in [Fault::Status(503), Fault::LostResponse] {
                let cluster = TestCluster::new();
                let faults = cluster.api.faults();
                faults.on(
                    RequestMatcher::writes().user_agent("one").skip(last).times(1),
                    fault,
                );
                faults.on(
                    RequestMatcher::writes().user_agent("one").skip(last),
                    Fault::Status(503),
                );
                (self.setup)(&cluster);
                let mut copy = Some(cluster.start("one", 1, self.rules));
                let mut next = None;
                let end = self.wait_until_end(&cluster, || {
                    if next.is_none() && cluster.write_count("one") > last {
                        copy = None;
                        next = Some(cluster.start("two", 1, self.rules));
                    }
                });
                assert_eq!(end.await, expected, "{fault:?} at write {last}");
                drop((copy, next));
            }
        }
        let cluster = TestCluster::new();
        (self.setup)(&cluster);
        let copies = ["one", "two"].map(|name| cluster.start(name, 1, self.rules));
        assert_eq!(self.wait_until_end(&cluster, || {}).await, expected);
        drop(copies);
        expected
    }

    async fn wait_until_end(&self, cluster: &TestCluster, mut turn: impl FnMut()) -> Value {
        let start = Instant::now();
        loop {
            sleep(Duration::from_millis(250)).await;
            turn();
            (self.act_as_other_clients)(cluster);
            if let Some(end) = (self.end)(cluster) {
                sleep(Duration::from_secs(15)).await;
                assert_eq!((self.end)(cluster), Some(end.clone()), "the final state changed");
                return end;
            }
            assert!(start.elapsed() < LONGEST, "final state not reached");
        }
    }
}

fn merge(into: &mut Value, parts: Value) {
    let Value::Object(parts) = parts else { return };
    for (name, value) in parts {
        into[name] = value;
    }
}
