//! The controllers and the scheduler, in this process.

use std::sync::Arc;

use k3_apiserver::Server;
use k3_controllers::{CONTROLLERS, Cluster, Context, Descriptor, writer::Writer};
use k3_scheduler::Scheduler;
use k3_simulator::{Rules, Simulator};
use k8s_openapi::{api::storage::v1::StorageClass, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::api::PostParams;
use kubecontroller::{
    events::Style,
    manager::{BoxError, Config, Manager, Selection, Stop, task},
    metrics,
};

use super::{flags::PartFlags, report};
use crate::{failure::Failure, inside};

/// Where the server tells what runs beside it.
pub(crate) const CONTROLLERS_PATH: &str = "/debug/controllers";
/// The lease that the leader among several servers holds.
pub(crate) const LEASE_PATH: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");

/// Who reads for all controllers. What each writes, it writes itself.
const MANAGER: &str = "system:kube-controller-manager";
const AGENT: &str = concat!("kube-controller-manager/", env!("CARGO_PKG_VERSION"));
const SCHEDULER: &str = "system:kube-scheduler";
const SCHEDULER_AGENT: &str = concat!("kube-scheduler/", env!("CARGO_PKG_VERSION"));
/// The controller that makes volumes out of folders of nodes.
const LOCAL_PATH: &str = "local-path-provisioner";
/// Says that a class is that of claims that name none.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const SIMULATOR: &str = "system:k3-simulator";
const SIMULATOR_AGENT: &str = concat!("k3-simulator/", env!("CARGO_PKG_VERSION"));
/// The names of the scheduler in a list of controllers.
const SCHEDULER_NAMES: [&str; 2] = ["scheduler", k3_scheduler::NAME];

/// What runs beside the API server.
#[derive(Default)]
pub(super) struct Chosen {
    controllers: Vec<&'static Descriptor>,
    scheduler: bool,
    /// How many nodes are simulated, and how they behave.
    simulated: Option<(u32, Rules)>,
}

/// What the flags ask for.
pub(super) fn chosen(flags: &PartFlags) -> Result<Chosen, Failure> {
    let rules = match &flags.simulation_rules {
        None => Rules::default(),
        Some(file) => Rules::load(file).map_err(|error| {
            let what = format!("--simulation-rules {}", file.display());
            Failure::usage(what, "docs/simulation.md tells what can be said there").because(error)
        })?,
    };
    Ok(Chosen {
        simulated: (flags.simulated_nodes > 0).then_some((flags.simulated_nodes, rules)),
        ..listed(&flags.controllers)?
    })
}

/// The controllers that a list names, as `--controllers` has it.
fn listed(list: &str) -> Result<Chosen, Failure> {
    let words: Vec<String> = list
        .split(',')
        .map(|word| word.trim().to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() {
        return Ok(Chosen::default());
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
    let names = |known: &Descriptor, word: &str| word == "*" || known.name == word || known.alias == word;
    for word in &words {
        let word = word.strip_prefix('-').unwrap_or(word);
        let is_known = SCHEDULER_NAMES.contains(&word) || CONTROLLERS.iter().any(|known| names(known, word));
        if !is_known {
            return Err(wrong(format!("there is no controller {word}")));
        }
    }
    let selection = Selection::parse(&words).map_err(wrong)?;
    // Some run only where they are asked for by name.
    let is_meant =
        |known: &Descriptor| known.is_on || words.iter().any(|word| word != "*" && names(known, word));
    let controllers = CONTROLLERS
        .iter()
        .filter(|known| selection.has(known.name, known.alias) && is_meant(known));
    let [name, alias] = SCHEDULER_NAMES;
    Ok(Chosen {
        controllers: controllers.collect(),
        scheduler: selection.has(name, alias),
        simulated: None,
    })
}

/// Runs what was chosen until it is told to stop, and does not end before that. Where several servers share a store, one of
/// them is elected to do the work.
pub(super) async fn run(server: &Server, chosen: Chosen, cluster: Cluster, elect: bool, stop: Stop) {
    if chosen.is_nothing() {
        return stop.stopped().await;
    }
    let mut config = Config::default();
    config.leader.elect = elect;
    config.leader.namespace = Some(LEASE.0.to_owned());
    config.leader.name = Some(LEASE.1.to_owned());
    let mut manager = Manager::new(config, inside::component(server, MANAGER, AGENT));
    let context = (*manager).clone();
    server.add_figures(move || metrics::text(&context.registry()));
    let context = (*manager).clone();
    server.add_document(CONTROLLERS_PATH, move || report::of(&context));
    if cluster.local_volumes.is_some() && chosen.has(LOCAL_PATH) {
        let client = inside::master(server, MANAGER, AGENT);
        manager.add(task("local-path-class", move |_| make_class(client.clone())));
    }
    let cluster = Arc::new(cluster);
    for descriptor in chosen.controllers {
        let context = Context {
            writer: Writer::new(inside::controller(server, descriptor.account)),
            informers: manager.informers().clone(),
            recorder: manager.recorder(descriptor.name).style(Style::Core),
            clock: manager.clock().clone(),
            metrics: manager.metrics().clone(),
            cluster: Arc::clone(&cluster),
        };
        for task in (descriptor.make)(&context) {
            manager.add(task);
        }
    }
    if chosen.scheduler {
        let scheduler = Scheduler::new(
            inside::component(server, SCHEDULER, SCHEDULER_AGENT),
            manager.informers().clone(),
            manager.clock().clone(),
            |name| manager.recorder(name),
        );
        manager.add(scheduler);
    }
    if let Some((count, rules)) = chosen.simulated {
        let simulator = Simulator::new(
            inside::master(server, SIMULATOR, SIMULATOR_AGENT),
            manager.informers().clone(),
            manager.clock().clone(),
            count,
            rules,
        );
        manager.add(simulator.metrics(manager.metrics()));
    }
    if let Err(error) = manager.run(stop.clone()).await {
        tracing::error!(%error, "the controllers ended; the API server goes on without them");
    }
    stop.stopped().await;
}

/// Makes the class that claims get that name none, unless there is one of that name: an administrator may have changed it.
async fn make_class(client: kube::Client) -> Result<(), BoxError> {
    let class = StorageClass {
        metadata: ObjectMeta {
            name: Some("local-path".to_owned()),
            annotations: Some([(DEFAULT_CLASS.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        provisioner: "k3.io/local-path".to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
        ..StorageClass::default()
    };
    match kube::Api::all(client)
        .create(&PostParams::default(), &class)
        .await
    {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        made => Ok(made.map(|_| ())?),
    }
}

// --- Chosen ---

impl Chosen {
    fn has(&self, name: &str) -> bool {
        self.controllers.iter().any(|chosen| chosen.name == name)
    }

    /// Whether nodes run in this process that are not real.
    pub(super) fn simulates(&self) -> bool {
        self.simulated.is_some()
    }

    fn is_nothing(&self) -> bool {
        self.controllers.is_empty() && !self.scheduler && self.simulated.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        let chosen = listed(list).unwrap();
        chosen.controllers.iter().map(|chosen| chosen.name).collect()
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
            assert_eq!(listed(list).unwrap().scheduler, runs, "{list}");
        }
    }

    #[test]
    fn a_name_that_is_nobodys_is_an_error() {
        for list in ["no-such", "*,-no-such", "job,-job"] {
            assert!(listed(list).is_err(), "{list}");
        }
    }
}
