//! The scheduling algorithm: filters and scores nodes for one pod.

use std::sync::Arc;

use super::Nominator;
use crate::{
    cache::SchedulerCache,
    interner::Text,
    object::Pod,
    plugins::{
        PluginSet, PodVolumes, PostFilterContext, PostFilterResult,
        framework::{Framework, Frameworks, PreFilterNodes, SchedulingCycle},
    },
    rng::Rng,
    status::{Diagnosis, Rejection, RejectionCode},
};

/// Finds nodes for pods.
#[derive(Debug)]
pub(crate) struct SchedulingAlgorithm {
    frameworks: Arc<Frameworks>,
    pub(super) next: usize,
    rng: Rng,
}

/// What a search found.
#[derive(Debug)]
pub(crate) enum ScheduleResult {
    /// A node.
    Node(Placement),
    /// No node does.
    FitError(FitError),
    /// There are no nodes.
    NoNodes,
    /// A plugin returned an error.
    Error(String),
}

/// The node that was selected for a pod.
#[derive(Debug)]
pub(crate) struct Placement {
    /// The node.
    pub node: Text,
    /// What is to be done for its volumes.
    pub volumes: PodVolumes,
}

/// Why no node does, and what can be done about it.
#[derive(Debug)]
pub(crate) struct FitError {
    /// Why, in words.
    pub message: String,
    /// Who rejected nodes.
    pub plugins: PluginSet,
    /// What is to be done about it.
    pub post_filter: PostFilterResult,
}

impl SchedulingAlgorithm {
    /// For the scheduler names of the frameworks; random choices depend on the seed only.
    pub(crate) fn new(frameworks: Arc<Frameworks>, seed: u64) -> Self {
        SchedulingAlgorithm {
            frameworks,
            next: 0,
            rng: Rng::new(seed),
        }
    }

    /// Whether pods of a scheduler name are placed here.
    pub(crate) fn serves(&self, scheduler: &str) -> bool {
        self.frameworks.get(scheduler).is_some()
    }

    /// Looks for the node of a pod.
    // upstream: pkg/scheduler/schedule_one.go schedulePod
    pub(crate) fn schedule_pod(
        &mut self,
        pod: &Arc<Pod>,
        cluster: &SchedulerCache,
        nominator: &Nominator,
    ) -> ScheduleResult {
        let frameworks = self.frameworks.clone();
        let Some(framework) = frameworks.get(&pod.spec.scheduler) else {
            return ScheduleResult::Error(format!(
                "profile not found for scheduler name \"{}\"",
                pod.spec.scheduler
            ));
        };
        if cluster.order().is_empty() {
            return ScheduleResult::NoNodes;
        }
        let (mut cycle, nodes) = SchedulingCycle::begin(framework, pod, cluster);
        let found = self.find_node(framework, &mut cycle, nodes, nominator);
        cycle.end();
        found
    }

    // upstream: pkg/scheduler/schedule_one.go findNodesThatFitPod, evaluateNominatedNode
    fn find_node(
        &mut self,
        framework: &Framework,
        cycle: &mut SchedulingCycle<'_>,
        nodes: Result<PreFilterNodes, Rejection>,
        nominator: &Nominator,
    ) -> ScheduleResult {
        let mut diagnosis = Diagnosis::default();
        let pre_filter_nodes = match nodes {
            Ok(nodes) => nodes,
            Err(rejection) if rejection.code == RejectionCode::Error => return self.failed(&rejection),
            Err(rejection) => {
                diagnosis.plugins.extend(rejection.plugin);
                diagnosis.pre_filter_message = Some(rejection.message());
                diagnosis.absent_nodes_status = Some(rejection);
                return self.run_post_filter_plugins(framework, cycle, diagnosis, nominator);
            }
        };
        let context = cycle.context;
        let nominated_node_name = context.pod.nominated_node_name.as_ref();
        if let Some(slot) = nominated_node_name.and_then(|name| context.cluster.slot(name)) {
            let info = context.cluster.info(slot);
            let result = cycle.run_filter_plugins_with_nominated_pods(slot, info, nominator);
            if result.is_ok() {
                return self.assign(cycle, slot);
            }
        }
        diagnosis.plugins = pre_filter_nodes.plugins;
        let feasible =
            self.find_nodes_that_pass_filters(framework, cycle, &pre_filter_nodes, nominator, &mut diagnosis);
        let feasible = match feasible {
            Ok(feasible) => feasible,
            Err(rejection) => return self.failed(&rejection),
        };
        match *feasible {
            [] => self.run_post_filter_plugins(framework, cycle, diagnosis, nominator),
            [slot] => self.assign(cycle, slot),
            _ => {
                let scores = cycle.run_score_plugins(&feasible);
                let host = feasible[self.select_host(&scores)];
                self.assign(cycle, host)
            }
        }
    }

