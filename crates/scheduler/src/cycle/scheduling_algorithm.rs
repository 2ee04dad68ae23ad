//! Looks for the node of a pod.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Nominator, preemption};
use crate::{
    cache::SchedulerCache,
    interner::Text,
    object::Pod,
    plugins::{
        PluginSet, PodVolumes,
        framework::{CycleState, PluginCaches, PodDeltas, PreFilterNodes},
    },
    profile::Profile,
    rng::Rng,
    status::{Code, Diagnosis, FilterResult, Rejection},
};

/// Looks for nodes, and keeps what makes the next search cheaper.
#[derive(Debug)]
pub(crate) struct SchedulingAlgorithm {
    profiles: HashMap<Text, Profile>,
    sums: PluginCaches,
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
    /// The search itself went wrong.
    Error(String),
}

/// Where a pod goes.
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
    pub post_filter: preemption::PostFilterResult,
}

const NO_DELTAS: &PodDeltas = &PodDeltas::none();

impl SchedulingAlgorithm {
    /// For some scheduler names; chance comes from a seed.
    pub(crate) fn new(profiles: Vec<Profile>, seed: u64) -> Self {
        SchedulingAlgorithm {
            profiles: profiles
                .into_iter()
                .map(|profile| (profile.name.clone(), profile))
                .collect(),
            sums: PluginCaches::default(),
            next: 0,
            rng: Rng::new(seed),
        }
    }

    /// Whether pods of a scheduler name are placed here.
    pub(crate) fn serves(&self, scheduler: &str) -> bool {
        self.profiles.contains_key(scheduler)
    }

    /// Looks for the node of a pod.
    // upstream: pkg/scheduler/schedule_one.go schedulePod
    pub(crate) fn schedule_pod(
        &mut self,
        pod: &Arc<Pod>,
        cluster: &SchedulerCache,
        nominator: &Nominator,
    ) -> ScheduleResult {
        let Some(profile) = self.profiles.get(&pod.spec.scheduler).cloned() else {
            return ScheduleResult::Error(format!(
                "profile not found for scheduler name \"{}\"",
                pod.spec.scheduler
            ));
        };
        if cluster.order().is_empty() {
            return ScheduleResult::NoNodes;
        }
        let (cycle, choice) = CycleState::begin(&profile, pod, cluster, &mut self.sums);
        let found = self.find_node(&profile, &cycle, choice, nominator);
        cycle.end(&mut self.sums);
        found
    }

    // upstream: pkg/scheduler/schedule_one.go findNodesThatFitPod, evaluateNominatedNode
    fn find_node(
        &mut self,
        profile: &Profile,
        cycle: &CycleState<'_>,
        choice: Result<PreFilterNodes, Rejection>,
        nominator: &Nominator,
    ) -> ScheduleResult {
        let mut diagnosis = Diagnosis::default();
        let choice = match choice {
            Ok(choice) => choice,
            Err(rejection) if rejection.code == Code::Error => return failed(&rejection),
            Err(rejection) => {
                diagnosis.plugins.extend(rejection.plugin);
                diagnosis.pre_filter_message = Some(rejection.message());
                diagnosis.absent_nodes_status = Some(rejection);
                return self.run_post_filter_plugins(cycle, diagnosis, nominator);
            }
        };
        let nominated_node_name = cycle
            .pod
            .nominated_node_name
            .as_ref()
            .and_then(|name| cycle.cluster.slot(name));
        if let Some(slot) = nominated_node_name
            && run_filters_with_nominated_pods(cycle, slot, nominator).is_ok()
        {
            return place(cycle, slot);
        }
        diagnosis.plugins = choice.plugins;
        let feasible =
            match self.find_nodes_that_pass_filters(profile, cycle, &choice, nominator, &mut diagnosis) {
                Ok(feasible) => feasible,
                Err(rejection) => return failed(&rejection),
            };
        match *feasible {
            [] => self.run_post_filter_plugins(cycle, diagnosis, nominator),
            [slot] => place(cycle, slot),
            _ => {
                let scores = cycle.score(profile, &feasible, &mut self.sums);
                place(cycle, feasible[self.select_host(&scores)])
            }
        }
    }

