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
    /// The networks that nodes get for their pods.
    pub node_networks: NodeNetworks,
}

/// The networks that nodes get for their pods.
#[derive(Clone, Debug, Default)]
pub struct NodeNetworks {
    /// What they are cut from, such as `10.244.0.0/16`: one, or one of each family. Without any, nodes get none.
    pub pods: Vec<String>,
    /// The networks of services, which no pod may be in.
    pub services: Vec<String>,
    /// The size of a node's network in IPv4, as the length of its prefix; 24 if not said.
    pub block_v4: Option<u8>,
    /// The same in IPv6; 64 if not said.
    pub block_v6: Option<u8>,
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
