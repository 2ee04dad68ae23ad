//! The controllers and the scheduler: beside the server, or in a process of their own.

mod bootstrap_objects;
mod status;

use std::{fmt, sync::Arc};

use k3_apiserver::Server;
use k3_controllers::{CONTROLLERS, Cluster, ControllerContext, ControllerDescriptor, writer::ApiWriter};
use k3_scheduler::Scheduler;
use k3_simulator::{Rules, Simulator};
use kubecontroller::{
    events::EventApi,
    manager::{Config, ControllerSelection, Manager, ManagerError, Stop, task},
    metrics,
};

use crate::{client_factory::ClientFactory, failure::Failure};

/// Where the server tells what runs beside it.
pub(crate) const CONTROLLERS_PATH: &str = "/debug/controllers";
/// The lease that the leader among several servers holds.
pub(crate) const LEASE_PATH: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
/// The namespace of leases, and their names: that of the controllers, and that of a scheduler that runs without them.
const LEASES: (&str, &str, &str) = ("kube-system", "kube-controller-manager", "kube-scheduler");

/// Who reads for all controllers. What each writes, it writes itself.
const MANAGER: &str = "system:kube-controller-manager";
const AGENT: &str = concat!("kube-controller-manager/", env!("CARGO_PKG_VERSION"));
const SCHEDULER: &str = "system:kube-scheduler";
const SCHEDULER_AGENT: &str = concat!("kube-scheduler/", env!("CARGO_PKG_VERSION"));
/// The controller that makes volumes out of directories of nodes.
const LOCAL_PATH: &str = "local-path-provisioner";
/// The controller that approves what nodes serve with.
const SERVING_APPROVER: &str = "kubelet-serving-approver";
const APPROVER: &str = "certificatesigningrequest-approving-controller";
const CLEANER: &str = "certificatesigningrequest-cleaner-controller";
const SIMULATOR: &str = "system:k3-simulator";
const SIMULATOR_AGENT: &str = concat!("k3-simulator/", env!("CARGO_PKG_VERSION"));
/// The names of the scheduler in a list of controllers.
const SCHEDULER_NAMES: [&str; 2] = ["scheduler", k3_scheduler::NAME];

/// The names of work queues, which logs and metrics show, where they are not the name of their controller.
const QUEUE_NAMES: &[(&str, &str)] = &[
    ("bootstrap_signer_queue", "bootstrap-signer-controller"),
    (
        "ca_cert_publisher_cluster_trust_bundles",
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    ),
    (
        "certificate_approving",
        "certificatesigningrequest-approving-controller",
    ),
    (
        "certificate_cleaning",
        "certificatesigningrequest-cleaner-controller",
    ),
    (
        "certificate_signing",
        "certificatesigningrequest-signing-controller",
    ),
    ("cidrallocator_node", "node-ipam-controller"),
    ("claims", "persistentvolume-binder-controller"),
    ("endpoint_slice", "endpointslice-controller"),
    ("endpoint_slice_mirroring", "endpointslice-mirroring-controller"),
    ("horizontalpodautoscaler", "horizontal-pod-autoscaler-controller"),
    ("ipaddresses", "service-cidr-controller"),
    ("job_orphan_pod", "job-controller"),
    ("kubelet_serving_approving", "kubelet-serving-approver"),
    ("local_path_claims", "local-path-provisioner"),
    ("local_path_volumes", "local-path-provisioner"),
    ("node_lifecycle_controller", "node-lifecycle-controller"),
    ("node_lifecycle_controller_pods", "node-lifecycle-controller"),
    ("pvcprotection", "persistentvolumeclaim-protection-controller"),
    ("pvprotection", "persistentvolume-protection-controller"),
    ("resourcequota_primary", "resourcequota-controller"),
    (
        "root-ca-certificate-publisher",
        "root-ca-certificate-publisher-controller",
    ),
    ("serviceaccount_tokens_secret", "serviceaccount-token-controller"),
    ("serviceaccount_tokens_service", "serviceaccount-token-controller"),
    ("stale_pod_disruption", "disruption-controller"),
    ("taint_eviction_controller", "taint-eviction-controller"),
    ("token_cleaner", "token-cleaner-controller"),
    ("ttl_jobs_to_delete", "ttl-after-finished-controller"),
    ("ttlcontroller", "ttl-controller"),
    ("vacprotection", "volumeattributesclass-protection-controller"),
    (
        "validatingadmissionpolicy-status",
        "validatingadmissionpolicy-status-controller",
    ),
    ("volume_expand", "persistentvolume-expander-controller"),
    ("volumes", "persistentvolume-binder-controller"),
];

