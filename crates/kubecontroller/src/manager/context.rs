//! What the managers of a process share.

use std::sync::Arc;

use kube::Client;

use super::{Config, RunnableStatus, health::HealthChecks, status::StatusBoard, supervisor::Supervisor};
use crate::{
    Clock,
    events::EventBroadcaster,
    informer::{InformerDefaults, SharedInformerFactory},
    metrics::Metrics,
};

/// What the managers of a process share: client, informers, metrics, events, health checks. Clones share their state.
#[derive(Clone)]
pub struct ManagerContext {
    shared: Arc<SharedContext>,
}

struct SharedContext {
    config: Config,
    client: Client,
    informers: SharedInformerFactory,
    metrics: Metrics,
    events: Arc<EventBroadcaster>,
    clock: Clock,
    health: HealthChecks,
    board: StatusBoard,
}

// --- ManagerContext ---

impl ManagerContext {
    /// Creates a context with the system clock.
    pub fn new(config: Config, client: Client) -> Self {
        ManagerContext::with_clock(config, client, Clock::system())
    }

    /// Creates a context with another clock, for tests.
    pub fn with_clock(config: Config, client: Client, clock: Clock) -> Self {
        let metrics = Metrics::default();
        let events = EventBroadcaster::new(client.clone());
        let events = events.clock(clock.clone()).metrics(&metrics);
        let informers = SharedInformerFactory::new(client.clone()).with_metrics(&metrics);
        let informers = informers.with_defaults(InformerDefaults {
            resync: config.informer.resync,
            list_timeout: config.informer.list_timeout,
            max_objects: config.informer.cache_size,
            streaming: config.informer.incremental_sync,
        });
        ManagerContext {
            shared: Arc::new(SharedContext {
                informers,
                config,
                client,
                metrics,
                events: Arc::new(events),
                clock,
                health: HealthChecks::default(),
                board: StatusBoard::default(),
            }),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The informers, which all controllers of the process share.
    pub fn informers(&self) -> &SharedInformerFactory {
        &self.shared.informers
    }

    /// The metrics that `/metrics` serves: those of the framework, and those that the program [declares](crate::metrics::MetricDesc).
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// The event broadcaster.
    pub fn events(&self) -> &Arc<EventBroadcaster> {
        &self.shared.events
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The health checks, to which a program can add its own.
    pub fn health(&self) -> &HealthChecks {
        &self.shared.health
    }

    /// The status of all runnables.
    pub fn runnables(&self) -> Vec<RunnableStatus> {
        self.shared.board.all()
    }

    pub(super) fn board(&self) -> &StatusBoard {
        &self.shared.board
    }

    pub(super) fn supervisor(&self) -> Supervisor {
        Supervisor {
            board: self.shared.board.clone(),
            metrics: self.shared.metrics.clone(),
        }
    }
}
