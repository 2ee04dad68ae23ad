//! Looks for the node of a pod.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Nominator, preempt};
use crate::{
    cluster::Cluster,
    dice::Dice,
    object::Pod,
    plugins::{
        Decided, Plugins,
        calls::{Choice, Cycle, Shifts, Sums},
    },
    pool::Text,
    profile::Profile,
    status::{Code, Diagnosis, Rejection, Verdict},
};

/// Looks for nodes, and keeps what makes the next search cheaper.
#[derive(Debug)]
pub(crate) struct Engine {
    profiles: HashMap<Text, Profile>,
    sums: Sums,
    pub(super) next: usize,
    dice: Dice,
}

/// What a search found.
#[derive(Debug)]
pub(crate) enum Found {
    /// A node.
    Node(Placement),
    /// No node does.
    Unfit(Unfit),
    /// There are no nodes.
    NoNodes,
    /// The search itself went wrong.
    Failed(String),
}

/// Where a pod goes.
#[derive(Debug)]
pub(crate) struct Placement {
    /// The node.
    pub node: Text,
    /// What is to be done for its volumes.
    pub volumes: Decided,
}

/// Why no node does, and what can be done about it.
#[derive(Debug)]
pub(crate) struct Unfit {
    /// Why, in words.
    pub message: String,
    /// Who rejected nodes.
    pub plugins: Plugins,
    /// What is to be done about it.
    pub tried: preempt::Tried,
}

const NO_SHIFT: &Shifts = &Shifts::none();

impl Engine {
    /// For some scheduler names; chance comes from a seed.
    pub(crate) fn new(profiles: Vec<Profile>, seed: u64) -> Self {
        Engine {
            profiles: profiles
                .into_iter()
                .map(|profile| (profile.name.clone(), profile))
                .collect(),
            sums: Sums::default(),
            next: 0,
            dice: Dice::new(seed),
        }
    }

    /// Whether pods of a scheduler name are placed here.
    pub(crate) fn serves(&self, scheduler: &str) -> bool {
        self.profiles.contains_key(scheduler)
    }

    /// Looks for the node of a pod.
    pub(crate) fn find(&mut self, pod: &Arc<Pod>, cluster: &Cluster, nominator: &Nominator) -> Found {
        let Some(profile) = self.profiles.get(&pod.spec.scheduler).cloned() else {
            return Found::Failed(format!(
                "profile not found for scheduler name \"{}\"",
                pod.spec.scheduler
            ));
        };
        if cluster.order().is_empty() {
            return Found::NoNodes;
        }
        let (cycle, choice) = Cycle::begin(&profile, pod, cluster, &mut self.sums);
        let found = self.search(&profile, &cycle, choice, nominator);
        cycle.end(&mut self.sums);
        found
    }

    fn search(
        &mut self,
        profile: &Profile,
        cycle: &Cycle<'_>,
        choice: Result<Choice, Rejection>,
        nominator: &Nominator,
    ) -> Found {
        let mut diagnosis = Diagnosis::default();
        let choice = match choice {
            Ok(choice) => choice,
            Err(rejection) if rejection.code == Code::Error => return failed(&rejection),
            Err(rejection) => {
                diagnosis.plugins.extend(rejection.plugin);
                diagnosis.early = Some(rejection.message());
                diagnosis.others = Some(rejection);
                return self.unfit(cycle, diagnosis, nominator);
            }
        };
        let nominated = cycle
            .pod
            .nominated
            .as_ref()
            .and_then(|name| cycle.cluster.slot(name));
        if let Some(slot) = nominated
            && passes(cycle, slot, nominator).is_ok()
        {
            return place(cycle, slot);
        }
        diagnosis.plugins = choice.plugins;
        let feasible = match self.feasible(profile, cycle, &choice, nominator, &mut diagnosis) {
            Ok(feasible) => feasible,
            Err(rejection) => return failed(&rejection),
        };
        match *feasible {
            [] => self.unfit(cycle, diagnosis, nominator),
            [slot] => place(cycle, slot),
            _ => {
                let scores = cycle.score(profile, &feasible, &mut self.sums);
                place(cycle, feasible[self.best(&scores)])
            }
        }
    }