/// What runs beside the API server.
#[derive(Default)]
pub(crate) struct ComponentSelection {
    controllers: Vec<&'static ControllerDescriptor>,
    scheduler: bool,
    /// How many nodes are simulated, and how they behave.
    simulated: Option<(u32, Rules)>,
}

/// A word of a list, with the name of a work queue replaced by that of its controller.
fn normalize_name(word: &str) -> String {
    let (sign, name) = match word.strip_prefix('-') {
        Some(name) => ("-", name),
        None => ("", word),
    };
    let known = QUEUE_NAMES.iter().find(|(queue, _)| *queue == name);
    format!("{sign}{}", known.map_or(name, |(_, controller)| controller))
}

/// The controllers that a list names, as `--controllers` has it.
pub(crate) fn parse_controllers(list: &str) -> Result<ComponentSelection, Failure> {
    let words: Vec<String> = list
        .split(',')
        .map(|word| normalize_name(word.trim()))
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() {
        return Ok(ComponentSelection::default());
    }
    let wrong = |why: String| {
        let known: Vec<_> = CONTROLLERS.iter().map(|known| known.name).collect();
        Failure::usage(
            format!("--controllers {list}: {why}"),
            format!(
                "'*' is all, -NAME leaves one out; there are scheduler, {}",
                known.join(", ")
            ),
        )
    };
    let names =
        |known: &ControllerDescriptor, word: &str| word == "*" || known.name == word || known.alias == word;
    for word in &words {
        let word = word.strip_prefix('-').unwrap_or(word);
        let is_known = SCHEDULER_NAMES.contains(&word) || CONTROLLERS.iter().any(|known| names(known, word));
        if !is_known {
            return Err(wrong(format!("there is no controller {word}")));
        }
    }
    let selection = ControllerSelection::parse(&words).map_err(wrong)?;
    // Some run only where they are asked for by name.
    let is_meant = |known: &ControllerDescriptor| {
        known.is_on || words.iter().any(|word| word != "*" && names(known, word))
    };
    let controllers = CONTROLLERS
        .iter()
        .filter(|known| selection.has(known.name, known.alias) && is_meant(known));
    let [name, alias] = SCHEDULER_NAMES;
    Ok(ComponentSelection {
        controllers: controllers.collect(),
        scheduler: selection.has(name, alias),
        simulated: None,
    })
}

/// What runs, and where it finds what.
pub(crate) struct ControllerManager {
    manager: Manager,
}

impl ControllerManager {
    /// Prepares what was components. Where several processes could do it, one of them is elected.
    pub(crate) fn new(
        clients: &ClientFactory<'_>,
        components: ComponentSelection,
        cluster: Cluster,
        mut config: Config,
    ) -> Result<Self, Failure> {
        let (namespace, controllers, scheduler) = LEASES;
        let lease = if components.controllers.is_empty() && components.scheduler {
            scheduler
        } else {
            controllers
        };
        config.leader.namespace = Some(namespace.to_owned());
        config.leader.name = Some(lease.to_owned());
        let mut manager = Manager::new(config, clients.component(MANAGER, AGENT)?);
        let mut missing = Vec::new();
        if cluster.local_volumes.is_some() && components.has(LOCAL_PATH) {
            missing.push(bootstrap_objects::local_path_class());
        }
        if components.has(SERVING_APPROVER) {
            missing.extend(bootstrap_objects::approver_roles());
        }
        if components.has(APPROVER) || components.has(CLEANER) {
            missing.extend(bootstrap_objects::join_roles());
        }
        if !missing.is_empty() {
            let (client, missing) = (clients.master(MANAGER, AGENT)?, Arc::new(missing));
            manager.add(task("controller-bootstrap", move |_| {
                let (client, missing) = (client.clone(), Arc::clone(&missing));
                async move { bootstrap_objects::create_missing(&client, &missing).await }
            }));
        }
        let cluster = Arc::new(cluster);
        for descriptor in components.controllers {
            let context = ControllerContext {
                writer: ApiWriter::new(clients.controller(descriptor.account)?),
                informers: manager.informers().clone(),
                recorder: manager.recorder(descriptor.name).style(EventApi::Core),
                clock: manager.clock().clone(),
                metrics: manager.metrics().clone(),
                cluster: Arc::clone(&cluster),
            };
            for task in (descriptor.make)(&context) {
                manager.add(task);
            }
        }
        if components.scheduler {
            let scheduler = Scheduler::new(
                clients.component(SCHEDULER, SCHEDULER_AGENT)?,
                manager.informers().clone(),
                manager.clock().clone(),
                |name| manager.recorder(name),
            );
            manager.add(scheduler.metrics(manager.metrics()));
        }
        if let Some((count, rules)) = components.simulated {
            let simulator = Simulator::new(
                clients.master(SIMULATOR, SIMULATOR_AGENT)?,
                manager.informers().clone(),
                manager.clock().clone(),
                count,
                rules,
            );
            manager.add(simulator.metrics(manager.metrics()));
        }
        Ok(ControllerManager { manager })
    }

