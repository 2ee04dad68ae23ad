//! The controller manager: controllers and scheduler, beside the API server or in a separate process.

mod bootstrap_objects;
mod role_reconciliation;
mod status;

use std::{fmt, sync::Arc};

use k3_apiserver::Server;
use k3_controllers::{
    CONTROLLERS, ClusterConfig, ControllerContext, ControllerDescriptor, STATUS_PATCH_ROLES,
};
use k3_scheduler::Scheduler;
use k3_simulator::{Rules, Simulator};
use kubecontroller::{
    events::EventApi,
    manager::{Config, ControllerSelection, Manager, ManagerError, Stop},
    writer::ApiWriter,
};

use self::bootstrap_objects::{Bootstrap, RequiredPermission};
use crate::{client_factory::ClientFactory, command_error::CommandError};

/// Path that reports the state of the controllers.
pub(crate) const CONTROLLERS_PATH: &str = "/debug/controllers";
/// The lease for leader election of the controllers.
pub(crate) const LEASE_PATH: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
/// The namespace of leases, and the lease of a scheduler in a separate process.
const LEASES: (&str, &str, &str) = ("kube-system", "kube-controller-manager", "kube-scheduler");

/// The user whose informers all controllers share. Each controller writes as its own service account.
const MANAGER: &str = "system:kube-controller-manager";
const AGENT: &str = concat!("kube-controller-manager/", env!("CARGO_PKG_VERSION"));
const SCHEDULER: &str = "system:kube-scheduler";
const SCHEDULER_AGENT: &str = concat!("kube-scheduler/", env!("CARGO_PKG_VERSION"));
/// The controller that provisions volumes from directories of nodes.
const LOCAL_PATH: &str = "local-path-provisioner";
/// The controller that approves serving certificates of nodes.
const SERVING_APPROVER: &str = "kubelet-serving-approver";
const APPROVER: &str = "certificatesigningrequest-approving-controller";
const CLEANER: &str = "certificatesigningrequest-cleaner-controller";
/// The service account of both.
const CERTIFICATE_ACCOUNT: &str = "certificate-controller";
const SIMULATOR: &str = "system:k3-simulator";
const SIMULATOR_AGENT: &str = concat!("k3-simulator/", env!("CARGO_PKG_VERSION"));
/// The names of the scheduler in a list of controllers.
const SCHEDULER_NAMES: [&str; 2] = ["scheduler", k3_scheduler::NAME];

/// Selected controllers, the scheduler and simulated nodes.
#[derive(Default)]
pub(crate) struct ComponentSelection {
    controllers: Vec<&'static ControllerDescriptor>,
    scheduler: bool,
    /// The number and the rules of simulated nodes.
    simulated: Option<(u32, Rules)>,
}

