//! Background tasks of the node: node status, lease, serving certificate, eviction, image garbage collection, log rotation.

use std::{collections::BTreeMap, sync::Arc};

use kube::Client;
use kubecontroller::{Clock, events::EventRecorder, manager::Stop};
use tokio::{sync::watch, task::JoinSet};

use super::{
    AgentConfig,
    container_log_manager::rotate_container_logs,
    eviction::{ActivePods, EvictionDependencies, EvictionManager, MeasureVolumes},
    image_gc_manager::ImageGcManager,
    machine::MachineReader,
    node::{
        NodeEventRecorder, NodeLeaseController, NodePressures, NodeStatusDependencies, NodeStatusUpdater,
        node_facts,
    },
    runtime_monitor::{RuntimeMonitor, RuntimeState},
    serving_certificate::ServingCertificateManager,
};
use crate::{NodeFacts, images::PulledImages};

/// Configuration, clients and channels of all tasks.
pub(super) struct AgentContext {
    pub(super) config: Arc<AgentConfig>,
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) recorder: EventRecorder,
    pub(super) machine_reader: MachineReader,
    pub(super) events: NodeEventRecorder,
    pub(super) facts: watch::Sender<Arc<NodeFacts>>,
    /// UID of the Node object, once it is registered.
    pub(super) uid: watch::Sender<Option<String>>,
    /// `spec.podCIDRs` of the Node.
    pub(super) networks: watch::Sender<Vec<String>>,
    pub(super) pressures: watch::Sender<NodePressures>,
    /// Images that this node pulled.
    pub(super) pulled: PulledImages,
    /// Set while the node shuts down: message of the Ready condition.
    pub(super) shutdown_reason: watch::Sender<Option<String>>,
}

/// Dependencies of the tasks that are built from the context.
pub(super) struct TaskDependencies {
    pub(super) runtime_monitor: RuntimeMonitor,
    pub(super) certificates: ServingCertificateManager,
    pub(super) pods: Arc<dyn ActivePods>,
    pub(super) volumes: MeasureVolumes,
    /// Actual port of the kubelet API; differs from the configured one if that was in use.
    pub(super) port: u16,
}

impl AgentContext {
    /// Reads the data directory and the facts about the host. Blocks on file I/O.
    pub(super) fn new(config: AgentConfig, client: Client, clock: Clock, recorder: EventRecorder) -> Self {
        let events = NodeEventRecorder::new(recorder.clone(), &config.node_name);
        let machine_reader = MachineReader::new();
        // Static pods start before the API server is reachable, and need the facts without the labels of the Node.
        let facts = node_facts(&config, &machine_reader, BTreeMap::new());
        AgentContext {
            pulled: PulledImages::open(&config.data_dir),
            config: Arc::new(config),
            client,
            clock,
            recorder,
            machine_reader,
            events,
            facts: watch::Sender::new(Arc::new(facts)),
            uid: watch::Sender::new(None),
            networks: watch::Sender::default(),
            pressures: watch::Sender::default(),
            shutdown_reason: watch::Sender::default(),
        }
    }

    /// Spawns all tasks. They end when `stop` is stopped.
    pub(super) fn spawn_tasks(&self, deps: TaskDependencies, tasks: &mut JoinSet<()>, stop: &Stop) {
        let TaskDependencies {
            runtime_monitor,
            certificates,
            pods,
            volumes,
            port,
        } = deps;
        let runtime = runtime_monitor.runtime();
        let state = runtime_monitor.state();
        let images = ImageGcManager::new(
            self.config.image_gc,
            self.pulled.clone(),
            runtime.clone(),
            self.machine_reader.clone(),
            self.events.clone(),
        );
        let images = Arc::new(images);
        let eviction = EvictionManager::new(EvictionDependencies {
            config: Arc::clone(&self.config),
            machine_reader: self.machine_reader.clone(),
            runtime: runtime.clone(),
            volumes,
            images: Arc::clone(&images),
            pods,
            events: self.events.clone(),
            recorder: self.recorder.clone(),
            pressures: self.pressures.clone(),
        });
        tasks.spawn(self.status_updater(state, &images, port).run(stop.clone()));
        tasks.spawn(self.lease_controller().run(stop.clone()));
        tasks.spawn(certificates.run(stop.clone()));
        tasks.spawn(eviction.run(stop.clone()));
        tasks.spawn(rotate_container_logs(
            self.config.log_rotation,
            runtime,
            stop.clone(),
        ));
        tasks.spawn(runtime_monitor.run(stop.clone()));
        let stop = stop.clone();
        tasks.spawn(async move { images.run(stop).await });
    }

    fn status_updater(
        &self,
        runtime: watch::Receiver<RuntimeState>,
        images: &ImageGcManager,
        port: u16,
    ) -> NodeStatusUpdater {
        NodeStatusUpdater::new(NodeStatusDependencies {
            config: Arc::clone(&self.config),
            client: self.client.clone(),
            clock: self.clock.clone(),
            events: self.events.clone(),
            machine_reader: self.machine_reader.clone(),
            runtime,
            images: images.images(),
            pressures: self.pressures.subscribe(),
            shutdown_reason: self.shutdown_reason.subscribe(),
            port,
            facts: self.facts.clone(),
            uid: self.uid.clone(),
            networks: self.networks.clone(),
        })
    }

    fn lease_controller(&self) -> NodeLeaseController {
        let config = &self.config;
        NodeLeaseController::new(
            self.client.clone(),
            self.clock.clone(),
            &config.node_name,
            config.status_update_frequency,
            self.uid.subscribe(),
        )
    }
}