    /// Lets a server tell what runs beside it.
    pub(crate) fn publish_status(&self, server: &Server) {
        let context = (*self.manager).clone();
        server.add_metrics(move || metrics::encode_text(&context.registry()));
        let context = (*self.manager).clone();
        server.add_document(CONTROLLERS_PATH, move || status::controllers_status(&context));
    }

    /// Runs until it is told to stop, or something goes wrong that no restart of a part mends.
    pub(crate) async fn run(self, stop: Stop) -> Result<(), ManagerError> {
        self.manager.run(stop).await
    }
}

// --- ComponentSelection ---

impl ComponentSelection {
    /// Whether a controller runs.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.controllers.iter().any(|components| components.name == name)
    }

    /// Whether nodes run in this process that are not real.
    pub(crate) fn simulates(&self) -> bool {
        self.simulated.is_some()
    }

    /// With nodes that only pretend.
    #[must_use]
    pub(crate) fn with_simulated(mut self, nodes: u32, rules: Rules) -> Self {
        self.simulated = (nodes > 0).then_some((nodes, rules));
        self
    }

    /// Whether nothing is to run.
    pub(crate) fn is_empty(&self) -> bool {
        self.controllers.is_empty() && !self.scheduler && self.simulated.is_none()
    }
}

impl fmt::Display for ComponentSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let controllers = match self.controllers.len() {
            0 => None,
            1 => Some("1 controller".to_owned()),
            count => Some(format!("{count} controllers")),
        };
        let scheduler = self.scheduler.then(|| "the scheduler".to_owned());
        let simulated = self.simulated.as_ref();
        let simulated = simulated.map(|(count, _)| format!("{count} simulated nodes"));
        let parts: Vec<_> = [controllers, scheduler, simulated]
            .into_iter()
            .flatten()
            .collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        let components = parse_controllers(list).unwrap();
        components
            .controllers
            .iter()
            .map(|components| components.name)
            .collect()
    }

    #[test]
    fn a_list_names_controllers_by_either_name_or_leaves_them_out() {
        let usual = CONTROLLERS.iter().filter(|known| known.is_on).count();
        assert_eq!(names("*").len(), usual);
        assert_eq!(names("*,tokencleaner").len(), usual + 1);
        assert_eq!(names(""), [""; 0]);
        assert_eq!(
            names("namespace, deployment-controller"),
            ["deployment-controller", "namespace-controller"]
        );
        assert_eq!(names("*,-namespace").len(), usual - 1);
    }

    #[test]
    fn the_scheduler_is_one_of_them() {
        for (list, runs) in [
            ("*", true),
            ("", false),
            ("*,-scheduler", false),
            ("kube-scheduler", true),
            ("job", false),
        ] {
            assert_eq!(parse_controllers(list).unwrap().scheduler, runs, "{list}");
        }
    }

    #[test]
    fn names_of_work_queues_as_logs_show_them_are_taken() {
        for (queue, controller) in QUEUE_NAMES {
            assert_eq!(names(queue), [*controller], "{queue}");
        }
        assert_eq!(names("*,-volumes,-claims").len(), names("*").len() - 1);
    }

    #[test]
    fn a_name_that_is_nobodys_is_an_error() {
        for list in ["no-such", "*,-no-such", "job,-job"] {
            assert!(parse_controllers(list).is_err(), "{list}");
        }
    }
}