/// Parses the list of `--controllers`.
pub(crate) fn parse_controllers(list: &str) -> Result<ComponentSelection, CommandError> {
    let selectors: Vec<String> = list
        .split(',')
        .map(|word| word.trim().to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    if selectors.is_empty() {
        return Ok(ComponentSelection::default());
    }
    let wrong = |why: String| {
        let known: Vec<_> = CONTROLLERS.iter().map(|known| known.name).collect();
        CommandError::usage(
            format!("--controllers {list}: {why}"),
            format!(
                "'*' is all, -NAME excludes one; the names are scheduler, {}",
                known.join(", ")
            ),
        )
    };
    let names =
        |known: &ControllerDescriptor, word: &str| word == "*" || known.name == word || known.alias == word;
    for word in &selectors {
        let word = word.strip_prefix('-').unwrap_or(word);
        let is_known = SCHEDULER_NAMES.contains(&word) || CONTROLLERS.iter().any(|known| names(known, word));
        if !is_known {
            return Err(wrong(format!("unknown controller {word}")));
        }
    }
    let selection = ControllerSelection::parse(&selectors).map_err(|error| wrong(error.to_string()))?;
    // Some controllers are off by default, as upstream, and run only when they are named.
    let is_meant = |known: &ControllerDescriptor| {
        known.is_on || selectors.iter().any(|word| word != "*" && names(known, word))
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

/// The manager of all selected components.
pub(crate) struct ControllerManager {
    manager: Manager,
    /// Objects that must exist before controllers start.
    bootstrap: Bootstrap,
}

impl ControllerManager {
    /// Prepares the components. Among several processes with leader election, one is elected.
    pub(crate) fn new(
        clients: &ClientFactory<'_>,
        components: ComponentSelection,
        cluster: ClusterConfig,
        mut config: Config,
    ) -> Result<Self, CommandError> {
        let (namespace, controllers, scheduler) = LEASES;
        let lease = if components.controllers.is_empty() && components.scheduler {
            scheduler
        } else {
            controllers
        };
        config.leader.namespace = Some(namespace.to_owned());
        config.leader.name = Some(lease.to_owned());
        let mut manager = Manager::new(config, clients.component(MANAGER, AGENT)?);
        let bootstrap = bootstrap(clients, &components, &cluster)?;
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
        Ok(ControllerManager { manager, bootstrap })
    }

    /// Publishes metrics and state of the controllers on a server.
    pub(crate) fn publish_status(&self, server: &Server) {
        let context = (*self.manager).clone();
        server.add_metrics(move || context.metrics().text());
        let context = (*self.manager).clone();
        server.add_document(CONTROLLERS_PATH, move || status::controllers_status(&context));
    }

    /// Runs until `stop`, or until an error that restarting a controller cannot fix.
    pub(crate) async fn run(self, stop: Stop) -> Result<(), ManagerError> {
        if stop.unless_stopped(self.bootstrap.run()).await.is_none() {
            return Ok(());
        }
        self.manager.run(stop).await
    }
}

/// The dependencies of controllers.
fn bootstrap(
    clients: &ClientFactory<'_>,
    components: &ComponentSelection,
    cluster: &ClusterConfig,
) -> Result<Bootstrap, CommandError> {
    let mut bootstrap = Bootstrap::new(clients.master(MANAGER, AGENT)?);
    if cluster.local_volumes.is_some() && components.has(LOCAL_PATH) {
        bootstrap.add([bootstrap_objects::local_path_class()]);
    }
    // The informers of all controllers read as this user.
    bootstrap.require(
        clients.component(MANAGER, AGENT)?,
        RequiredPermission {
            group: "",
            resource: "pods",
            subresource: "",
            verb: "list",
            namespace: "",
            name: "",
        },
    );
    if !components.controllers.is_empty() {
        bootstrap.add(bootstrap_objects::controller_status_roles());
        bootstrap.delete(bootstrap_objects::obsolete_controller_status_roles());
    }
    for role in STATUS_PATCH_ROLES {
        let is_used = components
            .controllers
            .iter()
            .any(|known| known.account == role.account);
        for resource in role.resources.iter().filter(|_| is_used) {
            bootstrap.require(
                clients.controller(role.account)?,
                RequiredPermission {
                    group: role.group,
                    resource,
                    subresource: "status",
                    verb: "patch",
                    namespace: "",
                    name: "",
                },
            );
        }
    }
    if components.has(SERVING_APPROVER) {
        bootstrap.add(bootstrap_objects::approver_roles());
        bootstrap.require(
            clients.controller(SERVING_APPROVER)?,
            RequiredPermission {
                group: "certificates.k8s.io",
                resource: "signers",
                subresource: "",
                verb: "approve",
                namespace: "",
                name: "kubernetes.io/kubelet-serving",
            },
        );
    }
    if components.has(APPROVER) || components.has(CLEANER) {
        bootstrap.add(bootstrap_objects::join_roles());
        bootstrap.require(
            clients.controller(CERTIFICATE_ACCOUNT)?,
            RequiredPermission {
                group: "",
                resource: "secrets",
                subresource: "",
                verb: "get",
                namespace: "kube-system",
                name: "",
            },
        );
    }
    Ok(bootstrap)
}

// --- ComponentSelection ---

impl ComponentSelection {
    /// Whether a controller runs.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.controllers.iter().any(|components| components.name == name)
    }

    /// Whether nodes are simulated in this process.
    pub(crate) fn simulates(&self) -> bool {
        self.simulated.is_some()
    }

    /// Adds simulated nodes.
    #[must_use]
    pub(crate) fn with_simulated(mut self, nodes: u32, rules: Rules) -> Self {
        self.simulated = (nodes > 0).then_some((nodes, rules));
        self
    }

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
        let simulated = simulated.map(|(count, _)| match count {
            1 => "1 simulated node".to_owned(),
            _ => format!("{count} simulated nodes"),
        });
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
    fn selects_and_excludes_controllers_by_name_or_alias() {
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
    fn the_scheduler_is_selected_by_name() {
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
    fn rejects_unknown_names() {
        for list in ["no-such", "*,-no-such", "job,-job"] {
            assert!(parse_controllers(list).is_err(), "{list}");
        }
    }
}
