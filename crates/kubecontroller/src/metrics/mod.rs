//! The figures of controllers, queues, informers and leases.
//!
//! Promises:
//! - Names and labels are those of upstream's `workqueue`, `controller-runtime`, `reflector` and `leader_election` families.
//!   Labels are names of controllers, informers and leases: there are as many as a program has, whatever its objects are.
//! - Counting costs a worker a few writes to memory that no other worker writes. What a queue knows is asked when somebody
//!   looks, not told when it happens.
//! - A controller that is started again goes on counting where it was.
//!
//! ```
//! use kubecontroller::metrics::{self, Metrics};
//! use prometheus_client::registry::Registry;
//!
//! let mut registry = Registry::default();
//! let metrics = Metrics::new(&mut registry);
//! metrics.restarted("web");
//! assert!(metrics::text(&registry).contains(r#"controller_restarts_total{controller="web"} 1"#));
//! ```

mod controller;
mod families;
mod histogram;
mod informer;
mod text;

use std::{
    collections::BTreeMap,
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus_client::registry::Registry;

pub(crate) use self::controller::{ControllerMetrics, ResultOf, WorkerMetrics};
use self::{controller::QueueCounts, families::Families};
pub use self::{informer::InformerMetrics, text::text};
use crate::queue::Queue;

/// Where the figures of a program are kept. Clones are the same.
#[derive(Clone, Default)]
pub struct Metrics {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    names: Mutex<Names>,
}

/// Everything that is counted, by name.
#[derive(Default)]
struct Names {
    controllers: BTreeMap<String, Arc<ControllerMetrics>>,
    queues: BTreeMap<String, QueueCounts>,
    informers: BTreeMap<String, InformerMetrics>,
    leaders: BTreeMap<String, bool>,
}

// --- Metrics ---

impl Metrics {
    /// Figures that are shown when that registry is; see [`text`].
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Metrics::default();
        registry.register_collector(Box::new(Families::of(metrics.clone())));
        metrics
    }

    /// Shows the figures of a queue under a name. One that had the name before is forgotten, but for what it had counted.
    pub fn watch_queue<K: Clone + Eq + Hash + Send + 'static>(&self, name: &str, queue: &Queue<K>) {
        let mut names = self.names();
        names.queues.entry(name.to_owned()).or_default().follow(queue);
    }

    /// A supervised controller, or another task, had to be started again.
    pub fn restarted(&self, controller: &str) {
        self.controller(controller).restarted();
    }

    /// Whether this process is the leader by a lease.
    pub fn leads(&self, lease: &str, is_leader: bool) {
        self.names().leaders.insert(lease.to_owned(), is_leader);
    }

    /// The figures of an informer; the same ones for the same name.
    pub fn informer(&self, name: &str) -> InformerMetrics {
        self.names().informers.entry(name.to_owned()).or_default().clone()
    }

    /// The figures of a controller; the same ones for the same name.
    pub(crate) fn controller(&self, name: &str) -> Arc<ControllerMetrics> {
        let mut names = self.names();
        Arc::clone(names.controllers.entry(name.to_owned()).or_default())
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.shared.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names();
        f.debug_struct("Metrics")
            .field("controllers", &names.controllers.keys())
            .field("queues", &names.queues.keys())
            .field("informers", &names.informers.keys())
            .finish_non_exhaustive()
    }
}