    /// Nodes that do: enough of them, from where the last search ended.
    // upstream: pkg/scheduler/schedule_one.go findNodesThatPassFilters
    fn find_nodes_that_pass_filters(
        &mut self,
        profile: &Profile,
        cycle: &CycleState<'_>,
        choice: &PreFilterNodes,
        nominator: &Nominator,
        diagnosis: &mut Diagnosis,
    ) -> Result<Vec<usize>, Rejection> {
        let all = cycle.cluster.order();
        let chosen: Vec<usize>;
        let nodes = if let Some(names) = &choice.names {
            chosen = names.iter().filter_map(|name| cycle.cluster.slot(name)).collect();
            let reason = format!("node(s) didn't satisfy plugin(s) {}", choice.plugins.names());
            diagnosis.absent_nodes_status = Some(Rejection::many(
                Code::UnschedulableAndUnresolvable,
                None,
                [reason.into()],
            ));
            &chosen
        } else {
            all
        };
        let enough = profile.num_feasible_nodes_to_find(nodes.len());
        let mut feasible = Vec::with_capacity(enough);
        for at in 0..nodes.len() {
            let slot = nodes[(self.next + at) % nodes.len()];
            match run_filters_with_nominated_pods(cycle, slot, nominator) {
                Ok(()) => feasible.push(slot),
                Err(rejection) if rejection.code == Code::Error => return Err(rejection),
                Err(rejection) => diagnosis.add(slot, rejection),
            }
            if feasible.len() == enough {
                break;
            }
        }
        self.next = (self.next + feasible.len() + diagnosis.nodes.len()) % all.len();
        Ok(feasible)
    }

    /// One of the best, each as likely as the others.
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

    // upstream: pkg/scheduler/framework/runtime/framework.go RunPostFilterPlugins
    fn run_post_filter_plugins(
        &mut self,
        cycle: &CycleState<'_>,
        mut diagnosis: Diagnosis,
        nominator: &Nominator,
    ) -> ScheduleResult {
        let (post_filter, message) = preemption::preempt(cycle, &diagnosis, nominator, &mut self.rng);
        diagnosis.post_filter_message = message.map(|message| format!("preemption: {message}"));
        ScheduleResult::FitError(FitError {
            message: diagnosis.message(cycle.cluster.order().len()),
            plugins: diagnosis.plugins,
            post_filter,
        })
    }
}

/// Whether a node does, also when the pods come that it was promised to.
pub(super) fn run_filters_with_nominated_pods(
    cycle: &CycleState<'_>,
    slot: usize,
    nominator: &Nominator,
) -> FilterResult {
    let info = cycle.cluster.info(slot);
    run_filters_with_nominated_pods_on(cycle, slot, info, NO_DELTAS, nominator)
}

/// The same, with pods that come or go in thought.
// upstream: pkg/scheduler/framework/runtime/framework.go RunFilterPluginsWithNominatedPods
pub(super) fn run_filters_with_nominated_pods_on(
    cycle: &CycleState<'_>,
    slot: usize,
    info: &crate::cache::NodeInfo,
    deltas: &PodDeltas,
    nominator: &Nominator,
) -> FilterResult {
    let promised = nominator.on(&info.name).iter();
    let mut promised = promised
        .filter(|pod| pod.priority() >= cycle.pod.priority() && pod.uid != cycle.pod.uid)
        .peekable();
    if promised.peek().is_some() {
        let mut info = info.clone();
        let mut deltas = deltas.clone();
        for pod in promised {
            info.add(pod.clone());
            cycle.delta(&mut deltas, slot, pod, 1);
        }
        cycle.filter(slot, &info, &deltas)?;
    }
    cycle.filter(slot, info, deltas)
}

fn place(cycle: &CycleState<'_>, slot: usize) -> ScheduleResult {
    match cycle.volumes(slot) {
        Ok(volumes) => ScheduleResult::Node(Placement {
            node: cycle.cluster.info(slot).name.clone(),
            volumes,
        }),
        Err(rejection) => failed(&rejection),
    }
}

fn failed(rejection: &Rejection) -> ScheduleResult {
    let message = rejection.message();
    ScheduleResult::Error(match rejection.plugin {
        Some(plugin) => format!("running \"{}\" filter plugin: {message}", plugin.name()),
        None => message,
    })
}
