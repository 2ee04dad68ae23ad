//! What has to be done for a stateful set: pods to be made, corrected and deleted, in which order, and what to say of it.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;

use super::{
    claims::{self, Work},
    member,
};
use crate::objects::{
    IntOrPercent, Management, Meta, PersistentVolumeClaim, Pod, PodPhase, Replacing, StatefulSet,
    StatefulStatus,
};

/// How many pods are made before the set is looked at again.
const BURST: usize = 500;

/// What is known of a set, its pods and its claims.
pub(super) struct Seen<'a, L> {
    pub(super) set: &'a StatefulSet,
    /// The name of the revision before the rollout.
    pub(super) current: &'a str,
    /// The name of the newest revision.
    pub(super) update: &'a str,
    pub(super) collisions: i32,
    /// The pods of the set, whatever has become of them.
    pub(super) pods: &'a [Arc<Pod>],
    /// Finds claims by name.
    pub(super) claims: L,
    pub(super) now: Timestamp,
}

/// What has to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Nothing of a stage is begun before all of the one before it has succeeded.
    pub(super) stages: Vec<Vec<Step>>,
    /// What is to be said, if no pod is deleted because of its revision.
    pub(super) status: StatefulStatus,
    /// When to look again, if nothing happens.
    pub(super) again: Option<Duration>,
}

/// A part of a plan.
#[derive(Debug)]
pub(super) enum Step {
    /// A pod is made, after its claims.
    Make {
        ordinal: i32,
        which: Which,
        claims: Work,
    },
    /// The claims of a pod are made, or get other owners.
    Claims {
        pod: Arc<Pod>,
        claims: Work,
        /// Whether people are told if that fails.
        tells: bool,
    },
    /// A pod gets the labels, the volumes and the claims that it should have.
    Correct {
        pod: Arc<Pod>,
        ordinal: i32,
        claims: Work,
        /// Whether the pod itself has to change.
        changes: bool,
    },
    /// A pod is deleted.
    Delete {
        pod: Arc<Pod>,
        /// Whether because of its revision.
        rolls: bool,
    },
}

/// A revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The one before the rollout.
    Current,
    /// The newest one.
    Update,
}

/// Whether the plan ends here: each pod waits for the one before it.
enum Next {
    Go,
    Stop,
}

impl Plan {
    /// The pods that are to be deleted.
    pub(super) fn deleted(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.stages.iter().flatten().filter_map(|step| match step {
            Step::Delete { pod, .. } => Some(pod),
            _ => None,
        })
    }
}