    /// Nodes that do: enough of them, from where the last search ended.
    fn feasible(
        &mut self,
        profile: &Profile,
        cycle: &Cycle<'_>,
        choice: &Choice,
        nominator: &Nominator,
        diagnosis: &mut Diagnosis,
    ) -> Result<Vec<usize>, Rejection> {
        let all = cycle.cluster.order();
        let chosen: Vec<usize>;
        let nodes = if let Some(names) = &choice.names {
            chosen = names.iter().filter_map(|name| cycle.cluster.slot(name)).collect();
            let reason = format!("node(s) didn't satisfy plugin(s) {}", choice.plugins.names());
            diagnosis.others = Some(Rejection::many(Code::Unresolvable, None, [reason.into()]));
            &chosen
        } else {
            all
        };
        let enough = profile.enough(nodes.len());
        let mut feasible = Vec::with_capacity(enough);
        for at in 0..nodes.len() {
            let slot = nodes[(self.next + at) % nodes.len()];
            match passes(cycle, slot, nominator) {
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
    fn best(&mut self, scores: &[i64]) -> usize {
        let mut best = (0, i64::MIN);
        let mut equals = 0;
        for (at, score) in scores.iter().enumerate() {
            if *score > best.1 {
                best = (at, *score);
                equals = 1;
            } else if *score == best.1 {
                equals += 1;
                if self.dice.below(equals) == 0 {
                    best.0 = at;
                }
            }
        }
        best.0
    }

    fn unfit(&mut self, cycle: &Cycle<'_>, mut diagnosis: Diagnosis, nominator: &Nominator) -> Found {
        let (tried, message) = preempt::preempt(cycle, &diagnosis, nominator, &mut self.dice);
        diagnosis.preemption = message.map(|message| format!("preemption: {message}"));
        Found::Unfit(Unfit {
            message: diagnosis.message(cycle.cluster.order().len()),
            plugins: diagnosis.plugins,
            tried,
        })
    }
}

/// Whether a node does, also when the pods come that it was promised to.
pub(super) fn passes(cycle: &Cycle<'_>, slot: usize, nominator: &Nominator) -> Verdict {
    let info = cycle.cluster.info(slot);
    passes_with(cycle, slot, info, NO_SHIFT, nominator)
}

/// The same, with pods that come or go in thought.
pub(super) fn passes_with(
    cycle: &Cycle<'_>,
    slot: usize,
    info: &crate::cluster::NodeInfo,
    shifts: &Shifts,
    nominator: &Nominator,
) -> Verdict {
    let promised = nominator.on(&info.name).iter();
    let mut promised = promised
        .filter(|pod| pod.priority() >= cycle.pod.priority() && pod.uid != cycle.pod.uid)
        .peekable();
    if promised.peek().is_some() {
        let mut info = info.clone();
        let mut shifts = shifts.clone();
        for pod in promised {
            info.add(pod.clone());
            cycle.shift(&mut shifts, slot, pod, 1);
        }
        cycle.filter(slot, &info, &shifts)?;
    }
    cycle.filter(slot, info, shifts)
}

fn place(cycle: &Cycle<'_>, slot: usize) -> Found {
    match cycle.volumes(slot) {
        Ok(volumes) => Found::Node(Placement {
            node: cycle.cluster.info(slot).name.clone(),
            volumes,
        }),
        Err(rejection) => failed(&rejection),
    }
}

fn failed(rejection: &Rejection) -> Found {
    let message = rejection.message();
    Found::Failed(match rejection.plugin {
        Some(plugin) => format!("running \"{}\" filter plugin: {message}", plugin.name()),
        None => message,
    })
}
