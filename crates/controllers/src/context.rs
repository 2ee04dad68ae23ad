//! What a controller is given.

use std::sync::Arc;

use kubecontroller::{
    Clock,
    controller::Controller,
    events::Recorder,
    informer::{Informer, Informers, Scope},
    manager::Runnable,
    metrics::Metrics,
    object::Object,
    store::By,
};
use serde::de::DeserializeOwned;

use crate::{
    objects::Pod,
    resource::{PODS, Resource},
    writer::Writer,
};

/// What a controller is given: its rights, what is shared by all, and the time.
#[derive(Clone)]
pub struct Context {
    /// Makes its requests, with its own rights.
    pub writer: Writer,
    /// The informers of all controllers.
    pub informers: Informers,
    /// Tells its events.
    pub recorder: Recorder,
    /// The time of day.
    pub clock: Clock,
    /// Where its figures go.
    pub metrics: Metrics,
    /// What is so in this cluster.
    pub cluster: Arc<Cluster>,
}

/// What is so in a cluster, whoever asks.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The certificate of the authority of the API server, in PEM, which pods need to trust it.
    pub authority: String,
}

/// What runs for a controller.
pub type Task = Box<dyn Runnable>;

// --- Context ---

impl Context {
    /// The objects of a resource in the whole cluster, as far as `T` reads them. All who ask for the same share it.
    pub fn informer<T: Object + DeserializeOwned>(&self, resource: &Resource) -> Informer<T> {
        self.informers
            .projected(&resource.api_resource(), Scope::default())
    }

    /// The pods.
    pub fn pods(&self) -> Informer<Pod> {
        self.informer(&PODS)
    }

    /// The pods of each node.
    pub fn pods_by_node(&self) -> By<Pod> {
        let pods = self.pods();
        pods.store()
            .shared_index("node", |pod| match &*pod.spec.node_name {
                "" => Vec::new(),
                node => vec![node.to_owned()],
            })
    }

    /// A controller to be built, with figures and the time.
    pub fn controller(&self, name: &str) -> Controller {
        Controller::new(name).metrics(&self.metrics).clock(&self.clock)
    }
}
