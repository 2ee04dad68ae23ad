//! Registers the Node, and writes what it says of itself.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Node, NodeSpec, NodeStatus},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use kubecontroller::{Clock, events::EventType, manager::Stop};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    address::default_address,
    capacity::{allocatable, capacity},
    conditions::Pressures,
    events::NodeEvents,
    status::{self, Observed},
};
use crate::{
    Facts,
    agent::{
        Config,
        link::RuntimeState,
        machine::{Eyes, Machine, architecture},
    },
    runtime::Image,
};

/// How often a write is tried before it waits for the next turn.
const TRIES: usize = 5;
/// A request that takes longer is given up.
const LIMIT: Duration = Duration::from_secs(10);
/// How long the first report waits for the runtime, so that it need not be written twice.
const PATIENCE: Duration = Duration::from_secs(2);
/// Volumes are attached by a controller, if anybody attaches them.
const ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// What a keeper needs.
pub(in crate::agent) struct Parts {
    pub(in crate::agent) config: Arc<Config>,
    pub(in crate::agent) client: Client,
    pub(in crate::agent) clock: Clock,
    pub(in crate::agent) events: NodeEvents,
    pub(in crate::agent) eyes: Eyes,
    pub(in crate::agent) runtime: watch::Receiver<RuntimeState>,
    pub(in crate::agent) images: watch::Receiver<Arc<Vec<Image>>>,
    pub(in crate::agent) pressures: watch::Receiver<Pressures>,
    /// Why the node takes no more pods: it goes down.
    pub(in crate::agent) leaving: watch::Receiver<Option<String>>,
    /// The port that the node's own API really listens on.
    pub(in crate::agent) port: u16,
    /// What pods may learn of the node.
    pub(in crate::agent) facts: watch::Sender<Arc<Facts>>,
    /// The uid of the Node, once it is there.
    pub(in crate::agent) uid: watch::Sender<Option<String>>,
    /// The networks of this node's pods, as the Node has them.
    pub(in crate::agent) networks: watch::Sender<Vec<String>>,
}

/// Registers the Node, and writes what it says of itself.
pub(in crate::agent) struct NodeKeeper {
    parts: Parts,
    nodes: Api<Node>,
    machine: Machine,
    kubelet_version: String,
    /// When the status was last written.
    reported: Option<Instant>,
    /// A reboot is told once.
    told_reboot: bool,
    is_unschedulable: bool,
}

impl NodeKeeper {
    pub(in crate::agent) fn new(parts: Parts) -> Self {
        let machine = parts.eyes.machine();
        NodeKeeper {
            nodes: Api::all(parts.client.clone()),
            machine,
            parts,
            kubelet_version: String::new(),
            reported: None,
            told_reboot: false,
            is_unschedulable: false,
        }
    }

    /// Keeps the Node until it is told to stop.
    pub(in crate::agent) async fn run(mut self, stop: Stop) {
        stop.unless_stopped(self.keep()).await;
    }

    async fn keep(&mut self) {
        // Without it the first report would say that there is no runtime where there is one.
        let mut runtime = self.parts.runtime.clone();
        let _ = timeout(PATIENCE, runtime.wait_for(RuntimeState::is_known)).await;
        self.parts
            .events
            .tell(EventType::Normal, "Starting", "Starting kubelet.");
        self.register().await;
        loop {
            if let Err(error) = self.synchronize().await {
                tracing::warn!(node = self.parts.config.node_name, %error, "cannot write the status of the node");
            }
            self.wait().await;
        }
    }

    /// Waits for the next turn, or until there is something to be told at once.
    async fn wait(&mut self) {
        let next = Instant::now() + self.parts.config.heartbeat;
        let parts = &mut self.parts;
        let news = async {
            tokio::select! {
                Ok(()) = parts.runtime.changed() => {}
                Ok(()) = parts.pressures.changed() => {}
                Ok(()) = parts.leaving.changed() => {}
                else => std::future::pending().await,
            }
        };
        let _ = timeout_at(next, news).await;
    }

