//! Replaces pods of earlier templates, a few nodes at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    placement::Fit,
    plan::{Plan, Seen},
};
use crate::objects::Pod;

/// The pods of a node that stay, one of each sort at most.
#[derive(Clone, Copy, Default)]
struct Pair<'a> {
    /// Of the template of now.
    new: Option<&'a Arc<Pod>>,
    /// Of another one.
    old: Option<&'a Arc<Pod>>,
}

impl Seen<'_> {
    /// What is replaced now. What is too many is not this one's to delete.
    pub(super) fn roll(&self) -> Plan {
        let desired = self.desired();
        let (surge, unavailable) = (self.most_surge(desired), self.most_unavailable(desired));
        if surge == 0 {
            // Neither more nor fewer pods cannot be meant.
            self.roll_down(unavailable.max(usize::from(desired > 0)))
        } else {
            self.roll_over(surge, desired)
        }
    }

    /// The nodes that have a pod or should have one, with their pods. `None` where there are too many.
    fn pairs(&self) -> BTreeMap<&str, Option<Pair<'_>>> {
        let runs = self.nodes.iter().filter(|(_, fit)| **fit == Fit::Runs);
        let names: BTreeSet<&str> = runs
            .map(|(node, _)| &**node)
            .chain(self.pods.keys().map(|node| &**node))
            .collect();
        let pair = |node: &str| {
            let mut pair = Pair::default();
            let pods = self.pods.get(node).into_iter().flatten();
            for pod in pods.filter(|pod| !pod.metadata.is_going()) {
                let sort = if self.mark.is_on(pod) {
                    &mut pair.new
                } else {
                    &mut pair.old
                };
                if sort.replace(pod).is_some() {
                    return None;
                }
            }
            Some(pair)
        };
        names.into_iter().map(|node| (node, pair(node))).collect()
    }

    /// Deletes old pods; new ones are made where they were.
    fn roll_down(&self, most: usize) -> Plan {
        let (mut broken, mut candidates) = (Vec::new(), Vec::new());
        let mut unavailable = 0;
        for pair in self.pairs().into_values() {
            match pair {
                Some(Pair {
                    new: None,
                    old: Some(old),
                }) if self.is_available(old) => candidates.push(Arc::clone(old)),
                Some(Pair {
                    new: None,
                    old: Some(old),
                }) => {
                    // It does no work: that it is replaced harms nobody.
                    broken.push(Arc::clone(old));
                    unavailable += 1;
                }
                Some(Pair {
                    new: Some(new),
                    old: None,
                }) => unavailable += usize::from(!self.is_available(new)),
                // A pod will be made or deleted here.
                _ => unavailable += 1,
            }
        }
        let more = candidates.into_iter().take(most.saturating_sub(unavailable));
        broken.extend(more);
        Plan {
            delete: broken,
            ..Plan::default()
        }
    }

    /// Makes new pods beside old ones, which go when the new ones work.
    fn roll_over(&self, most: usize, desired: usize) -> Plan {
        let mut plan = Plan::default();
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        let (mut surge, mut available) = (0, 0);
        for (node, pair) in self.pairs() {
            let Some(Pair { new, old }) = pair else {
                surge += 1;
                continue;
            };
            let first = old.or(new);
            available += usize::from(first.is_some_and(|pod| self.is_available(pod)));
            let Some(old) = old else { continue };
            let works = self.is_available(old);
            let runs = self.nodes.get(node) == Some(&Fit::Runs);
            match new {
                Some(new) if self.is_available(new) => plan.delete.push(Arc::clone(old)),
                Some(_) => surge += 1,
                None if !works && !runs => plan.delete.push(Arc::clone(old)),
                None if !works => plan.make.push(node.into()),
                None if !runs => misplaced.push(Arc::clone(old)),
                None => candidates.push(Box::<str>::from(node)),
            }
        }
        // Where pods are no longer to run they go when enough of them work elsewhere.
        let spare = available.saturating_sub(desired);
        plan.delete.extend(misplaced.into_iter().take(spare));
        let more = candidates.into_iter().take(most.saturating_sub(surge));
        plan.make.extend(more);
        plan
    }
}
