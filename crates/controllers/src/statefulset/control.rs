//! Decides which pods to create, update and delete, in which order, and computes the status.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use k3_workloads::{IntOrString, ObjectMeta, PersistentVolumeClaim, Pod, PodPhase, Rounding};
use k8s_openapi::jiff::Timestamp;

use super::{
    claims::{self, ClaimWork},
    pod_identity,
};
use crate::objects::{PodManagementPolicy, StatefulSet, StatefulStatus, UpdateStrategyKind};

/// Pods created per sync.
const BURST: usize = 500;

/// A StatefulSet with pods and claims at one point in time.
pub(super) struct ObservedStatefulSet<'a, L> {
    pub(super) set: &'a StatefulSet,
    /// Name of the current revision (before the rollout).
    pub(super) current: &'a str,
    /// Name of the update revision.
    pub(super) update: &'a str,
    pub(super) collisions: i32,
    /// All pods of the set, in any phase.
    pub(super) pods: &'a [Arc<Pod>],
    /// Finds claims by name.
    pub(super) claims: L,
    pub(super) now: Timestamp,
}

/// What to do.
#[derive(Debug, Default)]
pub(super) struct StatefulSetPlan {
    /// No step of a stage starts before all steps of the previous one have succeeded.
    pub(super) stages: Vec<Vec<UpdateStep>>,
    /// The new status, if no pod is deleted because of its revision.
    pub(super) status: StatefulStatus,
    /// When to sync again if no event arrives.
    pub(super) requeue_after: Option<Duration>,
}

/// A part of a plan.
#[derive(Debug)]
pub(super) enum UpdateStep {
    /// Create a pod, after its claims.
    Create {
        ordinal: i32,
        which: RevisionChoice,
        claims: ClaimWork,
    },
    /// Create claims of a pod, or change their owner references.
    Claims {
        pod: Arc<Pod>,
        claims: ClaimWork,
        /// Whether a failure is recorded as an event.
        records_event: bool,
    },
    /// Restore labels, volumes and claims of a pod.
    Correct {
        pod: Arc<Pod>,
        ordinal: i32,
        claims: ClaimWork,
        identity: PodIdentityAction,
    },
    /// Delete a pod.
    Delete { pod: Arc<Pod>, reason: DeletionReason },
}