/// What is said of a set when so many of its pods were deleted because of their revision. A rollout of which all pods are
/// there and ready is over.
pub(super) fn concluded(set: &StatefulSet, mut status: StatefulStatus, rolled: usize) -> StatefulStatus {
    let rolled = i32::try_from(rolled).unwrap_or(i32::MAX);
    status.current_replicas = status.current_replicas.saturating_sub(rolled).max(0);
    let counts = [status.updated_replicas, status.ready_replicas, status.replicas];
    if counts == [set.spec.replicas; 3] {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

impl<L: Fn(&str) -> Option<Arc<PersistentVolumeClaim>>> Seen<'_, L> {
    /// What has to be done.
    pub(super) fn plan(&self) -> Plan {
        let (mut wanted, mut condemned) = (BTreeMap::new(), Vec::new());
        for pod in self.pods {
            let Some(ordinal) = member::ordinal(&pod.metadata) else {
                continue;
            };
            match member::place(self.set, ordinal) {
                Some(place) => drop(wanted.insert(place, Arc::clone(pod))),
                None => condemned.push((ordinal, Arc::clone(pod))),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let stages = if self.set.metadata.is_going() {
            Vec::new()
        } else {
            self.stages(&wanted, &condemned)
        };
        let counted: Vec<_> = if self.set.metadata.is_going() {
            self.pods.iter().collect()
        } else {
            let condemned = condemned.iter().map(|(_, pod)| pod);
            wanted.values().chain(condemned).collect()
        };
        let status = self.status(&counted);
        Plan {
            stages,
            again: self.next_look(&status, &counted),
            status,
        }
    }

    fn stages(&self, wanted: &BTreeMap<i32, Arc<Pod>>, condemned: &[(i32, Arc<Pod>)]) -> Vec<Vec<Step>> {
        let mut stages = Vec::new();
        let mut steps = Vec::new();
        let next = self.fill(wanted, &mut steps);
        stages.push(steps);
        if matches!(next, Next::Stop) {
            return stages;
        }
        stages.push(self.claims_of(condemned));
        let mut steps = Vec::new();
        let next = self.shrink(condemned, &mut steps);
        stages.push(steps);
        if matches!(next, Next::Stop) || self.set.spec.update_strategy.kind == Replacing::OnDelete {
            return stages;
        }
        let chosen: HashSet<_> = stages
            .iter()
            .flatten()
            .filter_map(|step| match step {
                Step::Delete { pod, .. } => Some(pod.metadata.uid.clone()),
                _ => None,
            })
            .collect();
        let mut steps = self.roll(wanted);
        steps.retain(|pod| !chosen.contains(&pod.metadata.uid));
        let steps = steps.into_iter().map(|pod| Step::Delete { pod, rolls: true });
        stages.push(steps.collect());
        stages
    }

    // --- what a pod is ---

    fn is_ordered(&self) -> bool {
        self.set.spec.pod_management_policy == Management::OrderedReady
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    /// Whether a pod can be relied on.
    fn is_sound(&self, pod: &Pod) -> bool {
        is_ready(pod) && self.is_available(pod)
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        !self.is_available(pod) || pod.metadata.is_going()
    }

    fn is_old(&self, pod: &Pod) -> bool {
        member::revision(pod) != self.update
    }

    // --- filling ---

    /// Makes pods that are missing, deletes those that have ended, and corrects the others.
    fn fill(&self, wanted: &BTreeMap<i32, Arc<Pod>>, steps: &mut Vec<Step>) -> Next {
        let mut made = 0;
        for place in 0..self.set.spec.replicas {
            let next = match wanted.get(&place) {
                Some(pod) => self.keep(pod, steps),
                None if made >= BURST => return Next::Stop,
                None => {
                    made += 1;
                    self.make(place, steps)
                }
            };
            if matches!(next, Next::Stop) && self.is_ordered() {
                return Next::Stop;
            }
        }
        Next::Go
    }

    fn make(&self, place: i32, steps: &mut Vec<Step>) -> Next {
        let Some(ordinal) = self.set.spec.ordinals.start.checked_add(place) else {
            return Next::Stop;
        };
        if !claims::is_stale(self.set, ordinal, &self.claims) {
            let pod = Meta {
                name: member::name(self.set, ordinal).into(),
                ..Meta::default()
            };
            steps.push(Step::Make {
                ordinal,
                which: self.which(place),
                claims: Work::new(self.set, &pod, ordinal, &self.claims),
            });
        }
        Next::Stop
    }

    /// The revision of which a missing pod is made.
    fn which(&self, place: i32) -> Which {
        let strategy = &self.set.spec.update_strategy;
        let is_current = match &strategy.rolling_update {
            Some(bounds) => place < bounds.partition,
            None => strategy.kind == Replacing::RollingUpdate && place < self.set.status.current_replicas,
        };
        if is_current { Which::Current } else { Which::Update }
    }

    fn keep(&self, pod: &Arc<Pod>, steps: &mut Vec<Step>) -> Next {
        if pod.has_ended() {
            if !pod.metadata.is_going() {
                steps.push(Step::Delete {
                    pod: Arc::clone(pod),
                    rolls: false,
                });
            }
            return Next::Stop;
        }
        let Some(ordinal) = member::ordinal(&pod.metadata) else {
            return Next::Go;
        };
        let claims = Work::new(self.set, &pod.metadata, ordinal, &self.claims);
        let is_pending = pod.status.phase == PodPhase::Pending;
        if is_pending && !claims.is_nothing() {
            steps.push(Step::Claims {
                pod: Arc::clone(pod),
                claims,
                tells: true,
            });
            return Next::Stop;
        }
        if self.is_ordered() && (pod.metadata.is_going() || !self.is_sound(pod)) {
            return Next::Stop;
        }
        let lacks_storage = !member::has_storage(self.set, pod);
        let changes = lacks_storage || !member::has_identity(self.set, pod);
        if changes || !claims.owned.is_empty() {
            // Claims that nothing refers to are not made.
            let claims = if lacks_storage { claims } else { claims.of_owners() };
            steps.push(Step::Correct {
                pod: Arc::clone(pod),
                ordinal,
                claims,
                changes,
            });
        }
        Next::Go
    }

    // --- shrinking ---

    /// Claims of pods that are too many get the owners with which they go.
    fn claims_of(&self, condemned: &[(i32, Arc<Pod>)]) -> Vec<Step> {
        let works = condemned.iter().map(|(ordinal, pod)| {
            let claims = Work::new(self.set, &pod.metadata, *ordinal, &self.claims);
            (pod, claims)
        });
        let works = works.filter(|(_, claims)| !claims.owned.is_empty());
        let step = |(pod, claims): (&Arc<Pod>, Work)| Step::Claims {
            pod: Arc::clone(pod),
            claims: claims.of_owners(),
            tells: false,
        };
        works.map(step).collect()
    }

    /// Deletes pods that are too many, the last ones first.
    fn shrink(&self, condemned: &[(i32, Arc<Pod>)], steps: &mut Vec<Step>) -> Next {
        // If one is not as it should be, it would be in vain to wait for it: the first such pod may go.
        let mut unavailable = condemned.iter().rev().filter(|(_, pod)| self.is_unavailable(pod));
        let first = unavailable.next().map(|(_, pod)| &pod.metadata.uid);
        for (_, pod) in condemned {
            let waits = pod.metadata.is_going()
                || self.is_ordered() && !self.is_sound(pod) && first != Some(&pod.metadata.uid);
            if !waits {
                steps.push(Step::Delete {
                    pod: Arc::clone(pod),
                    rolls: false,
                });
            }
            if self.is_ordered() {
                return Next::Stop;
            }
        }
        Next::Go
    }

    // --- rolling ---

    /// The pods of old revisions that are deleted now, the last ones first.
    fn roll(&self, wanted: &BTreeMap<i32, Arc<Pod>>) -> Vec<Arc<Pod>> {
        let bounds = self.set.spec.update_strategy.rolling_update.as_ref();
        let partition = bounds.map_or(0, |bounds| bounds.partition);
        let most = bounds.and_then(|bounds| bounds.max_unavailable.clone());
        let most = most
            .unwrap_or(IntOrPercent::Int(1))
            .of(self.set.spec.replicas, false);
        let most = usize::try_from(most).unwrap_or(0).max(1);
        let is_available = |pod: &&Arc<Pod>| !self.is_unavailable(pod);
        let replicas = usize::try_from(self.set.spec.replicas).unwrap_or(0);
        let unavailable = replicas - wanted.values().filter(is_available).count();
        let old = wanted
            .range(partition..)
            .rev()
            .map(|(_, pod)| pod)
            .filter(|pod| self.is_old(pod) && !pod.metadata.is_going());
        let budget = most.saturating_sub(unavailable);
        if self.is_ordered() {
            return old.take(budget).cloned().collect();
        }
        // Those that do no work anyway go first and are not counted again: otherwise a rollout that is to repair them would
        // wait for them.
        let (available, broken): (Vec<_>, Vec<_>) = old.cloned().partition(|pod| self.is_available(pod));
        broken
            .into_iter()
            .chain(available.into_iter().take(budget))
            .collect()
    }

    // --- telling ---

    fn status(&self, pods: &[&Arc<Pod>]) -> StatefulStatus {
        let count = |is: &dyn Fn(&Pod) -> bool| {
            let count = pods.iter().filter(|pod| is(pod)).count();
            i32::try_from(count).unwrap_or(i32::MAX)
        };
        let of = |revision: &str| {
            count(&|pod: &Pod| !pod.metadata.is_going() && member::revision(pod) == revision)
        };
        StatefulStatus {
            observed_generation: self.set.metadata.generation,
            replicas: count(&|_| true),
            ready_replicas: count(&is_ready),
            available_replicas: count(&|pod| self.is_sound(pod)),
            current_replicas: of(self.current),
            updated_replicas: of(self.update),
            current_revision: self.current.into(),
            update_revision: self.update.into(),
            collision_count: Some(self.collisions),
            conditions: self.set.status.conditions.clone(),
        }
    }

    /// When the next pod will be available.
    fn next_look(&self, status: &StatefulStatus, pods: &[&Arc<Pod>]) -> Option<Duration> {
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
