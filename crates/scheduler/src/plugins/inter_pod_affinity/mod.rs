//! Pods that want to be near others, or away from them.

mod filter;
mod fold;
#[cfg(test)]
mod tests;

pub(super) use filter::{Shift, Social, shift};
pub(super) use fold::{AffinityFold, AffinityKey};

use super::{calls::Early, score::MAX};
use crate::{
    cluster::Cluster,
    event::Event,
    fold::Folds,
    number::{real, whole},
    object::{Node, Pod, Term},
};

/// Sums up which pods are meant, and which mean this one. Nothing when nobody says anything.
pub(super) fn look(pod: &Pod, cluster: &Cluster, folds: &mut Folds<AffinityFold>) -> Option<Social> {
    let asked = pod.spec.social || cluster.any_social();
    asked.then(|| Social::new(pod, folds.take(AffinityKey::new(pod), cluster), cluster))
}

/// Whether anything is to be asked of nodes.
pub(super) fn pre_filter(pod: &Pod, social: Option<&Social>) -> Early {
    let own = !pod.spec.near.is_empty() || !pod.spec.away.is_empty();
    if own || social.is_some_and(Social::is_refused_somewhere) {
        Early::All
    } else {
        Early::Skip
    }
}

/// Stretches scores, which may be negative.
pub(super) fn normalize(scores: &mut [i64]) {
    let least = scores.iter().copied().min().unwrap_or(0);
    let most = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let share = if most > least {
            real(*score - least) / real(most - least)
        } else {
            0.0
        };
        *score = whole(real(MAX) * share);
    }
}

/// Whether something helps a pod that was rejected.
pub(super) fn helps(pod: &Pod, event: &Event<'_>, cluster: &Cluster) -> bool {
    let meant = |term: &Term, other: &Pod| {
        term.matches(
            &other.labels,
            &other.namespace,
            cluster.namespaces.get(&other.namespace),
        )
    };
    let near = |other: &Pod| !pod.spec.near.is_empty() && pod.spec.near.iter().all(|term| meant(term, other));
    let away = |other: &Pod| pod.spec.away.iter().any(|term| meant(term, other));
    match event {
        Event::PodCame(other) => near(other),
        Event::PodChanged { old, new } => {
            old.labels != new.labels && ((!near(old) && near(new)) || (away(old) && !away(new)))
        }
        Event::PodWent(other) => away(other) || other.spec.away.iter().any(|term| meant(term, pod)),
        Event::ItselfChanged { old, new } => old.labels != new.labels,
        Event::NodeCame(node) => {
            !pod.spec.away.is_empty() || pod.spec.near.iter().any(|term| term.place(node).is_some())
        }
        Event::NodeChanged { old, new } => moved(pod, old, new),
        _ => false,
    }
}

/// Whether a node got into a place that may do, or out of one that did not.
fn moved(pod: &Pod, old: &Node, new: &Node) -> bool {
    let near = |term: &Term| term.place(new).is_some() && term.place(old) != term.place(new);
    let away = |term: &Term| term.place(old).is_some() && term.place(old) != term.place(new);
    pod.spec.near.iter().any(near) || pod.spec.away.iter().any(away)
}