/// What happens to labels and volumes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodIdentityAction {
    Keep,
    Restore,
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionReason {
    /// It has ended, and is created again.
    Ended,
    /// It has another revision.
    Rollout,
    /// There are more pods than replicas.
    ScaleDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RevisionChoice {
    /// The revision before the rollout.
    Current,
    /// The newest revision.
    Update,
}

/// Whether the plan continues: with OrderedReady each pod waits for its predecessor.
enum PlanProgress {
    Continue,
    Stop,
}

impl StatefulSetPlan {
    /// Pods to delete.
    pub(super) fn deleted(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.stages.iter().flatten().filter_map(|step| match step {
            UpdateStep::Delete { pod, .. } => Some(pod),
            _ => None,
        })
    }
}

/// The status after `deleted_for_rollout` pods were deleted because of their revision. A rollout is complete when all pods have the update
/// revision and are ready.
// upstream: pkg/controller/statefulset/stateful_set_utils.go completeUpdate
pub(super) fn complete_update(
    set: &StatefulSet,
    mut status: StatefulStatus,
    deleted_for_rollout: usize,
) -> StatefulStatus {
    let deleted_for_rollout = i32::try_from(deleted_for_rollout).unwrap_or(i32::MAX);
    status.current_replicas = status.current_replicas.saturating_sub(deleted_for_rollout).max(0);
    let counts = [status.updated_replicas, status.ready_replicas, status.replicas];
    if counts == [set.spec.replicas; 3] {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

impl<L: Fn(&str) -> Option<Arc<PersistentVolumeClaim>>> ObservedStatefulSet<'_, L> {
    /// What to do.
    // upstream: pkg/controller/statefulset/stateful_set_control.go updateStatefulSet
    pub(super) fn plan(&self) -> StatefulSetPlan {
        let mut wanted = BTreeMap::new();
        let mut condemned = Vec::new();
        for pod in self.pods {
            let Some(ordinal) = pod_identity::ordinal(&pod.metadata) else {
                continue;
            };
            match pod_identity::ordinal_position(self.set, ordinal) {
                Some(position) => drop(wanted.insert(position, Arc::clone(pod))),
                None => condemned.push((ordinal, Arc::clone(pod))),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let stages = if self.set.metadata.is_terminating() {
            Vec::new()
        } else {
            self.stages(&wanted, &condemned)
        };
        let counted: Vec<_> = if self.set.metadata.is_terminating() {
            self.pods.iter().collect()
        } else {
            let condemned = condemned.iter().map(|(_, pod)| pod);
            wanted.values().chain(condemned).collect()
        };
        let status = self.status(&counted);
        StatefulSetPlan {
            stages,
            requeue_after: self.next_available_in(&status, &counted),
            status,
        }
    }

    fn stages(
        &self,
        wanted: &BTreeMap<i32, Arc<Pod>>,
        condemned: &[(i32, Arc<Pod>)],
    ) -> Vec<Vec<UpdateStep>> {
        let mut stages = Vec::new();
        let mut steps = Vec::new();
        let next = self.process_replicas(wanted, &mut steps);
        stages.push(steps);
        if matches!(next, PlanProgress::Stop) {
            return stages;
        }
        stages.push(self.claim_updates(condemned));
        let mut steps = Vec::new();
        let next = self.process_condemned(condemned, &mut steps);
        stages.push(steps);
        if matches!(next, PlanProgress::Stop)
            || self.set.spec.update_strategy.kind == UpdateStrategyKind::OnDelete
        {
            return stages;
        }
        let chosen: HashSet<_> = stages
            .iter()
            .flatten()
            .filter_map(|step| match step {
                UpdateStep::Delete { pod, .. } => Some(pod.metadata.uid.clone()),
                _ => None,
            })
            .collect();
        let mut steps = self.pods_to_update(wanted);
        steps.retain(|pod| !chosen.contains(&pod.metadata.uid));
        let steps = steps.into_iter().map(|pod| UpdateStep::Delete {
            pod,
            reason: DeletionReason::Rollout,
        });
        stages.push(steps.collect());
        stages
    }

    // --- what a pod is ---

    fn is_ordered(&self) -> bool {
        self.set.spec.pod_management_policy == PodManagementPolicy::OrderedReady
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    /// Whether a pod is running and available.
    fn is_running_and_available(&self, pod: &Pod) -> bool {
        is_ready(pod) && self.is_available(pod)
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        !self.is_available(pod) || pod.metadata.is_terminating()
    }

    fn is_old_revision(&self, pod: &Pod) -> bool {
        pod_identity::revision(pod) != self.update
    }

    // --- replicas ---

    /// Creates missing pods, deletes terminated ones, and restores the identity of the others.
    // upstream: pkg/controller/statefulset/stateful_set_control.go processReplica
    fn process_replicas(
        &self,
        wanted: &BTreeMap<i32, Arc<Pod>>,
        steps: &mut Vec<UpdateStep>,
    ) -> PlanProgress {
        let mut written = 0;
        for position in 0..self.set.spec.replicas {
            let next = match wanted.get(&position) {
                Some(pod) => self.keep(pod, steps),
                None if written >= BURST => return PlanProgress::Stop,
                None => {
                    written += 1;
                    self.create_missing(position, steps)
                }
            };
            if matches!(next, PlanProgress::Stop) && self.is_ordered() {
                return PlanProgress::Stop;
            }
        }
        PlanProgress::Continue
    }

    fn create_missing(&self, position: i32, steps: &mut Vec<UpdateStep>) -> PlanProgress {
        let Some(ordinal) = self.set.spec.ordinals.start.checked_add(position) else {
            return PlanProgress::Stop;
        };
        if !claims::is_stale(self.set, ordinal, &self.claims) {
            let pod = ObjectMeta {
                name: pod_identity::pod_name(self.set, ordinal).into(),
                ..ObjectMeta::default()
            };
            steps.push(UpdateStep::Create {
                ordinal,
                which: self.revision_for(position),
                claims: ClaimWork::new(self.set, &pod, ordinal, &self.claims),
            });
        }
        PlanProgress::Stop
    }

    /// The revision for a missing pod.
    // upstream: pkg/controller/statefulset/stateful_set_utils.go newVersionedStatefulSetPod
    fn revision_for(&self, position: i32) -> RevisionChoice {
        let strategy = &self.set.spec.update_strategy;
        let is_current = match &strategy.rolling_update {
            Some(bounds) => position < bounds.partition,
            None => {
                strategy.kind == UpdateStrategyKind::RollingUpdate
                    && position < self.set.status.current_replicas
            }
        };
        if is_current {
            RevisionChoice::Current
        } else {
            RevisionChoice::Update
        }
    }

    fn keep(&self, pod: &Arc<Pod>, steps: &mut Vec<UpdateStep>) -> PlanProgress {
        if pod.has_ended() {
            if !pod.metadata.is_terminating() {
                steps.push(UpdateStep::Delete {
                    pod: Arc::clone(pod),
                    reason: DeletionReason::Ended,
                });
            }
            return PlanProgress::Stop;
        }
        let Some(ordinal) = pod_identity::ordinal(&pod.metadata) else {
            return PlanProgress::Continue;
        };
        let claims = ClaimWork::new(self.set, &pod.metadata, ordinal, &self.claims);
        let is_pending = pod.status.phase == PodPhase::Pending;
        if is_pending && !claims.is_empty() {
            steps.push(UpdateStep::Claims {
                pod: Arc::clone(pod),
                claims,
                records_event: true,
            });
            return PlanProgress::Stop;
        }
        if self.is_ordered() && (pod.metadata.is_terminating() || !self.is_running_and_available(pod)) {
            return PlanProgress::Stop;
        }
        let lacks_storage = !pod_identity::has_storage(self.set, pod);
        let identity = if lacks_storage || !pod_identity::has_identity(self.set, pod) {
            PodIdentityAction::Restore
        } else {
            PodIdentityAction::Keep
        };
        if identity == PodIdentityAction::Restore || !claims.owned.is_empty() {
            // Claims of a pod that is being deleted are not created.
            let claims = if lacks_storage {
                claims
            } else {
                claims.only_owner_updates()
            };
            steps.push(UpdateStep::Correct {
                pod: Arc::clone(pod),
                ordinal,
                claims,
                identity,
            });
        }
        PlanProgress::Continue
    }

    // --- condemned pods ---

    /// Owner references for claims of condemned pods.
    fn claim_updates(&self, condemned: &[(i32, Arc<Pod>)]) -> Vec<UpdateStep> {
        let works = condemned.iter().map(|(ordinal, pod)| {
            let claims = ClaimWork::new(self.set, &pod.metadata, *ordinal, &self.claims);
            (pod, claims)
        });
        let works = works.filter(|(_, claims)| !claims.owned.is_empty());
        let step = |(pod, claims): (&Arc<Pod>, ClaimWork)| UpdateStep::Claims {
            pod: Arc::clone(pod),
            claims: claims.only_owner_updates(),
            records_event: false,
        };
        works.map(step).collect()
    }

    /// Deletes condemned pods, highest ordinal first.
    // upstream: pkg/controller/statefulset/stateful_set_control.go processCondemned
    fn process_condemned(&self, condemned: &[(i32, Arc<Pod>)], steps: &mut Vec<UpdateStep>) -> PlanProgress {
        // Waiting for an unhealthy pod would be useless: the first unhealthy one may be deleted.
        let mut unavailable = condemned.iter().rev().filter(|(_, pod)| self.is_unavailable(pod));
        let first = unavailable.next().map(|(_, pod)| &pod.metadata.uid);
        for (_, pod) in condemned {
            let waits = pod.metadata.is_terminating()
                || self.is_ordered()
                    && !self.is_running_and_available(pod)
                    && first != Some(&pod.metadata.uid);
            if !waits {
                steps.push(UpdateStep::Delete {
                    pod: Arc::clone(pod),
                    reason: DeletionReason::ScaleDown,
                });
            }
            if self.is_ordered() {
                return PlanProgress::Stop;
            }
        }
        PlanProgress::Continue
    }

    // --- rolling update ---

    /// Pods of old revisions to delete now, highest ordinal first.
    // upstream: pkg/controller/statefulset/stateful_set_control.go updateStatefulSetAfterInvariantEstablished
    fn pods_to_update(&self, wanted: &BTreeMap<i32, Arc<Pod>>) -> Vec<Arc<Pod>> {
        let bounds = self.set.spec.update_strategy.rolling_update.as_ref();
        let partition = bounds.map_or(0, |bounds| bounds.partition);
        let max = bounds.and_then(|bounds| bounds.max_unavailable.clone());
        let max = max
            .unwrap_or(IntOrString::Int(1))
            .scaled_value(self.set.spec.replicas, Rounding::Down);
        let max = usize::try_from(max).unwrap_or(0).max(1);
        let is_available = |pod: &&Arc<Pod>| !self.is_unavailable(pod);
        let replicas = usize::try_from(self.set.spec.replicas).unwrap_or(0);
        let unavailable = replicas - wanted.values().filter(is_available).count();
        let old = wanted
            .range(partition..)
            .rev()
            .map(|(_, pod)| pod)
            .filter(|pod| self.is_old_revision(pod) && !pod.metadata.is_terminating());
        let budget = max.saturating_sub(unavailable);
        if self.is_ordered() {
            return old.take(budget).cloned().collect();
        }
        // Unavailable pods of the old revision are deleted first and not counted twice: otherwise a rollout that repairs them
        // would wait for them.
        let (available, broken): (Vec<_>, Vec<_>) = old.cloned().partition(|pod| self.is_available(pod));
        broken
            .into_iter()
            .chain(available.into_iter().take(budget))
            .collect()
    }

    // --- status ---

    // upstream: pkg/controller/statefulset/stateful_set_control.go computeReplicaStatus, updateStatus
    fn status(&self, pods: &[&Arc<Pod>]) -> StatefulStatus {
        let count = |is: &dyn Fn(&Pod) -> bool| {
            let count = pods.iter().filter(|pod| is(pod)).count();
            i32::try_from(count).unwrap_or(i32::MAX)
        };
        let of = |revision: &str| {
            count(&|pod: &Pod| !pod.metadata.is_terminating() && pod_identity::revision(pod) == revision)
        };
        StatefulStatus {
            observed_generation: self.set.metadata.generation,
            replicas: count(&|_| true),
            ready_replicas: count(&is_ready),
            available_replicas: count(&|pod| self.is_running_and_available(pod)),
            current_replicas: of(self.current),
            updated_replicas: of(self.update),
            current_revision: self.current.into(),
            update_revision: self.update.into(),
            collision_count: Some(self.collisions),
            conditions: self.set.status.conditions.clone(),
        }
    }

    /// Time until the next pod becomes available.
    fn next_available_in(&self, status: &StatefulStatus, pods: &[&Arc<Pod>]) -> Option<Duration> {
        let seconds = self.set.spec.min_ready_seconds;
        if seconds <= 0 || status.ready_replicas == status.available_replicas {
            return None;
        }
        let next = pods
            .iter()
            .filter_map(|pod| pod.available_in(seconds, self.now))
            .min();
        next.or_else(|| Some(Duration::from_secs(seconds.unsigned_abs().into())))
    }
}

fn is_ready(pod: &Pod) -> bool {
    pod.status.phase == PodPhase::Running && pod.is_ready()
}