    /// Nodes that do: enough of them, from where the last search ended.
    // upstream: pkg/scheduler/schedule_one.go findNodesThatPassFilters
    fn find_nodes_that_pass_filters(
        &mut self,
        framework: &Framework,
        cycle: &SchedulingCycle<'_>,
        pre_filter_nodes: &PreFilterNodes,
        nominator: &Nominator,
        diagnosis: &mut Diagnosis,
    ) -> Result<Vec<usize>, Rejection> {
        let cluster = cycle.context.cluster;
        let all = cluster.order();
        let chosen: Vec<usize>;
        let nodes = if let Some(names) = &pre_filter_nodes.names {
            chosen = names.iter().filter_map(|name| cluster.slot(name)).collect();
            let plugins = framework.names(pre_filter_nodes.plugins);
            let reason = format!("node(s) didn't satisfy plugin(s) {plugins}");
            diagnosis.absent_nodes_status = Some(Rejection::many(
                RejectionCode::UnschedulableAndUnresolvable,
                [reason.into()],
            ));
            &chosen
        } else {
            all
        };
        let enough = framework.profile.num_feasible_nodes_to_find(nodes.len());
        let mut feasible = Vec::with_capacity(enough);
        for at in 0..nodes.len() {
            let slot = nodes[(self.next + at) % nodes.len()];
            let info = cluster.info(slot);
            match cycle.run_filter_plugins_with_nominated_pods(slot, info, nominator) {
                Ok(()) => feasible.push(slot),
                Err(rejection) if rejection.code == RejectionCode::Error => return Err(rejection),
                Err(rejection) => diagnosis.add(slot, rejection),
            }
            if feasible.len() == enough {
                break;
            }
        }
        self.next = (self.next + feasible.len() + diagnosis.nodes.len()) % all.len();
        Ok(feasible)
    }

    /// Picks one of the nodes with the highest score by reservoir sampling (upstream's `selectHost`).
    fn select_host(&mut self, scores: &[i64]) -> usize {
        let mut best = (0, i64::MIN);
        let mut equals = 0;
        for (at, score) in scores.iter().enumerate() {
            if *score > best.1 {
                best = (at, *score);
                equals = 1;
            } else if *score == best.1 {
                equals += 1;
                if self.rng.below(equals) == 0 {
                    best.0 = at;
                }
            }
        }
        best.0
    }

    fn run_post_filter_plugins(
        &mut self,
        framework: &Framework,
        cycle: &SchedulingCycle<'_>,
        mut diagnosis: Diagnosis,
        nominator: &Nominator,
    ) -> ScheduleResult {
        let mut context = PostFilterContext {
            cycle,
            diagnosis: &diagnosis,
            nominator,
            rng: &mut self.rng,
        };
        let (post_filter, message) = framework.run_post_filter_plugins(&mut context);
        diagnosis.post_filter_message = message;
        ScheduleResult::FitError(FitError {
            message: diagnosis.message(cycle.context.cluster.order().len()),
            plugins: diagnosis.plugins,
            post_filter,
        })
    }

    fn assign(&self, cycle: &SchedulingCycle<'_>, slot: usize) -> ScheduleResult {
        match cycle.run_reserve_plugins(slot) {
            Ok(volumes) => ScheduleResult::Node(Placement {
                node: cycle.context.cluster.info(slot).name.clone(),
                volumes,
            }),
            Err(rejection) => self.failed(&rejection),
        }
    }

    fn failed(&self, rejection: &Rejection) -> ScheduleResult {
        let message = rejection.message();
        ScheduleResult::Error(match rejection.plugin {
            Some(plugin) => {
                let plugin = self.frameworks.name(plugin);
                format!("running \"{plugin}\" filter plugin: {message}")
            }
            None => message,
        })
    }
}
