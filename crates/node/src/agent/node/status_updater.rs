//! Registers the Node and updates its status.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Node, NodeSpec, NodeStatus},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use kubecontroller::{Backoff, Clock, events::EventType, manager::Stop};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    address::default_address,
    capacity::{allocatable, capacity},
    conditions::NodePressures,
    events::NodeEventRecorder,
    status::{self, NodeObservation},
};
use crate::{
    NodeFacts,
    agent::{
        AgentConfig,
        machine::{MachineInfo, MachineReader, architecture},
        runtime_monitor::RuntimeState,
    },
    blocking::run_blocking,
    runtime::Image,
};

/// Attempts per update.
// upstream: pkg/kubelet/kubelet_node_status.go updateNodeStatus
const UPDATE_ATTEMPTS: usize = 5;
/// Back-off between attempts to register.
const REGISTRATION_BACKOFF: Backoff =
    Backoff::exponential(Duration::from_millis(100), Duration::from_secs(7));
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the registration waits for the detection of the runtime.
const RUNTIME_DETECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// Annotation: the attach/detach controller attaches volumes, not the kubelet.
const CONTROLLER_MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// Dependencies of [`NodeStatusUpdater`].
pub(in crate::agent) struct NodeStatusDependencies {
    pub(in crate::agent) config: Arc<AgentConfig>,
    pub(in crate::agent) client: Client,
    pub(in crate::agent) clock: Clock,
    pub(in crate::agent) events: NodeEventRecorder,
    pub(in crate::agent) machine_reader: MachineReader,
    pub(in crate::agent) runtime: watch::Receiver<RuntimeState>,
    pub(in crate::agent) images: watch::Receiver<Arc<Vec<Image>>>,
    pub(in crate::agent) pressures: watch::Receiver<NodePressures>,
    /// Set while the node shuts down: message of the Ready condition.
    pub(in crate::agent) shutdown_reason: watch::Receiver<Option<String>>,
    /// Actual port of the kubelet API.
    pub(in crate::agent) port: u16,
    /// Facts about the node for pods, published here.
    pub(in crate::agent) facts: watch::Sender<Arc<NodeFacts>>,
    /// UID of the Node, published here after registration.
    pub(in crate::agent) uid: watch::Sender<Option<String>>,
    /// `spec.podCIDRs` of the Node, published here.
    pub(in crate::agent) networks: watch::Sender<Vec<String>>,
}

/// Registers the Node and updates its status periodically.
pub(in crate::agent) struct NodeStatusUpdater {
    deps: NodeStatusDependencies,
    nodes: Api<Node>,
    /// Read before the first report.
    machine: MachineInfo,
    kubelet_version: String,
    /// When the status was last written.
    last_report: Option<Instant>,
    /// Limits the event `Rebooted` to one per agent process.
    reboot_reported: bool,
    is_unschedulable: bool,
}

impl NodeStatusUpdater {
    pub(in crate::agent) fn new(deps: NodeStatusDependencies) -> Self {
        NodeStatusUpdater {
            nodes: Api::all(deps.client.clone()),
            machine: MachineInfo::default(),
            deps,
            kubelet_version: String::new(),
            last_report: None,
            reboot_reported: false,
            is_unschedulable: false,
        }
    }

    /// Runs until `stop` is stopped.
    pub(in crate::agent) async fn run(mut self, stop: Stop) {
        stop.unless_stopped(Box::pin(self.register_and_update())).await;
    }

    async fn register_and_update(&mut self) {
        let reader = self.deps.machine_reader.clone();
        self.machine = run_blocking(move || reader.machine()).await;
        // Otherwise the first status would always report a missing runtime, and be replaced at once.
        let mut runtime = self.deps.runtime.clone();
        let _ = timeout(
            RUNTIME_DETECTION_TIMEOUT,
            runtime.wait_for(RuntimeState::is_known),
        )
        .await;
        self.deps
            .events
            .event(EventType::Normal, "Starting", "Starting kubelet.");
        self.register_with_api_server().await;
        loop {
            if let Err(error) = self.update_node_status().await {
                tracing::warn!(node = self.deps.config.node_name, %error, "failed to update node status");
            }
            self.wait_for_change().await;
        }
    }

    /// Waits for the next period, or for a change that is reported at once.
    async fn wait_for_change(&mut self) {
        let next = Instant::now() + self.deps.config.status_update_frequency;
        let deps = &mut self.deps;
        let change = async {
            tokio::select! {
                Ok(()) = deps.runtime.changed() => {}
                Ok(()) = deps.pressures.changed() => {}
                Ok(()) = deps.shutdown_reason.changed() => {}
                else => std::future::pending().await,
            }
        };
        let _ = timeout_at(next, change).await;
    }

