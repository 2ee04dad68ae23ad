//! What the managers of a process share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use prometheus_client::registry::Registry;

use super::{Config, RunnableStatus, board::Board, health::Health, supervisor::Supervisor};
use crate::{
    Clock,
    events::Events,
    informer::{InformerDefaults, Informers},
    metrics::Metrics,
};

/// What the managers of a process share: the client, informers, figures, events, health. Clones are the same.
#[derive(Clone)]
pub struct Context {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    client: Client,
    informers: Informers,
    registry: Mutex<Registry>,
    metrics: Metrics,
    events: Arc<Events>,
    clock: Clock,
    health: Health,
    board: Board,
}

// --- Context ---

impl Context {
    /// With the clock of the machine.
    pub fn new(config: Config, client: Client) -> Self {
        Context::with_clock(config, client, Clock::system())
    }

    /// With another clock, for tests.
    pub fn with_clock(config: Config, client: Client, clock: Clock) -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let events = Events::new(client.clone()).clock(clock.clone());
        events.register(&mut registry);
        let informers = Informers::new(client.clone()).with_metrics(&metrics);
        let informers = informers.with_defaults(InformerDefaults {
            resync: config.informer.resync,
            list_timeout: config.informer.list_timeout,
            max_objects: config.informer.cache_size,
            streaming: config.informer.incremental_sync,
        });
        Context {
            shared: Arc::new(Shared {
                informers,
                config,
                client,
                registry: Mutex::new(registry),
                metrics,
                events: Arc::new(events),
                clock,
                health: Health::default(),
                board: Board::default(),
            }),
        }
    }

    /// What the program was told.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The way to the cluster.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The informers of the process.
    pub fn informers(&self) -> &Informers {
        &self.shared.informers
    }

    /// The figures of the framework.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Where figures of one's own are registered, to be shown with the others.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.shared
            .registry
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The events of the process.
    pub fn events(&self) -> &Arc<Events> {
        &self.shared.events
    }

    /// The time of day.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Where checks of one's own are added.
    pub fn health(&self) -> &Health {
        &self.shared.health
    }

    /// What runs in the process, and how it fares.
    pub fn runnables(&self) -> Vec<RunnableStatus> {
        self.shared.board.all()
    }

    pub(super) fn board(&self) -> &Board {
        &self.shared.board
    }

    pub(super) fn supervisor(&self) -> Supervisor {
        Supervisor {
            board: self.shared.board.clone(),
            metrics: self.shared.metrics.clone(),
        }
    }
}
