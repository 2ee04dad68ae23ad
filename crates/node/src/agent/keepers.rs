//! Everything that keeps the node, as tasks that end together.

use std::{collections::BTreeMap, sync::Arc};

use kube::Client;
use kubecontroller::{Clock, events::EventRecorder, manager::Stop};
use tokio::{sync::watch, task::JoinSet};

use super::{
    Config,
    images::ImageKeeper,
    link::{Link, RuntimeState},
    logs,
    machine::Eyes,
    node::{self, LeaseKeeper, NodeEvents, NodeKeeper, Pressures},
    pressure::{self, MeasureVolumes},
    serving::CertificateKeeper,
    tenants::Tenants,
};
use crate::{Facts, images::PulledImages};

/// What is known to all keepers, before any of them runs.
pub(super) struct Shared {
    pub(super) config: Arc<Config>,
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) recorder: EventRecorder,
    pub(super) eyes: Eyes,
    pub(super) events: NodeEvents,
    pub(super) facts: watch::Sender<Arc<Facts>>,
    pub(super) uid: watch::Sender<Option<String>>,
    pub(super) networks: watch::Sender<Vec<String>>,
    pub(super) pressures: watch::Sender<Pressures>,
    /// Which images this node pulled.
    pub(super) pulled: PulledImages,
    /// Why the node takes no more pods.
    pub(super) leaving: watch::Sender<Option<String>>,
}

/// What keepers are given that is made from what is shared.
pub(super) struct Given {
    pub(super) link: Link,
    pub(super) certificates: CertificateKeeper,
    pub(super) tenants: Arc<dyn Tenants>,
    pub(super) volumes: MeasureVolumes,
    /// The port that the node's own API really listens on.
    pub(super) port: u16,
}

impl Shared {
    pub(super) fn new(config: Config, client: Client, clock: Clock, recorder: EventRecorder) -> Self {
        let events = NodeEvents::new(recorder.clone(), &config.node_name);
        let eyes = Eyes::new();
        // Pods from files need no API, and no Node.
        let facts = node::facts(&config, &eyes, BTreeMap::new());
        Shared {
            pulled: PulledImages::open(&config.data_dir),
            config: Arc::new(config),
            client,
            clock,
            recorder,
            eyes,
            events,
            facts: watch::Sender::new(Arc::new(facts)),
            uid: watch::Sender::new(None),
            networks: watch::Sender::default(),
            pressures: watch::Sender::default(),
            leaving: watch::Sender::default(),
        }
    }

    /// Begins all keepers.
    pub(super) fn start(&self, given: Given, tasks: &mut JoinSet<()>, stop: &Stop) {
        let Given {
            link,
            certificates,
            tenants,
            volumes,
            port,
        } = given;
        let runtime = link.runtime();
        let state = link.state();
        let images = ImageKeeper::new(
            self.config.images,
            self.pulled.clone(),
            runtime.clone(),
            self.eyes.clone(),
            self.events.clone(),
        );
        let images = Arc::new(images);
        let eviction = pressure::Manager::new(pressure::Parts {
            config: Arc::clone(&self.config),
            eyes: self.eyes.clone(),
            runtime: runtime.clone(),
            volumes,
            images: Arc::clone(&images),
            tenants,
            events: self.events.clone(),
            recorder: self.recorder.clone(),
            pressures: self.pressures.clone(),
        });
        tasks.spawn(self.node(state, &images, port).run(stop.clone()));
        tasks.spawn(self.lease().run(stop.clone()));
        tasks.spawn(certificates.run(stop.clone()));
        tasks.spawn(eviction.run(stop.clone()));
        tasks.spawn(logs::rotate(self.config.logs, runtime, stop.clone()));
        tasks.spawn(link.run(stop.clone()));
        let stop = stop.clone();
        tasks.spawn(async move { images.run(stop).await });
    }

    fn node(&self, runtime: watch::Receiver<RuntimeState>, images: &ImageKeeper, port: u16) -> NodeKeeper {
        NodeKeeper::new(node::Parts {
            config: Arc::clone(&self.config),
            client: self.client.clone(),
            clock: self.clock.clone(),
            events: self.events.clone(),
            eyes: self.eyes.clone(),
            runtime,
            images: images.images(),
            pressures: self.pressures.subscribe(),
            leaving: self.leaving.subscribe(),
            port,
            facts: self.facts.clone(),
            uid: self.uid.clone(),
            networks: self.networks.clone(),
        })
    }

    fn lease(&self) -> LeaseKeeper {
        let config = &self.config;
        LeaseKeeper::new(
            self.client.clone(),
            self.clock.clone(),
            &config.node_name,
            config.heartbeat,
            self.uid.subscribe(),
        )
    }
}
