//! Replica counts of a Deployment's ReplicaSets: rolling update, recreation and proportional scaling.
//!
//! Invariants: a rolling update never asks for more than `replicas + maxSurge` pods, and never removes an available pod if
//! fewer than `replicas - maxUnavailable` would remain. Scaling during a rollout keeps the proportions of the ReplicaSets.

use std::cmp::Reverse;

use k3_workloads::Rounding;

use super::replica_set::DesiredReplicaSet;
use crate::objects::{Deployment, StrategyKind};

/// A Deployment and its ReplicaSets, oldest first.
pub(super) struct Rollout<'d> {
    pub(super) deployment: &'d Deployment,
    pub(super) sets: Vec<DesiredReplicaSet>,
    /// Index of the ReplicaSet with the Deployment's template.
    pub(super) new: Option<usize>,
}

// --- bounds ---

/// `maxSurge` as a number of pods.
// upstream: pkg/controller/deployment/util/deployment_util.go MaxSurge
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    bounds(deployment).0
}

/// `maxUnavailable` as a number of pods.
// upstream: pkg/controller/deployment/util/deployment_util.go MaxUnavailable
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    let (_, unavailable) = bounds(deployment);
    unavailable.min(deployment.spec.replicas)
}

/// maxSurge rounds up, maxUnavailable rounds down. If both are zero, maxUnavailable is one: the rollout could not proceed.
// upstream: pkg/controller/deployment/util/deployment_util.go ResolveFenceposts
fn bounds(deployment: &Deployment) -> (i32, i32) {
    let spec = &deployment.spec;
    if spec.strategy.kind != StrategyKind::RollingUpdate {
        return (0, 0);
    }
    let surge = spec
        .strategy
        .rolling_update
        .max_surge
        .scaled_value(spec.replicas, Rounding::Up);
    let unavailable = spec
        .strategy
        .rolling_update
        .max_unavailable
        .scaled_value(spec.replicas, Rounding::Down);
    if surge == 0 && unavailable == 0 {
        (0, 1)
    } else {
        (surge, unavailable)
    }
}

// --- Rollout ---