    async fn register(&mut self) {
        let mut wait = Duration::from_millis(100);
        loop {
            match timeout(LIMIT, self.try_to_register()).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    tracing::warn!(node = self.parts.config.node_name, %error, "cannot register the node; trying again");
                }
                Err(_) => tracing::warn!(
                    node = self.parts.config.node_name,
                    "registering the node takes too long"
                ),
            }
            sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(7));
        }
    }

    async fn try_to_register(&mut self) -> kube::Result<()> {
        self.kubelet_version = self.parts.client.apiserver_version().await?.git_version;
        let mut node = self.initial();
        let tidings = status::fill(node.status.get_or_insert_default(), &self.observe(), self.now());
        match self.nodes.create(&PostParams::default(), &node).await {
            Ok(made) => {
                self.learn(&made);
                for event in tidings.statuses {
                    self.parts.events.status(event);
                }
                self.reported = Some(Instant::now());
                tracing::info!(node = self.parts.config.node_name, "registered the node");
                return Ok(());
            }
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 403 => {}
            Err(error) => return Err(error),
        }
        let known = self.nodes.get(&self.parts.config.node_name).await?;
        self.adopt(&known).await
    }

    /// A Node that is there keeps what it has; only the labels that say what the machine is are set right.
    async fn adopt(&mut self, known: &Node) -> kube::Result<()> {
        let of = |name: &str| known.metadata.labels.as_ref().and_then(|labels| labels.get(name));
        let wrong: BTreeMap<_, _> = self
            .own_labels()
            .into_iter()
            .filter(|(name, value)| of(name) != Some(value))
            .collect();
        let annotations = known.metadata.annotations.as_ref();
        let is_annotated = annotations.is_some_and(|known| known.contains_key(ATTACH));
        if wrong.is_empty() && is_annotated {
            self.learn(known);
            return Ok(());
        }
        let patch = json!({"metadata": {"labels": wrong, "annotations": {ATTACH: "true"}}});
        let name = &self.parts.config.node_name;
        let patched = self
            .nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        self.learn(&patched);
        Ok(())
    }

    /// The labels that say what the machine is.
    fn own_labels(&self) -> BTreeMap<String, String> {
        let name = &self.parts.config.node_name;
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

    fn initial(&self) -> Node {
        let config = &self.parts.config;
        let mut labels = self.own_labels();
        labels.extend(config.labels.clone());
        let taints = (!config.taints.is_empty()).then(|| config.taints.clone());
        Node {
            metadata: ObjectMeta {
                name: Some(config.node_name.clone()),
                labels: Some(labels),
                annotations: Some([(ATTACH.to_owned(), "true".to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                taints,
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus::default()),
        }
    }

    /// Brings the status up to date.
    async fn synchronize(&mut self) -> kube::Result<()> {
        let mut last = Ok(());
        for _ in 0..TRIES {
            last = match timeout(LIMIT, self.try_to_synchronize()).await {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) => return Ok(()),
                Err(_) => Err(kube::Error::Service("the API takes too long to answer".into())),
            };
            if let Err(kube::Error::Api(status)) = &last
                && status.code == 404
            {
                // Somebody deleted it. The machine is still there, and its pods have nobody else.
                self.parts.uid.send_replace(None);
                self.register().await;
            }
        }
        last
    }

    async fn try_to_synchronize(&mut self) -> kube::Result<()> {
        let name = self.parts.config.node_name.clone();
        let node = self.nodes.get(&name).await?;
        self.learn(&node);
        let old = node.status.unwrap_or_default();
        let mut new = old.clone();
        let tidings = status::fill(&mut new, &self.observe(), self.now());
        let is_due = self
            .reported
            .is_none_or(|at| at.elapsed() >= self.parts.config.report);
        if !is_due && !status::has_changed(&old, &new) {
            return Ok(());
        }
        let patch = status::patch(&old, &new);
        let parameters = PatchParams::default();
        self.nodes
            .patch_status(&name, &parameters, &Patch::Strategic(&patch))
            .await?;
        self.reported = Some(Instant::now());
        for event in tidings.statuses {
            self.parts.events.status(event);
        }
        if let Some(boot) = tidings.rebooted.filter(|_| !self.told_reboot) {
            self.told_reboot = true;
            let message = format!("Node {name} has been rebooted, boot id: {boot}");
            self.parts.events.tell(EventType::Warning, "Rebooted", message);
        }
        Ok(())
    }

    /// What the Node says that others have to know.
    fn learn(&mut self, node: &Node) {
        let spec = node.spec.as_ref();
        let is_unschedulable = spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
        if let Some(uid) = &node.metadata.uid {
            self.parts.events.is(uid);
            self.parts.uid.send_if_modified(|known| {
                let is_new = known.as_ref() != Some(uid);
                *known = Some(uid.clone());
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
            self.parts.events.status(reason);
        }
        let networks = spec.and_then(|spec| spec.pod_cidrs.clone()).unwrap_or_default();
        self.parts.networks.send_if_modified(|known| {
            let is_new = *known != networks;
            *known = networks;
            is_new
        });
        self.tell_facts(node.metadata.labels.clone().unwrap_or_default());
    }

    fn tell_facts(&self, labels: BTreeMap<String, String>) {
        let facts = facts(&self.parts.config, &self.parts.eyes, labels);
        self.parts.facts.send_if_modified(|known| {
            let is_new = **known != facts;
            if is_new {
                *known = Arc::new(facts);
            }
            is_new
        });
    }

    fn observe(&self) -> Observed {
        let parts = &self.parts;
        let config = &parts.config;
        let runtime = parts.runtime.borrow().clone();
        let leaving = parts.leaving.borrow().clone();
        Observed {
            name: config.node_name.clone(),
            machine: self.machine.clone(),
            disk: parts.eyes.disk(&config.data_dir).map(|disk| disk.capacity),
            max_pods: config.max_pods,
            thresholds: config.eviction.hard.clone(),
            addresses: addresses(config),
            port: parts.port,
            runtime: runtime.version.as_ref().map(ToString::to_string),
            kubelet_version: self.kubelet_version.clone(),
            images: parts.images.borrow().to_vec(),
            pressures: *parts.pressures.borrow(),
            problems: runtime.problems.into_iter().chain(leaving).collect(),
        }
    }

    fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }
}

/// What pods may learn of the node.
pub(in crate::agent) fn facts(config: &Config, eyes: &Eyes, labels: BTreeMap<String, String>) -> Facts {
    let disk = eyes.disk(&config.data_dir).map(|disk| disk.capacity);
    let machine = eyes.machine();
    let capacity = capacity(&machine, disk, config.max_pods);
    Facts {
        node_name: config.node_name.clone(),
        allocatable: allocatable(&capacity, &config.eviction.hard),
        addresses: addresses(config),
        cluster_dns: config.cluster_dns.clone(),
        cluster_domain: config.cluster_domain.clone(),
        api_address: config.api_address.clone(),
        node_labels: labels,
        machine: eyes.facts(&machine, config),
    }
}

/// The addresses of the node.
pub(in crate::agent) fn addresses(config: &Config) -> Vec<IpAddr> {
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
    use crate::runtime::Version;

    /// A node that runs, with what it hears.
    struct Stage {
        api: FakeApi,
        runtime: watch::Sender<RuntimeState>,
        pressures: watch::Sender<Pressures>,
        facts: watch::Receiver<Arc<Facts>>,
        #[expect(clippy::type_complexity, reason = "nobody reads it: it is kept open")]
        _others: (
            watch::Sender<Arc<Vec<Image>>>,
            watch::Sender<Option<String>>,
            tempfile::TempDir,
        ),
        _tasks: JoinSet<()>,
    }

    fn ready() -> RuntimeState {
        let version = Version {
            name: "docker".to_owned(),
            version: "20.10".to_owned(),
        };
        RuntimeState {
            version: Some(version),
            problems: Vec::new(),
        }
    }

    fn stage(api: FakeApi, state: RuntimeState) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::new("N", folder.path());
        config.addresses = vec![[10, 0, 0, 1].into()];
        config.labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
        let begin = Instant::now();
        let clock = Clock::new(move || Timestamp::from_second(1_767_225_600).unwrap() + begin.elapsed());
        let events = EventBroadcaster::new(api.client()).clock(clock.clone());
        let recorder = events.recorder("kubelet").style(EventApi::Core).host("n");
        let (runtime, state) = watch::channel(state);
        let (images, known) = watch::channel(Arc::default());
        let (pressures, pressed) = watch::channel(Pressures::default());
        let (leaving, left) = watch::channel(None);
        let (facts, learned) = watch::channel(Arc::default());
        let keeper = NodeKeeper::new(Parts {
            config: Arc::new(config),
            client: api.client_with_user_agent("node"),
            clock,
            events: NodeEvents::new(recorder, "n"),
            eyes: Eyes::new(),
            runtime: state,
            images: known,
            pressures: pressed,
            leaving: left,
            port: 10250,
            facts,
            uid: watch::Sender::new(None),
            networks: watch::Sender::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper.run(Stop::new()));
        tasks.spawn(async move {
            events.run(Stop::new()).await.unwrap();
        });
        Stage {
            api,
            runtime,
            pressures,
            facts: learned,
            _others: (images, leaving, folder),
            _tasks: tasks,
        }
    }

    impl Stage {
        fn node(&self) -> Option<Node> {
            self.api.get("", "n")
        }

        fn condition(&self, kind: &str) -> Option<(String, String, String)> {
            let conditions = self.node()?.status?.conditions?;
            let found = conditions.into_iter().find(|known| known.type_ == kind)?;
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
                let told: Vec<_> = events
                    .iter()
                    .map(|event| event.reason.as_deref().unwrap_or_default())
                    .collect();
                if reasons.iter().all(|reason| told.contains(reason)) {
                    Ok(())
                } else {
                    Err(told.join(" "))
                }
            })
            .await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_registers_itself_and_says_how_it_is() {
        let none = RuntimeState {
            version: None,
            problems: vec!["no container runtime".to_owned()],
        };
        let stage = stage(FakeApi::new(), none);
        eventually(async || stage.node().is_some()).await;
        let node = stage.node().unwrap();
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
            .map(|known| (known.type_, known.address))
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
        assert_eq!(stage.condition("Ready"), Some(not_ready));
        assert!(stage.facts.borrow().allocatable.contains_key("cpu"));

        stage.runtime.send_replace(ready());
        eventually(async || {
            stage
                .condition("Ready")
                .is_some_and(|(status, ..)| status == "True")
        })
        .await;
        let info = stage.node().unwrap().status.unwrap().node_info.unwrap();
        assert_eq!(info.container_runtime_version, "docker://20.10");
        assert!(info.kubelet_version.starts_with('v'), "{}", info.kubelet_version);
        stage.pressures.send_replace(Pressures {
            disk: true,
            ..Pressures::default()
        });
        eventually(async || {
            stage
                .condition("DiskPressure")
                .is_some_and(|(status, ..)| status == "True")
        })
        .await;
        stage
            .has_events(&[
                "Starting",
                "NodeHasSufficientMemory",
                "NodeReady",
                "NodeHasDiskPressure",
            ])
            .await;
        let event = stage.api.list::<Event>().pop().unwrap();
        assert_eq!(event.source.unwrap().host.as_deref(), Some("n"));
        assert_eq!(event.involved_object.uid, node.metadata.uid);
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_did_not_change_is_written_every_five_minutes() {
        let stage = stage(FakeApi::new(), ready());
        eventually(async || stage.condition("Ready").is_some()).await;
        sleep(Duration::from_secs(100)).await;
        let before = stage.writes();
        sleep(Duration::from_secs(150)).await;
        assert_eq!(stage.writes(), before);
        sleep(Duration::from_mins(2)).await;
        assert_eq!(stage.writes(), before + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_there_keeps_what_others_gave_it() {
        let api = FakeApi::new();
        let node = json!({"metadata": {"name": "n", "labels": {"mine": "yes", "kubernetes.io/os": "beos"},
                "annotations": {"note": "kept"}},
            "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}], "unschedulable": true},
            "status": {"conditions": [{"type": "Other", "status": "True"}], "nodeInfo": {"architecture": "", "bootID": "old",
                "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
                "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""}}});
        api.put::<Node>(&serde_json::from_value(node).unwrap());
        let stage = stage(api, ready());
        eventually(async || stage.condition("Ready").is_some()).await;
        let node = stage.node().unwrap();
        let labels = node.metadata.labels.unwrap();
        assert_eq!(
            (labels["mine"].as_str(), labels["kubernetes.io/os"].as_str()),
            ("yes", "linux")
        );
        assert!(
            !labels.contains_key("disk"),
            "labels of the registration are for new nodes"
        );
        assert_eq!(node.metadata.annotations.unwrap()["note"], "kept");
        assert_eq!(node.spec.unwrap().taints.unwrap().len(), 1);
        assert_eq!(node.status.unwrap().conditions.unwrap().len(), 5);
        stage.has_events(&["Rebooted", "NodeNotSchedulable"]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_was_deleted_comes_back() {
        let api = FakeApi::new();
        api.faults().fail_next(3, 503);
        let stage = stage(api, ready());
        eventually(async || stage.condition("Ready").is_some()).await;
        stage.api.remove::<Node>("", "n");
        eventually(async || stage.condition("Ready").is_some()).await;
    }
}
