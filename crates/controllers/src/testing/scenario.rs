//! Controllers against an API in memory: a scenario runs once undisturbed, then with a crash at every write, then with two
//! copies at once, and has to end the same each time.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock,
    events::{EventApi, EventBroadcaster},
    informer::SharedInformerFactory,
    manager::{Runnable, Stop},
    metrics::Metrics,
    resource::Resource,
    testing::{FakeApi, Fault, RequestMatcher},
    writer::ApiWriter,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::context::{ClusterConfig, ControllerContext, Task};

/// How often others get their turn.
const STEP_INTERVAL: Duration = Duration::from_millis(250);
/// A story that takes longer than this will not end.
const MAX_DURATION: Duration = Duration::from_hours(1);
/// For so long nothing may change after the end.
const QUIET_PERIOD: Duration = Duration::from_secs(15);

/// Something that happens to controllers. Time is tokio's, which a test pauses.
pub(crate) struct Scenario {
    /// The controllers.
    pub(crate) make: fn(&ControllerContext) -> Vec<Task>,
    /// Creates the initial objects.
    pub(crate) setup: fn(&TestCluster),
    /// Periodic actions of others: kubelets, users, other controllers.
    pub(crate) play: fn(&TestCluster),
    /// The result, once it is reached.
    pub(crate) end: fn(&TestCluster) -> Option<Value>,
}

/// Where a story happens.
#[derive(Clone)]
pub(crate) struct TestCluster {
    pub(crate) api: FakeApi,
    clock: Clock,
    /// How far the clock was set back.
    set_back: Arc<Mutex<Duration>>,
}

/// Writes of a copy of the controllers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteCounts {
    pub(crate) all: usize,
    /// Those that were refused with 409: a precondition was not met.
    pub(crate) refused: usize,
}

/// A copy of the controllers that runs. Dropping it is a crash.
pub(crate) struct RunningControllers {
    _tasks: JoinSet<()>,
    _informers: SharedInformerFactory,
}

// --- TestCluster ---

impl TestCluster {
    /// An empty cluster at 2026-01-01T00:00:30Z.
    pub(crate) fn new() -> Self {
        let begin = Timestamp::constant(1_767_225_630, 0);
        let start = Instant::now();
        let set_back = Arc::new(Mutex::new(Duration::ZERO));
        let offset = Arc::clone(&set_back);
        let clock = Clock::new(move || begin + start.elapsed() - *offset.lock());
        TestCluster {
            api: FakeApi::with_clock(clock.clone()),
            clock,
            set_back,
        }
    }

    /// Sets the wall clock back; tokio's clock, which delays use, continues.
    pub(crate) fn set_clock_back(&self, by: Duration) {
        *self.set_back.lock() += by;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Puts an object there.
    pub(crate) fn put(&self, resource: &Resource, object: Value) -> Value {
        self.api.put_value(&resource.api_resource(), object)
    }

    /// Starts a replica of the controllers, whose requests are identified by its name.
    pub(crate) fn start(
        &self,
        name: &str,
        make: impl FnOnce(&ControllerContext) -> Vec<Task>,
    ) -> RunningControllers {
        let (informers, events, made) = self.make(name, make);
        let mut tasks = JoinSet::new();
        for task in made {
            tasks.spawn(async move {
                task.run(Stop::new()).await.expect("nothing stops it");
            });
        }
        tasks.spawn(async move {
            events.run(Stop::new()).await.expect("nothing stops it");
        });
        informers.start();
        RunningControllers {
            _tasks: tasks,
            _informers: informers,
        }
    }

    /// Makes a copy of controllers that does not run, with its informers and its events.
    pub(super) fn make(
        &self,
        name: &str,
        make: impl FnOnce(&ControllerContext) -> Vec<Task>,
    ) -> (SharedInformerFactory, EventBroadcaster, Vec<Task>) {
        let client = self.api.client_with_user_agent(name);
        let informers = SharedInformerFactory::new(client.clone());
        let events =
            EventBroadcaster::new(self.api.client_with_user_agent("events")).clock(self.clock.clone());
        let context = ControllerContext {
            writer: ApiWriter::new(client),
            informers: informers.clone(),
            recorder: events.recorder("test").style(EventApi::Core),
            clock: self.clock.clone(),
            metrics: Metrics::default(),
            cluster: Arc::new(ClusterConfig::default()),
        };
        let tasks = make(&context);
        (informers, events, tasks)
    }

    /// The writes that a copy has requested.
    fn count_writes(&self, name: &str) -> WriteCounts {
        let mut writes = self.api.writes();
        writes.retain(|write| write.agent == name);
        let refused = writes.iter().filter(|write| write.response_code() == Some(409));
        WriteCounts {
            all: writes.len(),
            refused: refused.count(),
        }
    }
}

// --- Scenario ---

impl Scenario {
    /// Runs the scenario. Returns its result and the number of writes.
    pub(crate) async fn run(&self) -> (Value, usize) {
        let (end, writes) = self.run_and_count().await;
        (end, writes.all)
    }

    /// Runs the scenario. Returns its result and its writes.
    pub(crate) async fn run_and_count(&self) -> (Value, WriteCounts) {
        let cluster = TestCluster::new();
        (self.setup)(&cluster);
        let one = cluster.start("one", self.make);
        let end = self.run_until_end(&cluster, || {}).await;
        drop(one);
        (end, cluster.count_writes("one"))
    }

    /// Whichever write is the last one of a copy, done or not, the next copy brings it to the same end.
    pub(crate) async fn survives_crashes(&self) {
        let (expected, writes) = self.run().await;
        assert!(writes > 0, "nothing was written");
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
                let mut copy = Some(cluster.start("one", self.make));
                let mut next = None;
                let end = self.run_until_end(&cluster, || {
                    if next.is_none() && cluster.count_writes("one").all > last {
                        copy = None;
                        next = Some(cluster.start("two", self.make));
                    }
                });
                let end = end.await;
                drop((copy, next));
                assert_eq!(end, expected, "{fault:?} at write {last}");
            }
        }
    }

    /// Two replicas reach the same result as one.
    pub(crate) async fn survives_copies(&self) {
        let (expected, _) = self.run().await;
        let cluster = TestCluster::new();
        (self.setup)(&cluster);
        let copies = ["one", "two"].map(|name| cluster.start(name, self.make));
        let end = self.run_until_end(&cluster, || {}).await;
        drop(copies);
        assert_eq!(end, expected);
    }

    /// Waits until the result is reached and stable.
    async fn run_until_end(&self, cluster: &TestCluster, mut turn: impl FnMut()) -> Value {
        let start = Instant::now();
        let mut ended: Option<(Value, Instant)> = None;
        loop {
            sleep(STEP_INTERVAL).await;
            turn();
            (self.play)(cluster);
            ended = match ((self.end)(cluster), ended) {
                (Some(end), Some((before, since))) if end == before => Some((end, since)),
                (Some(end), _) => Some((end, Instant::now())),
                (None, _) => None,
            };
            match &ended {
                Some((end, since)) if since.elapsed() >= QUIET_PERIOD => return end.clone(),
                _ => assert!(start.elapsed() < MAX_DURATION, "no end: {ended:?}"),
            }
        }
    }
}
