//! A cluster in memory whose time passes at once, with a simulator in it.

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

/// Longer than anything takes.
const LONGEST: Duration = Duration::from_mins(30);

/// A cluster without controllers. Needs a paused clock: the time of its objects is tokio's.
pub(super) struct TestCluster {
    pub(super) api: FakeApi,
    clock: Clock,
}

/// A simulator that runs. Dropping it is a crash.
pub(super) struct RunningSimulator {
    _tasks: JoinSet<()>,
    _informers: SharedInformerFactory,
}

/// The final state of pods, whatever crashes.
pub(super) struct FinalState {
    pub(super) rules: &'static str,
    pub(super) setup: fn(&TestCluster),
    /// What other clients do repeatedly.
    pub(super) play: fn(&TestCluster),
    /// The final state, once it is reached.
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

    /// Simulates nodes; its requests carry the name.
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

    /// The same, and lets it run.
    pub(super) fn start(&self, name: &str, nodes: u32, rules: &str) -> RunningSimulator {
        let (simulator, informers) = self.simulator(name, nodes, rules);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            simulator.run(Stop::new()).await.expect("nothing stops it");
        });
        RunningSimulator {
            _tasks: tasks,
            _informers: informers,
        }
    }

    /// Puts a pod on a node, with parts of its own.
    pub(super) fn put(&self, name: &str, spec: Value) {
        self.put_with(name, json!({}), spec);
    }

    /// The same with metadata of its own.
    pub(super) fn put_with(&self, name: &str, metadata: Value, spec: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": "simulated-0", "containers": [{"name": "web", "image": "web:1"}]},
            "status": {"phase": "Pending"},
        });
        merge(&mut pod["metadata"], metadata);
        merge(&mut pod["spec"], spec);
        self.api.put_value(&ApiResource::erase::<Pod>(&()), pod);
    }

    /// A pod, if it is there.
    pub(super) fn pod(&self, name: &str) -> Option<Value> {
        let pod = self.api.get::<Pod>("shop", name)?;
        Some(serde_json::to_value(pod).unwrap())
    }

    pub(super) fn node(&self, name: &str) -> Option<Value> {
        let node = self.api.get::<Node>("", name)?;
        Some(serde_json::to_value(node).unwrap())
    }

    /// Asks for the deletion of a pod, as a user does.
    pub(super) async fn delete(&self, name: &str) {
        let pods: kube::Api<Pod> = kube::Api::namespaced(self.api.client_with_user_agent("user"), "shop");
        pods.delete(name, &kube::api::DeleteParams::default())
            .await
            .unwrap();
    }

    /// Waits until a pod is as wanted.
    pub(super) async fn until(&self, name: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
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

    /// Waits until there are so many nodes with leases.
    pub(super) async fn until_nodes(&self, count: usize) {
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

    /// How many writes a simulator has asked for.
    pub(super) fn writes_of(&self, name: &str) -> usize {
        let writes = self.api.writes();
        writes.iter().filter(|write| write.agent == name).count()
    }
}

// --- FinalState ---

impl FinalState {
    /// Whichever write is the last one of a simulator, done or not, the next one brings it to the same end. Two at once do, too.
    pub(super) async fn survives(&self) -> Value {
        let stage = TestCluster::new();
        (self.setup)(&stage);
        let one = stage.start("one", 1, self.rules);
        let expected = self.until_end(&stage, || {}).await;
        drop(one);
        let writes = stage.writes_of("one");
        for last in 0..writes {
            for fault in [Fault::Status(503), Fault::LostResponse] {
                let stage = TestCluster::new();
                let faults = stage.api.faults();
                faults.on(
                    RequestMatcher::writes().user_agent("one").skip(last).times(1),
                    fault,
                );
                faults.on(
                    RequestMatcher::writes().user_agent("one").skip(last),
                    Fault::Status(503),
                );
                (self.setup)(&stage);
                let mut copy = Some(stage.start("one", 1, self.rules));
                let mut next = None;
                let end = self.until_end(&stage, || {
                    if next.is_none() && stage.writes_of("one") > last {
                        copy = None;
                        next = Some(stage.start("two", 1, self.rules));
                    }
                });
                assert_eq!(end.await, expected, "{fault:?} at write {last}");
                drop((copy, next));
            }
        }
        let stage = TestCluster::new();
        (self.setup)(&stage);
        let copies = ["one", "two"].map(|name| stage.start(name, 1, self.rules));
        assert_eq!(self.until_end(&stage, || {}).await, expected);
        drop(copies);
        expected
    }

    async fn until_end(&self, stage: &TestCluster, mut turn: impl FnMut()) -> Value {
        let start = Instant::now();
        loop {
            sleep(Duration::from_millis(250)).await;
            turn();
            (self.play)(stage);
            if let Some(end) = (self.end)(stage) {
                sleep(Duration::from_secs(15)).await;
                assert_eq!((self.end)(stage), Some(end.clone()), "it did not last");
                return end;
            }
            assert!(start.elapsed() < LONGEST, "no end");
        }
    }
}

fn merge(into: &mut Value, parts: Value) {
    let Value::Object(parts) = parts else { return };
    for (name, value) in parts {
        into[name] = value;
    }
}