impl Rollout<'_> {
    fn desired_replicas(&self) -> i32 {
        self.deployment.spec.replicas
    }

    /// `replicas + maxSurge`.
    pub(super) fn max_replicas(&self) -> i32 {
        self.desired_replicas() + max_surge(self.deployment)
    }

    fn min_available(&self) -> i32 {
        self.desired_replicas() - max_unavailable(self.deployment)
    }

    pub(super) fn is_new(&self, set: usize) -> bool {
        self.new == Some(set)
    }

    /// ReplicaSets of other templates, oldest first.
    pub(super) fn old(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.sets.len()).filter(move |set| Some(*set) != new)
    }

    /// ReplicaSets with `replicas > 0`.
    fn active(&self) -> Vec<usize> {
        let sets = 0..self.sets.len();
        sets.filter(|set| self.sets[*set].replicas > 0).collect()
    }

    /// Sum of `spec.replicas` over all ReplicaSets.
    pub(super) fn total(&self) -> i32 {
        self.sets.iter().map(|set| set.replicas).sum()
    }

    /// Available pods that will stay. A ReplicaSet that was scaled down may not have updated its status yet: pods that it is
    /// about to delete do not count, or they would be subtracted twice.
    fn available(&self) -> i32 {
        let sets = self.sets.iter();
        sets.map(|set| set.status.available_replicas.min(set.replicas))
            .sum()
    }

    /// Scales a ReplicaSet. An unchanged one is not touched, not even its annotations.
    fn scale_to(&mut self, set: usize, replicas: i32) {
        if self.sets[set].replicas != replicas {
            self.sets[set].replicas = replicas;
            self.set_replicas_annotations(set);
        }
    }

    fn set_replicas_annotations(&mut self, set: usize) {
        let wanted = self.desired_replicas();
        let max = self.max_replicas();
        self.sets[set].set_replicas_annotations(wanted, max);
    }

    /// Desired replicas of the new ReplicaSet.
    // upstream: pkg/controller/deployment/util/deployment_util.go NewRSNewReplicas
    pub(super) fn new_replicas(&self, replicas: i32) -> i32 {
        match self.deployment.spec.strategy.kind {
            StrategyKind::Recreate => self.desired_replicas(),
            StrategyKind::RollingUpdate => {
                let capacity = self.max_replicas() - self.total();
                if capacity <= 0 {
                    replicas
                } else {
                    replicas + capacity.min(self.desired_replicas() - replicas)
                }
            }
        }
    }

    /// Whether the Deployment was scaled since its ReplicaSets were.
    // upstream: pkg/controller/deployment/sync.go isScalingEvent
    pub(super) fn is_scaling_event(&self) -> bool {
        let active = self.active();
        let mut desired = active.iter().filter_map(|set| self.sets[*set].desired());
        desired.any(|desired| desired != self.desired_replicas())
    }

    // --- rolling update ---

    /// Next step of a rolling update.
    // upstream: pkg/controller/deployment/rolling.go rolloutRolling, reconcileNewReplicaSet
    pub(super) fn roll(&mut self) {
        let Some(new) = self.new else { return };
        let replicas = self.sets[new].replicas;
        let capacity = if replicas > self.desired_replicas() {
            self.desired_replicas()
        } else {
            self.new_replicas(replicas)
        };
        self.scale_to(new, capacity);
        self.scale_down_old(new);
    }

    // upstream: pkg/controller/deployment/rolling.go reconcileOldReplicaSets, cleanupUnhealthyReplicas, scaleDownOldReplicaSetsForRollingUpdate
    fn scale_down_old(&mut self, new: usize) {
        let unavailable = self.sets[new].replicas - self.sets[new].status.available_replicas;
        // maxScaledDown: the scale-down budget. New pods that are not available yet must not cost available old pods.
        let mut max_scaled_down = self.total() - self.min_available() - unavailable;
        if max_scaled_down <= 0 {
            return;
        }
        // Unhealthy replicas first: they block the rollout and serve no traffic.
        for old in self.old() {
            let DesiredReplicaSet {
                replicas, ref status, ..
            } = self.sets[old];
            let scaled_down = max_scaled_down.min(replicas - status.available_replicas).max(0);
            self.scale_to(old, replicas - scaled_down);
            max_scaled_down -= scaled_down;
        }
        // Then available ones, as far as the minimum availability allows.
        let mut spare = self.available() - self.min_available();
        for old in self.old() {
            let replicas = self.sets[old].replicas;
            let scaled_down = spare.min(replicas).max(0);
            self.scale_to(old, replicas - scaled_down);
            spare -= scaled_down;
        }
    }

    // --- recreate ---

    /// Scales all old ReplicaSets to zero. Returns whether one had replicas.
    // upstream: pkg/controller/deployment/recreate.go scaleDownOldReplicaSetsForRecreate
    pub(super) fn scale_old_to_zero(&mut self) -> bool {
        let mut cleared = false;
        for old in self.old() {
            cleared |= self.sets[old].replicas > 0;
            self.scale_to(old, 0);
        }
        cleared
    }

    /// Scales the new ReplicaSet to `spec.replicas`.
    // upstream: pkg/controller/deployment/recreate.go scaleUpNewReplicaSetForRecreate
    pub(super) fn scale_up_new(&mut self) {
        if let Some(new) = self.new {
            self.scale_to(new, self.desired_replicas());
        }
    }

    // --- scaling ---

    /// Scales without rolling out anything.
    // upstream: pkg/controller/deployment/sync.go scale
    pub(super) fn scale(&mut self) {
        match self.active()[..] {
            // No ReplicaSet has replicas: scale the newest one.
            [] => {
                if let Some(set) = self.new.or(self.old().next_back()) {
                    self.scale_to(set, self.desired_replicas());
                }
            }
            [only] => self.scale_to(only, self.desired_replicas()),
            _ if self.is_saturated() => {
                self.scale_old_to_zero();
            }
            _ if self.deployment.spec.strategy.kind == StrategyKind::RollingUpdate => {
                self.scale_proportionally();
            }
            _ => {}
        }
    }

    /// Whether the new ReplicaSet has all desired replicas, and all of them are available.
    // upstream: pkg/controller/deployment/util/deployment_util.go IsSaturated
    fn is_saturated(&self) -> bool {
        let new = self.new.map(|new| &self.sets[new]);
        new.is_some_and(|new| {
            [
                new.replicas,
                new.status.available_replicas,
                new.desired().unwrap_or(-1),
            ]
            .iter()
            .all(|count| *count == self.desired_replicas())
        })
    }

    /// Proportional scaling: each ReplicaSet gets its share of the replicas to add or remove. The rounding rest is added to the
    /// largest one.
    fn scale_proportionally(&mut self) {
        let mut sets = self.active();
        let allowed = if self.desired_replicas() > 0 {
            self.max_replicas()
        } else {
            0
        };
        let add = allowed - self.total();
        // Of ReplicaSets of the same size, newer ones scale up first and older ones scale down first.
        if add > 0 {
            sets.reverse();
        }
        if add != 0 {
            sets.sort_by_key(|set| Reverse(self.sets[*set].replicas));
        }
        let mut added = 0;
        let mut sizes = Vec::new();
        for set in &sets {
            let share = self.proportion(&self.sets[*set], add, added);
            added += share;
            sizes.push(self.sets[*set].replicas + share);
        }
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + add - added).max(0);
        }
        for (set, size) in sets.into_iter().zip(sizes) {
            self.sets[set].replicas = size;
            self.set_replicas_annotations(set);
        }
    }

    /// A ReplicaSet's share of the replicas to add or remove, of which `added` have already been distributed.
    // upstream: pkg/controller/deployment/util/deployment_util.go GetReplicaSetProportion
    fn proportion(&self, set: &DesiredReplicaSet, add: i32, added: i32) -> i32 {
        if add == 0 || add == added {
            return 0;
        }
        let fraction = self.fraction(set);
        if add > 0 {
            fraction.min(add - added)
        } else {
            fraction.max(add - added)
        }
    }

    /// The change that keeps the proportion of a ReplicaSet.
    // upstream: pkg/controller/deployment/util/deployment_util.go getReplicaSetFraction
    fn fraction(&self, set: &DesiredReplicaSet) -> i32 {
        if self.desired_replicas() == 0 {
            return -set.replicas;
        }
        let before = set.max_replicas().filter(|max| *max > 0);
        let before = before.unwrap_or(self.deployment.status.replicas);
        if before == 0 {
            return 0;
        }
        let size = f64::from(set.replicas) * f64::from(self.max_replicas()) / f64::from(before);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "more pods than that fit no cluster; it saturates"
        )]
        let size = size.round() as i32;
        size - set.replicas
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn deployment(replicas: i32, surge: &Value, unavailable: &Value) -> Deployment {
        serde_json::from_value(json!({"spec": {"replicas": replicas, "strategy": {
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}}))
        .unwrap()
    }

    /// Sets of (replicas, available), from the oldest to the newest; the last one is new. `before` is what the deployment
    /// had when it scaled them.
    fn rollout<'d>(
        deployment: &'d Deployment,
        sets: &[(i32, i32)],
        before: Option<(i32, i32)>,
    ) -> Rollout<'d> {
        let sets = sets.iter().enumerate().map(|(age, (replicas, available))| {
            let set = json!({
                "metadata": {"name": format!("s{age}")},
                "spec": {"replicas": replicas},
                "status": {"replicas": replicas, "availableReplicas": available},
            });
            let mut set = DesiredReplicaSet::from_existing(Arc::new(serde_json::from_value(set).unwrap()));
            if let Some((desired, max)) = before {
                set.set_replicas_annotations(desired, max);
            }
            set
        });
        let sets: Vec<_> = sets.collect();
        let new = Some(sets.len() - 1);
        Rollout {
            deployment,
            sets,
            new,
        }
    }

    fn sizes(rollout: &Rollout<'_>) -> Vec<i32> {
        rollout.sets.iter().map(|set| set.replicas).collect()
    }

    #[test]
    fn resolves_fenceposts() {
        let cases = [
            (json!(1), json!(1), 10, (1, 1)),
            (json!("25%"), json!("25%"), 10, (3, 2)),
            (json!("25%"), json!("25%"), 1, (1, 0)),
            (json!("0%"), json!("1%"), 2, (0, 1)),
            (json!(0), json!(0), 5, (0, 1)),
            (json!(0), json!(9), 5, (0, 5)),
            (json!("25%"), json!("25%"), 0, (0, 0)),
        ];
        for (surge, unavailable, replicas, expected) in cases {
            let deployment = deployment(replicas, &surge, &unavailable);
            let found = (max_surge(&deployment), max_unavailable(&deployment));
            assert_eq!(found, expected, "{surge} {unavailable} of {replicas}");
        }
    }

    #[test]
    fn rolling_update_respects_surge_and_unavailable() {
        let cases = [
            // (wanted, surge, unavailable), sets before, sets after
            ((10, 3, 2), vec![(10, 10), (0, 0)], vec![8, 3]),
            ((10, 3, 2), vec![(8, 8), (3, 0)], vec![8, 5]),
            ((10, 3, 2), vec![(8, 8), (5, 5)], vec![3, 5]),
            ((10, 3, 2), vec![(3, 3), (5, 5)], vec![3, 10]),
            ((10, 0, 2), vec![(10, 10), (0, 0)], vec![8, 0]),
            ((10, 0, 2), vec![(8, 8), (0, 0)], vec![8, 2]),
            ((10, 2, 0), vec![(10, 10), (0, 0)], vec![10, 2]),
            // Pods that are not available go first, the oldest ones before others.
            ((10, 0, 2), vec![(2, 0), (8, 8), (0, 0)], vec![0, 8, 0]),
            ((10, 3, 2), vec![(10, 5), (0, 0)], vec![8, 3]),
            // The new pods never become available: old ones are kept.
            ((10, 3, 2), vec![(8, 8), (5, 0)], vec![8, 5]),
            ((10, 3, 2), vec![(8, 7), (5, 0)], vec![8, 5]),
            // A third template: the second one gives way.
            ((10, 3, 2), vec![(8, 8), (5, 0), (0, 0)], vec![8, 0, 0]),
            // The old set shrinks, but has not said so.
            ((10, 3, 2), vec![(8, 10), (3, 3)], vec![5, 5]),
            // More than wanted.
            ((5, 1, 1), vec![(0, 0), (8, 8)], vec![0, 5]),
        ];
        for ((wanted, surge, unavailable), before, after) in cases {
            let deployment = deployment(wanted, &json!(surge), &json!(unavailable));
            let mut rollout = rollout(&deployment, &before, None);
            rollout.roll();
            assert_eq!(sizes(&rollout), after, "{before:?}");
        }
    }

    #[test]
    fn rolling_update_terminates_within_bounds() {
        for wanted in 1..12 {
            for (surge, unavailable) in [(0, 1), (1, 0), (2, 3), (5, 5)] {
                let deployment = deployment(wanted, &json!(surge), &json!(unavailable));
                let mut rollout = rollout(&deployment, &[(wanted, wanted), (0, 0)], None);
                for step in 0.. {
                    assert!(step < 100, "{wanted} +{surge} -{unavailable} does not end");
                    rollout.roll();
                    assert!(rollout.total() <= wanted + surge);
                    let kept: i32 = rollout
                        .sets
                        .iter()
                        .map(|set| set.replicas.min(set.status.available_replicas))
                        .sum();
                    assert!(kept >= wanted - unavailable);
                    for set in &mut rollout.sets {
                        // One pod at a time becomes available; surplus pods are deleted.
                        set.status.available_replicas = set.replicas.min(set.status.available_replicas + 1);
                    }
                    if rollout.sets[0].replicas == 0 && rollout.sets[1].status.available_replicas == wanted {
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn scales_proportionally() {
        let cases = [
            // wanted, surge, (desired, most) before, sets, expected; the last set is new
            (20, 3, (10, 13), vec![(8, 8), (5, 0)], vec![14, 9]),
            (5, 3, (10, 13), vec![(8, 8), (5, 0)], vec![5, 3]),
            (0, 3, (10, 13), vec![(8, 8), (5, 0)], vec![0, 0]),
            (12, 0, (10, 10), vec![(5, 5), (5, 5)], vec![6, 6]),
            (11, 0, (10, 10), vec![(5, 5), (5, 5)], vec![5, 6]),
            (9, 0, (10, 10), vec![(5, 5), (5, 5)], vec![4, 5]),
            (10, 0, (10, 10), vec![(5, 5), (5, 5)], vec![5, 5]),
            // One set only, or none.
            (7, 3, (10, 13), vec![(0, 0), (10, 10)], vec![0, 7]),
            (7, 3, (0, 0), vec![(0, 0), (0, 0)], vec![0, 7]),
            // All that is wanted is there and available: other sets were adopted.
            (10, 3, (10, 13), vec![(4, 4), (10, 10)], vec![0, 10]),
        ];
        for (wanted, surge, before, sets, expected) in cases {
            let deployment = deployment(wanted, &json!(surge), &json!(0));
            let mut rollout = rollout(&deployment, &sets, Some(before));
            rollout.scale();
            assert_eq!(sizes(&rollout), expected, "{sets:?} to {wanted}");
        }
    }

    #[test]
    fn detects_scaling_events() {
        let deployment = deployment(10, &json!(0), &json!(1));
        assert!(!rollout(&deployment, &[(5, 5), (0, 0)], Some((10, 10))).is_scaling_event());
        assert!(rollout(&deployment, &[(5, 5), (0, 0)], Some((9, 9))).is_scaling_event());
        assert!(!rollout(&deployment, &[(0, 0), (0, 0)], Some((9, 9))).is_scaling_event());
        assert!(!rollout(&deployment, &[(5, 5), (5, 5)], None).is_scaling_event());
    }
}
