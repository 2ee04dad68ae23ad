//! What tests of controllers share: a cluster in memory whose time passes at once, with a node that runs pods.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kubecontroller::{
    Clock,
    events::Events,
    informer::Informers,
    manager::Stop,
    metrics::Metrics,
    testing::{FakeApi, Look, eventually},
};
use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    context::{Context, Task},
    resource::Resource,
    writer::Writer,
};

/// What makes the tasks of a controller.
pub(crate) type Make = fn(&Context) -> Vec<Task>;

/// A cluster without controllers. Needs a paused clock: the time of its objects is tokio's.
pub(crate) struct World {
    pub(crate) api: FakeApi,
    clock: Clock,
}

/// Controllers that run until this is dropped, as if their process were killed.
pub(crate) struct Running {
    _tasks: JoinSet<()>,
    /// Informers end with the last who holds them all.
    _context: Context,
}

// --- World ---

impl World {
    pub(crate) fn new() -> Self {
        let (start, zero) = (
            Timestamp::from_second(1_800_000_000).expect("that is a time"),
            Instant::now(),
        );
        let clock = Clock::new(move || start + zero.elapsed());
        World {
            api: FakeApi::with_clock(clock.clone()),
            clock,
        }
    }

    /// Runs controllers whose requests are told apart by `agent`.
    pub(crate) fn run(&self, agent: &str, makes: &[Make]) -> Running {
        let client = self.api.client_of(agent);
        let events = Events::new(client.clone());
        let context = Context {
            writer: Writer::new(client.clone()),
            informers: Informers::new(client),
            recorder: events.recorder("test"),
            clock: self.clock.clone(),
            metrics: Metrics::default(),
            cluster: std::sync::Arc::default(),
        };
        let mut tasks = JoinSet::new();
        context.informers.start();
        for task in makes.iter().flat_map(|make| make(&context)) {
            tasks.spawn(async move {
                let ended = task.run(Stop::new()).await;
                panic!("a controller has ended: {ended:?}");
            });
        }
        Running {
            _tasks: tasks,
            _context: context,
        }
    }

    /// Puts an object as a client would write it.
    pub(crate) fn put(&self, resource: &Resource, object: Value) -> Value {
        self.api.put_value(&resource.api_resource(), object)
    }

    /// Runs pods: those that are new become ready, those that are to go are gone, and those that `is_bad` are left alone.
    pub(crate) fn run_pods(&self, is_bad: impl Fn(&Pod) -> bool) {
        for pod in self.api.list::<Pod>() {
            let (namespace, name) = (
                pod.metadata.namespace.clone().unwrap_or_default(),
                pod.metadata.name.clone().unwrap_or_default(),
            );
            let is_new = pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Running");
            if pod.metadata.deletion_timestamp.is_some() {
                self.api.remove::<Pod>(&namespace, &name);
            } else if is_new && !is_bad(&pod) {
                self.api.edit::<Pod>(&namespace, &name, |pod| {
                    pod.status = Some(PodStatus {
                        phase: Some("Running".to_owned()),
                        conditions: Some(vec![PodCondition {
                            type_: "Ready".to_owned(),
                            status: "True".to_owned(),
                            last_transition_time: Some(Time(self.clock.now())),
                            ..PodCondition::default()
                        }]),
                        ..PodStatus::default()
                    });
                });
            }
        }
    }

    /// Runs pods until a look finds what is waited for.
    pub(crate) async fn until<L: Look>(&self, mut look: impl FnMut(&FakeApi) -> L) -> L::Found {
        eventually(|| {
            self.run_pods(|_| false);
            let seen = look(&self.api);
            async move { seen }
        })
        .await
    }

    /// Lets time pass in which pods run and nothing else happens.
    pub(crate) async fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.run_pods(|_| false);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// How many pods there are of each owner.
    pub(crate) fn pods(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for pod in self.api.list::<Pod>() {
            let owners = pod.metadata.owner_references.into_iter().flatten();
            let owner = owners.map(|owner| owner.name).next().unwrap_or_default();
            *counts.entry(owner).or_default() += 1;
        }
        counts
    }

    /// Kills a controller at every write: before it was done, and after. `story` prepares a world; then the controllers run
    /// until they are killed, others take over, and `done` tells when all is as it should be, and what that is.
    pub(crate) async fn survive<L: Look>(
        story: impl AsyncFn(&World),
        makes: &[Make],
        mut done: impl FnMut(&World) -> L,
    ) where
        L::Found: PartialEq + std::fmt::Debug,
    {
        let mut expected = None;
        for is_done in [false, true] {
            for write in 0.. {
                let world = World::new();
                story(&world).await;
                world.api.forget_requests();
                let faults = world.api.faults();
                if is_done {
                    faults.lose_write_after(write);
                } else {
                    faults.refuse_writes_after(write);
                }
                let first = world.run("first", makes);
                let is_killed = eventually(|| {
                    world.run_pods(|_| false);
                    let is_killed = world.api.writes().len() > write;
                    let outcome = if is_killed {
                        Some(true)
                    } else {
                        done(&world).look().ok().map(|_| false)
                    };
                    async move { outcome }
                })
                .await;
                drop(first);
                faults.clear();
                let _second = world.run("second", makes);
                let found = eventually(|| {
                    world.run_pods(|_| false);
                    let seen = done(&world).look();
                    async move { seen }
                })
                .await;
                world.rest(Duration::from_secs(3)).await;
                let rested = done(&world)
                    .look()
                    .unwrap_or_else(|seen| panic!("did not last after write {write}: {seen}"));
                assert_eq!(found, rested, "it did not last after write {write}");
                let expected = expected.get_or_insert(found);
                assert_eq!(*expected, rested, "killed at write {write}, done: {is_done}");
                if !is_killed {
                    break;
                }
            }
        }
    }

    /// Runs two copies at once until all is as it should be, and stays so.
    pub(crate) async fn share<L: Look>(&self, makes: &[Make], mut done: impl FnMut(&World) -> L) -> L::Found {
        let _copies = [self.run("first", makes), self.run("second", makes)];
        eventually(|| {
            self.run_pods(|_| false);
            let seen = done(self).look();
            async move { seen }
        })
        .await;
        self.rest(Duration::from_secs(3)).await;
        done(self)
            .look()
            .unwrap_or_else(|seen| panic!("it did not last: {seen}"))
    }
}
