//! Runs the scheduler core against an API server: feeds it informer events and writes its decisions.
//!
//! Promises:
//! - Nothing is decided before everything that is there has been read.
//! - A decision is written by a request of its own, and the next decision does not wait for it. A pod that could not be
//!   bound, for whatever reason, is forgotten: its assumed state is reverted.
//! - Whatever is lost when the scheduler ends is found again by reading: a pod is bound or it waits. Two schedulers at
//!   once disturb each other, and nothing else: the server lets only one of them bind a pod.

mod api_writer;
mod bind;
mod derived_objects;
mod event_handlers;
mod event_loop;
mod informer_event;
mod informers;
mod metrics;
#[cfg(test)]
mod null_fields_tests;
mod setup;
#[cfg(test)]
mod tests;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::BoxFuture;
use hashbrown::HashMap;
use kubecontroller::{
    Clock,
    events::EventRecorder,
    informer::SharedInformerFactory,
    manager::{BoxError, Runnable, Stop},
    metrics::Metrics,
};
use tokio::sync::mpsc;

use crate::{interner::Text, profile::Profile, queue::BackoffOptions, scheduler_core::SchedulerCore};
use event_loop::EventLoop;
use informers::{InformerOptionsSet, SchedulerInformers};
use metrics::SchedulerMetrics;
pub use setup::SchedulerSetup;

/// The name under which it runs, and whose rights it has.
pub const NAME: &str = "kube-scheduler";

/// The scheduler of a cluster.
pub struct Scheduler {
    client: kube::Client,
    informers: SharedInformerFactory,
    recorders: HashMap<Text, EventRecorder>,
    clock: Clock,
    profiles: Vec<Profile>,
    backoff: BackoffOptions,
    seed: u64,
    kinds: InformerOptionsSet,
    metrics: SchedulerMetrics,
    ready: AtomicBool,
}

impl Scheduler {
    /// With the usual rules. The client has its rights; recorders are made for the names that pods ask for.
    pub fn new(
        client: kube::Client,
        informers: SharedInformerFactory,
        clock: Clock,
        recorder: impl Fn(&str) -> EventRecorder,
    ) -> Self {
        Self::with_profiles(client, informers, clock, recorder, vec![Profile::default()])
    }

    /// With rules of one's own, for several names.
    pub fn with_profiles(
        client: kube::Client,
        informers: SharedInformerFactory,
        clock: Clock,
        recorder: impl Fn(&str) -> EventRecorder,
        profiles: Vec<Profile>,
    ) -> Self {
        let recorders = profiles
            .iter()
            .map(|profile| (profile.name.clone(), recorder(&profile.name)));
        Scheduler {
            recorders: recorders.collect(),
            // Schedulers that run at once should not all try the same node first.
            seed: u64::try_from(clock.now().as_nanosecond() & i128::from(u64::MAX)).unwrap_or(0),
            client,
            informers,
            clock,
            profiles,
            backoff: BackoffOptions::default(),
            kinds: InformerOptionsSet::default(),
            metrics: SchedulerMetrics::default(),
            ready: AtomicBool::new(false),
        }
    }

    /// With chance from a seed.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Registers its metrics.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = SchedulerMetrics::new(metrics);
        self
    }

    async fn work(&self, stop: &Stop) -> Result<(), BoxError> {
        let (events, received) = mpsc::unbounded_channel();
        let watched = SchedulerInformers::new(&self.informers, &self.kinds, &events)?;
        self.informers.start();
        if stop.unless_stopped(watched.synced()).await.is_none() {
            return Ok(());
        }
        let core = SchedulerCore::new(self.profiles.clone(), self.backoff, self.seed);
        let writer =
            api_writer::SchedulerWriter::new(self.client.clone(), self.clock.clone(), self.recorders.clone());
        let metrics = self.metrics.clone();
        let work = EventLoop::new(core, writer, watched.claims(), metrics, (events, received));
        self.ready.store(true, Ordering::Relaxed);
        work.run(stop).await;
        Ok(())
    }
}

impl Runnable for Scheduler {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            let result = self.work(&stop).await;
            self.ready.store(false, Ordering::Relaxed);
            result
        })
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("profiles", &self.profiles)
            .finish_non_exhaustive()
    }
}

/// How long volumes may take to be bound.
const VOLUME_PATIENCE: Duration = Duration::from_mins(10);

/// The claims of an informer.
type ClaimStore = kubecontroller::store::Store<k3_workloads::PersistentVolumeClaim>;