    // upstream: pkg/kubelet/kubelet_node_status.go registerWithAPIServer
    async fn register_with_api_server(&mut self) {
        let mut delays = REGISTRATION_BACKOFF.delays();
        loop {
            match timeout(REQUEST_TIMEOUT, self.try_register_with_api_server()).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    tracing::warn!(node = self.deps.config.node_name, %error, "failed to register node; retrying");
                }
                Err(_) => tracing::warn!(
                    node = self.deps.config.node_name,
                    timeout = ?REQUEST_TIMEOUT,
                    "registering node timed out; retrying"
                ),
            }
            sleep(delays.next_delay()).await;
        }
    }

    // upstream: pkg/kubelet/kubelet_node_status.go tryRegisterWithAPIServer
    async fn try_register_with_api_server(&mut self) -> kube::Result<()> {
        self.kubelet_version = self.deps.client.apiserver_version().await?.git_version;
        let mut node = self.initial_node();
        let observation = self.observe().await;
        let changes = status::set_node_status(node.status.get_or_insert_default(), &observation, self.now());
        match self.nodes.create(&PostParams::default(), &node).await {
            Ok(created) => {
                self.publish_node(&created).await;
                for event in changes.condition_events {
                    self.deps.events.record_node_status_event(event);
                }
                self.last_report = Some(Instant::now());
                tracing::info!(node = self.deps.config.node_name, "registered node");
                return Ok(());
            }
            // An API server may forbid creating a Node that exists.
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 403 => {}
            Err(error) => return Err(error),
        }
        let existing = self.nodes.get(&self.deps.config.node_name).await?;
        self.update_existing_node(&existing).await
    }

    /// Updates the default labels and the attach annotation of an existing Node; everything else is kept.
    // upstream: pkg/kubelet/kubelet_node_status.go updateDefaultLabels, reconcileCMADAnnotationWithExistingNode
    async fn update_existing_node(&mut self, existing: &Node) -> kube::Result<()> {
        let label = |name: &str| {
            let labels = existing.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(name))
        };
        let changed: BTreeMap<_, _> = self
            .default_labels()
            .into_iter()
            .filter(|(name, value)| label(name) != Some(value))
            .collect();
        let annotations = existing.metadata.annotations.as_ref();
        let is_annotated =
            annotations.is_some_and(|annotations| annotations.contains_key(CONTROLLER_MANAGED_ATTACH));
        if changed.is_empty() && is_annotated {
            self.publish_node(existing).await;
            return Ok(());
        }
        let patch =
            json!({"metadata": {"labels": changed, "annotations": {CONTROLLER_MANAGED_ATTACH: "true"}}});
        let name = &self.deps.config.node_name;
        let patched = self
            .nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        self.publish_node(&patched).await;
        Ok(())
    }

    /// Labels that this agent owns: architecture, operating system and host name.
    fn default_labels(&self) -> BTreeMap<String, String> {
        let name = &self.deps.config.node_name;
        let labels = [
            ("beta.kubernetes.io/arch", architecture()),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", architecture()),
            ("kubernetes.io/hostname", name),
            ("kubernetes.io/os", "linux"),
        ];
        labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    // upstream: pkg/kubelet/kubelet_node_status.go initialNode
    fn initial_node(&self) -> Node {
        let config = &self.deps.config;
        let mut labels = self.default_labels();
        labels.extend(config.labels.clone());
        let taints = (!config.taints.is_empty()).then(|| config.taints.clone());
        Node {
            metadata: ObjectMeta {
                name: Some(config.node_name.clone()),
                labels: Some(labels),
                annotations: Some([(CONTROLLER_MANAGED_ATTACH.to_owned(), "true".to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                taints,
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus::default()),
        }
    }

    // upstream: pkg/kubelet/kubelet_node_status.go updateNodeStatus
    async fn update_node_status(&mut self) -> kube::Result<()> {
        let mut last = Ok(());
        for _ in 0..UPDATE_ATTEMPTS {
            last = match timeout(REQUEST_TIMEOUT, self.try_update_node_status()).await {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) => return Ok(()),
                Err(_) => Err(kube::Error::Service(
                    "the API server did not respond in time".into(),
                )),
            };
            if let Err(kube::Error::Api(status)) = &last
                && status.code == 404
            {
                // The Node was deleted while its agent runs: register it again, or its pods would be lost.
                self.deps.uid.send_replace(None);
                self.register_with_api_server().await;
            }
        }
        last
    }

    // upstream: pkg/kubelet/kubelet_node_status.go tryUpdateNodeStatus
    async fn try_update_node_status(&mut self) -> kube::Result<()> {
        let name = self.deps.config.node_name.clone();
        let node = self.nodes.get(&name).await?;
        self.publish_node(&node).await;
        let old = node.status.unwrap_or_default();
        let mut new = old.clone();
        let changes = status::set_node_status(&mut new, &self.observe().await, self.now());
        let is_due = self
            .last_report
            .is_none_or(|at| at.elapsed() >= self.deps.config.status_report_frequency);
        if !is_due && !status::node_status_has_changed(&old, &new) {
            return Ok(());
        }
        let patch = status::status_patch(&old, &new);
        let parameters = PatchParams::default();
        self.nodes
            .patch_status(&name, &parameters, &Patch::Strategic(&patch))
            .await?;
        self.last_report = Some(Instant::now());
        for event in changes.condition_events {
            self.deps.events.record_node_status_event(event);
        }
        if let Some(boot) = changes.new_boot_id.filter(|_| !self.reboot_reported) {
            self.reboot_reported = true;
            let message = format!("Node {name} has been rebooted, boot id: {boot}");
            self.deps.events.event(EventType::Warning, "Rebooted", message);
        }
        Ok(())
    }

    /// Publishes UID, pod CIDRs, labels and schedulability of the Node.
    async fn publish_node(&mut self, node: &Node) {
        let spec = node.spec.as_ref();
        let is_unschedulable = spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
        if let Some(uid) = &node.metadata.uid {
            self.deps.events.set_uid(uid);
            self.deps.uid.send_if_modified(|current| {
                let is_new = current.as_ref() != Some(uid);
                *current = Some(uid.clone());
                is_new
            });
        }
        if is_unschedulable != self.is_unschedulable {
            self.is_unschedulable = is_unschedulable;
            let reason = if is_unschedulable {
                "NodeNotSchedulable"
            } else {
                "NodeSchedulable"
            };
            self.deps.events.record_node_status_event(reason);
        }
        let networks = spec.and_then(|spec| spec.pod_cidrs.clone()).unwrap_or_default();
        self.deps.networks.send_if_modified(|current| {
            let is_new = *current != networks;
            *current = networks;
            is_new
        });
        self.publish_facts(node.metadata.labels.clone().unwrap_or_default())
            .await;
    }

    async fn publish_facts(&self, labels: BTreeMap<String, String>) {
        let config = Arc::clone(&self.deps.config);
        let reader = self.deps.machine_reader.clone();
        let new_facts = run_blocking(move || node_facts(&config, &reader, labels)).await;
        self.deps.facts.send_if_modified(|current| {
            let is_new = **current != new_facts;
            if is_new {
                *current = Arc::new(new_facts);
            }
            is_new
        });
    }

    async fn observe(&self) -> NodeObservation {
        let deps = &self.deps;
        let config = &deps.config;
        let reader = deps.machine_reader.clone();
        let node_config = Arc::clone(config);
        let read = move || {
            let disk = reader.fs_info(&node_config.data_dir);
            (disk.map(|disk| disk.capacity), node_addresses(&node_config))
        };
        let (disk, addresses) = run_blocking(read).await;
        let runtime = deps.runtime.borrow().clone();
        let shutdown_reason = deps.shutdown_reason.borrow().clone();
        NodeObservation {
            name: config.node_name.clone(),
            machine: self.machine.clone(),
            disk,
            max_pods: config.max_pods,
            thresholds: config.eviction.thresholds.clone(),
            addresses,
            port: deps.port,
            runtime: runtime.version.as_ref().map(ToString::to_string),
            kubelet_version: self.kubelet_version.clone(),
            images: deps.images.borrow().to_vec(),
            pressures: *deps.pressures.borrow(),
            problems: runtime.problems.into_iter().chain(shutdown_reason).collect(),
        }
    }

    fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }
}

/// Facts about the node for pods. Blocks on file I/O.
pub(in crate::agent) fn node_facts(
    config: &AgentConfig,
    machine_reader: &MachineReader,
    labels: BTreeMap<String, String>,
) -> NodeFacts {
    let disk = machine_reader.fs_info(&config.data_dir).map(|disk| disk.capacity);
    let machine = machine_reader.machine();
    let capacity = capacity(&machine, disk, config.max_pods);
    NodeFacts {
        node_name: config.node_name.clone(),
        allocatable: allocatable(&capacity, &config.eviction.thresholds),
        addresses: node_addresses(config),
        cluster_dns: config.cluster_dns.clone(),
        cluster_domain: config.cluster_domain.clone(),
        api_address: config.api_address.clone(),
        node_labels: labels,
        machine: machine_reader.host_facts(&machine, config),
    }
}

/// The configured addresses, else the default address. Blocks on file I/O.
pub(in crate::agent) fn node_addresses(config: &AgentConfig) -> Vec<IpAddr> {
    if config.addresses.is_empty() {
        vec![default_address()]
    } else {
        config.addresses.clone()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Event;
    use kubecontroller::{
        events::{EventApi, EventBroadcaster},
        manager::Runnable,
        testing::{FakeApi, eventually},
    };
    use tokio::task::JoinSet;

    use super::*;
    use crate::runtime::RuntimeVersion;

    /// A running status updater and its inputs.
    struct TestNode {
        api: FakeApi,
        runtime: watch::Sender<RuntimeState>,
        pressures: watch::Sender<NodePressures>,
        facts: watch::Receiver<Arc<NodeFacts>>,
        #[expect(clippy::type_complexity, reason = "keeps the channels open")]
        _others: (
            watch::Sender<Arc<Vec<Image>>>,
            watch::Sender<Option<String>>,
            tempfile::TempDir,
        ),
        _tasks: JoinSet<()>,
    }

    fn ready() -> RuntimeState {
        let version = RuntimeVersion {
            name: "docker".to_owned(),
            version: "20.10".to_owned(),
        };
        RuntimeState {
            version: Some(version),
            problems: Vec::new(),
        }
    }

    fn start_node(api: FakeApi, state: RuntimeState) -> TestNode {
        let directory = tempfile::tempdir().unwrap();
        let mut config = AgentConfig::new("N", directory.path());
        config.addresses = vec![[10, 0, 0, 1].into()];
        config.labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
        let begin = Instant::now();
        let clock = Clock::new(move || Timestamp::from_second(1_767_225_600).unwrap() + begin.elapsed());
        let events = EventBroadcaster::new(api.client()).clock(clock.clone());
        let recorder = events.recorder("kubelet").style(EventApi::Core).host("n");
        let (runtime, state_receiver) = watch::channel(state);
        let (images, image_receiver) = watch::channel(Arc::default());
        let (pressures, pressure_receiver) = watch::channel(NodePressures::default());
        let (shutdown_reason, shutdown_receiver) = watch::channel(None);
        let (facts, facts_receiver) = watch::channel(Arc::default());
        let updater = NodeStatusUpdater::new(NodeStatusDependencies {
            config: Arc::new(config),
            client: api.client_with_user_agent("node"),
            clock,
            events: NodeEventRecorder::new(recorder, "n"),
            machine_reader: MachineReader::new(),
            runtime: state_receiver,
            images: image_receiver,
            pressures: pressure_receiver,
            shutdown_reason: shutdown_receiver,
            port: 10250,
            facts,
            uid: watch::Sender::new(None),
            networks: watch::Sender::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(updater.run(Stop::new()));
        tasks.spawn(async move {
            events.run(Stop::new()).await.unwrap();
        });
        TestNode {
            api,
            runtime,
            pressures,
            facts: facts_receiver,
            _others: (images, shutdown_reason, directory),
            _tasks: tasks,
        }
    }

    impl TestNode {
        fn node(&self) -> Option<Node> {
            self.api.get("", "n")
        }

        fn condition(&self, kind: &str) -> Option<(String, String, String)> {
            let conditions = self.node()?.status?.conditions?;
            let found = conditions.into_iter().find(|condition| condition.type_ == kind)?;
            Some((found.status, found.reason?, found.message?))
        }

        fn writes(&self) -> usize {
            self.api
                .writes()
                .iter()
                .filter(|write| write.agent == "node")
                .count()
        }

        async fn has_events(&self, reasons: &[&str]) {
            eventually(async || {
                let events = self.api.list::<Event>();
                let recorded: Vec<_> = events
                    .iter()
                    .map(|event| event.reason.as_deref().unwrap_or_default())
                    .collect();
                if reasons.iter().all(|reason| recorded.contains(reason)) {
                    Ok(())
                } else {
                    Err(recorded.join(" "))
                }
            })
            .await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn registers_node_and_reports_conditions() {
        let no_runtime = RuntimeState {
            version: None,
            problems: vec!["no container runtime".to_owned()],
        };
        let test_node = start_node(FakeApi::new(), no_runtime);
        eventually(async || test_node.node().is_some()).await;
        let node = test_node.node().unwrap();
        let labels = node.metadata.labels.unwrap();
        assert_eq!(
            (labels["kubernetes.io/hostname"].as_str(), labels["disk"].as_str()),
            ("n", "ssd")
        );
        let status = node.status.unwrap();
        let addresses: Vec<_> = status
            .addresses
            .unwrap()
            .into_iter()
            .map(|address| (address.type_, address.address))
            .collect();
        assert_eq!(
            addresses,
            [
                ("InternalIP".to_owned(), "10.0.0.1".to_owned()),
                ("Hostname".to_owned(), "n".to_owned())
            ]
        );
        assert!(status.capacity.unwrap().contains_key("memory"));
        let not_ready = (
            "False".to_owned(),
            "KubeletNotReady".to_owned(),
            "no container runtime".to_owned(),
        );
        assert_eq!(test_node.condition("Ready"), Some(not_ready));
        assert!(test_node.facts.borrow().allocatable.contains_key("cpu"));

        test_node.runtime.send_replace(ready());
        eventually(async || {
            test_node
                .condition("Ready")
                .is_some_and(|(status, ..)| status == "True")
        })
        .await;
        let info = test_node.node().unwrap().status.unwrap().node_info.unwrap();
        assert_eq!(info.container_runtime_version, "docker://20.10");
        assert!(info.kubelet_version.starts_with('v'), "{}", info.kubelet_version);
        test_node.pressures.send_replace(NodePressures {
            disk: true,
            ..NodePressures::default()
        });
        eventually(async || {
            test_node
                .condition("DiskPressure")
                .is_some_and(|(status, ..)| status == "True")
        })
        .await;
        test_node
            .has_events(&[
                "Starting",
                "NodeHasSufficientMemory",
                "NodeReady",
                "NodeHasDiskPressure",
            ])
            .await;
        let event = test_node.api.list::<Event>().pop().unwrap();
        assert_eq!(event.source.unwrap().host.as_deref(), Some("n"));
        assert_eq!(event.involved_object.uid, node.metadata.uid);
    }

    #[tokio::test(start_paused = true)]
    async fn writes_unchanged_status_every_five_minutes() {
        let test_node = start_node(FakeApi::new(), ready());
        eventually(async || test_node.condition("Ready").is_some()).await;
        sleep(Duration::from_secs(100)).await;
        let before = test_node.writes();
        sleep(Duration::from_secs(150)).await;
        assert_eq!(test_node.writes(), before);
        sleep(Duration::from_mins(2)).await;
        assert_eq!(test_node.writes(), before + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_values_of_existing_node() {
        let api = FakeApi::new();
        let node = json!({"metadata": {"name": "n", "labels": {"mine": "yes", "kubernetes.io/os": "beos"},
                "annotations": {"note": "kept"}},
            "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}], "unschedulable": true},
            "status": {"conditions": [{"type": "Other", "status": "True"}], "nodeInfo": {"architecture": "", "bootID": "old",
                "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
                "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""}}});
        api.put::<Node>(&serde_json::from_value(node).unwrap());
        let test_node = start_node(api, ready());
        eventually(async || test_node.condition("Ready").is_some()).await;
        let node = test_node.node().unwrap();
        let labels = node.metadata.labels.unwrap();
        assert_eq!(
            (labels["mine"].as_str(), labels["kubernetes.io/os"].as_str()),
            ("yes", "linux")
        );
        assert!(
            !labels.contains_key("disk"),
            "configured labels apply to new Nodes only"
        );
        assert_eq!(node.metadata.annotations.unwrap()["note"], "kept");
        assert_eq!(node.spec.unwrap().taints.unwrap().len(), 1);
        assert_eq!(node.status.unwrap().conditions.unwrap().len(), 5);
        test_node.has_events(&["Rebooted", "NodeNotSchedulable"]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn registers_deleted_node_again() {
        let api = FakeApi::new();
        api.faults().fail_next(3, 503);
        let test_node = start_node(api, ready());
        eventually(async || test_node.condition("Ready").is_some()).await;
        test_node.api.remove::<Node>("", "n");
        eventually(async || test_node.condition("Ready").is_some()).await;
    }
}
