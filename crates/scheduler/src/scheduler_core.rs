//! The scheduler without I/O: takes cluster events and returns decisions.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::{
    cache::{Key, SchedulerCache},
    cluster_event::ClusterEvent,
    cycle::{Nominator, Placement, ScheduleResult, SchedulingAlgorithm},
    interner::Text,
    object::{Node, Pod, Service},
    plugins::{Candidate, PluginSet, PodVolumes, PostFilterResult, framework::Frameworks},
    profile::Profile,
    queue::{BackoffOptions, Incoming, Moment, PendingPods, SchedulingAttempt, SchedulingQueue},
};

/// Cache, queue and algorithm of a scheduler. One task owns it.
#[derive(Debug)]
pub struct SchedulerCore {
    pub(crate) cluster: SchedulerCache,
    queue: SchedulingQueue,
    engine: SchedulingAlgorithm,
    nominator: Nominator,
    volumes: HashMap<Text, (Vec<Text>, Vec<Key>)>,
}

/// What is to be done about a pod.
#[derive(Debug)]
pub enum Decision {
    /// It is taken to be on a node: that is to be written down.
    Bind {
        /// The pod.
        pod: Arc<Pod>,
        /// The node.
        node: Text,
        /// What is to be done for its volumes before.
        volumes: PodVolumes,
        /// How often it was tried, and since when.
        attempt: SchedulingAttempt,
    },
    /// Scheduling failed: the condition and an event are to be written.
    Fail {
        /// The pod.
        pod: Arc<Pod>,
        /// Why.
        message: String,
        /// The reason in the pod's condition.
        reason: FailureReason,
        /// How to change the nominated node.
        nominating_info: NominatingInfo,
        /// Whether preemption was attempted.
        preemption_attempted: bool,
        /// Who is to go for it.
        preemption: Option<Preemption>,
    },
    /// It is terminating: an event is to be recorded.
    Skip(Arc<Pod>),
}

/// The reason of the condition `PodScheduled` when scheduling failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// No node fits.
    Unschedulable,
    /// The scheduler itself failed.
    SchedulerError,
}

/// How a preemption ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptionOutcome {
    /// All victims were evicted.
    Evicted,
    /// At least one eviction failed.
    Failed,
}

/// How to change the nominated node in the pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NominatingInfo {
    /// Leave the nominated node unchanged.
    Noop,
    /// Clear it.
    Clear,
    /// This node.
    Override(Text),
}

/// A preemption to execute.
#[derive(Debug)]
pub struct Preemption {
    /// Where.
    pub node: Text,
    /// Who.
    pub victims: Vec<Arc<Pod>>,
    /// Lower-priority pods nominated to that node; their nomination is cleared.
    pub lower_priority_nominated_pods: Vec<Arc<Pod>>,
}

impl FailureReason {
    /// The reason as conditions carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureReason::Unschedulable => "Unschedulable",
            FailureReason::SchedulerError => "SchedulerError",
        }
    }
}

impl SchedulerCore {
    /// For pods of the scheduler names of the profiles; random choices depend on the seed only.
    ///
    /// # Panics
    ///
    /// If the profiles have more than 64 plugins of different names.
    pub fn new(profiles: Vec<Profile>, backoff: BackoffOptions, seed: u64) -> Self {
        let frameworks = Arc::new(Frameworks::new(profiles));
        SchedulerCore {
            cluster: SchedulerCache::default(),
            queue: SchedulingQueue::new(backoff, frameworks.clone()),
            engine: SchedulingAlgorithm::new(frameworks, seed),
            nominator: Nominator::default(),
            volumes: HashMap::new(),
        }
    }

    /// A node is as it is now.
    pub fn node(&mut self, new: &Arc<Node>, now: Moment) {
        match self.cluster.set_node(new) {
            None => self.move_all_to_active_or_backoff_queue(&ClusterEvent::NodeAdd(new), now),
            Some(old) if old != *new => {
                self.move_all_to_active_or_backoff_queue(&ClusterEvent::NodeUpdate { old: &old, new }, now);
            }
            Some(_) => {}
        }
    }

    /// Removes a node.
    pub fn remove_node(&mut self, name: &str, now: Moment) {
        if let Some(node) = self.cluster.remove_node(name) {
            self.move_all_to_active_or_backoff_queue(&ClusterEvent::NodeDelete(&node), now);
        }
    }

    /// A service is as it is now.
    pub fn service(&mut self, service: &Service) {
        let namespace = service.namespace.clone();
        let name = service.name.clone();
        self.cluster
            .default_selectors
            .set_service(namespace, name, Some(service.selector.clone()));
    }

    /// A pod is as it is now.
    pub fn pod(&mut self, old: Option<&Arc<Pod>>, new: &Arc<Pod>, now: Moment) {
        if new.node.is_some() {
            self.placed(old, new, now);
        } else if self.engine.serves(&new.spec.scheduler) {
            self.waiting(old, new, now);
        }
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, pod: &Arc<Pod>, now: Moment) {
        self.queue.delete(&pod.uid);
        self.nominator.remove(&pod.uid);
        if let Some(deleted) = self.cluster.remove_pod(&pod.uid) {
            self.move_all_to_active_or_backoff_queue(&ClusterEvent::AssignedPodDelete(&deleted), now);
        } else if pod.nominated_node_name.is_some() {
            self.requeue_lower_priority_pods(pod, now);
        }
    }

    /// Something else happened that may help pods.
    pub fn move_all_to_active_or_backoff_queue(&mut self, event: &ClusterEvent<'_>, now: Moment) {
        self.queue
            .move_all_to_active_or_backoff_queue(event, &self.cluster, now, |_| true);
    }

    /// The next decision, if any pod is ready.
    // upstream: pkg/scheduler/schedule_one.go ScheduleOne
    pub fn next(&mut self, now: Moment) -> Option<Decision> {
        loop {
            let (pod, attempt) = self.queue.pop(now)?;
            if pod.terminating {
                self.queue.delete(&pod.uid);
                return Some(Decision::Skip(pod));
            }
            if self.cluster.pod(&pod.uid).is_some() {
                self.queue.delete(&pod.uid);
                continue;
            }
            return Some(
                match self.engine.schedule_pod(&pod, &self.cluster, &self.nominator) {
                    ScheduleResult::Node(placement) => self.assume_and_bind(pod, placement, attempt),
                    ScheduleResult::FitError(unfit) => self.handle_scheduling_failure(
                        pod,
                        unfit.message,
                        unfit.plugins,
                        unfit.post_filter,
                        now,
                    ),
                    ScheduleResult::NoNodes => {
                        let message = "no nodes available to schedule pods".into();
                        self.handle_scheduling_failure(
                            pod,
                            message,
                            PluginSet::default(),
                            PostFilterResult::NoCandidate,
                            now,
                        )
                    }
                    ScheduleResult::Error(message) => {
                        self.queue.fail(&pod.uid, now);
                        self.nominator.set(pod.clone(), None);
                        Decision::Fail {
                            nominating_info: clears(&pod),
                            pod,
                            message,
                            reason: FailureReason::SchedulerError,
                            preemption_attempted: false,
                            preemption: None,
                        }
                    }
                },
            );
        }
    }

    /// A pod was bound.
    pub fn bound(&mut self, uid: &Text) {
        self.queue.delete(uid);
        self.volumes.remove(uid);
    }

    /// A pod could not be bound: what was assumed of it does not hold, and it is tried again after a while.
    pub fn not_bound(&mut self, uid: &Text, now: Moment) {
        if let Some((volumes, claims)) = self.volumes.remove(uid) {
            self.cluster.storage.forget(volumes, claims);
        }
        // The cluster may have said meanwhile that it is on a node after all.
        if self.cluster.is_assumed(uid)
            && let Some(pod) = self.cluster.remove_pod(uid)
        {
            self.queue.fail(uid, now);
            self.move_all_to_active_or_backoff_queue(&ClusterEvent::AssignedPodDelete(&pod), now);
        }
    }

    /// A preemption for a pod has ended.
    pub fn preempted(&mut self, uid: &Text, outcome: PreemptionOutcome, now: Moment) {
        self.queue.preempted(uid, outcome, now);
    }

    /// Time passed.
    pub fn tick(&mut self, now: Moment) {
        self.queue.flush_backoff_q_completed(now);
        self.queue.flush_unschedulable_pods_leftover(now);
    }

    /// Whether a pod can be tried now.
    pub fn is_ready(&self) -> bool {
        self.queue.is_ready()
    }

    /// Whether anything changes with time alone.
    pub fn is_ticking(&self) -> bool {
        self.queue.is_ticking()
    }

    /// How many pods wait, and for what.
    pub fn pending_pods(&self) -> PendingPods {
        self.queue.pending_pods()
    }

    /// How many pods entered which queue for which reason, since this was asked last.
    pub fn take_incoming(&mut self) -> impl Iterator<Item = (Incoming, u64)> {
        self.queue.take_incoming()
    }

    /// How many nodes and pods on nodes are known.
    pub fn sizes(&self) -> (usize, usize) {
        (self.cluster.order().len(), self.cluster.pods())
    }

    /// A pod that waits here, as it is known last.
    pub fn waiting_pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.queue.pod(uid)
    }

    fn placed(&mut self, old: Option<&Arc<Pod>>, new: &Arc<Pod>, now: Moment) {
        let was_placed = old.is_some_and(|old| old.node.is_some());
        self.cluster.put_pod(new.clone());
        match old {
            Some(old) if was_placed => {
                self.move_all_to_active_or_backoff_queue(&ClusterEvent::AssignedPodUpdate { old, new }, now);
            }
            _ => {
                self.queue.delete(&new.uid);
                self.nominator.remove(&new.uid);
                self.move_all_to_active_or_backoff_queue(&ClusterEvent::AssignedPodAdd(new), now);
            }
        }
    }

    fn waiting(&mut self, old: Option<&Arc<Pod>>, new: &Arc<Pod>, now: Moment) {
        if self.cluster.pod(&new.uid).is_some() {
            // Only assumed here: a pod that begins to go frees what it was to have.
            if new.terminating && old.is_some_and(|old| !old.terminating) {
                self.cluster.remove_pod(&new.uid);
                self.move_all_to_active_or_backoff_queue(&ClusterEvent::AssignedPodDelete(new), now);
            }
            return;
        }
        let Some(old) = old else {
            self.nominator.set(new.clone(), new.nominated_node_name.clone());
            self.queue.add(new.clone(), now);
            return;
        };
        if old.version == new.version && self.queue.pod(&new.uid).is_some() {
            return;
        }
        self.nominator.update(old, new);
        self.queue.update(old, new, &self.cluster, now);
        if old.nominated_node_name.is_some() && old.nominated_node_name != new.nominated_node_name {
            self.requeue_lower_priority_pods(old, now);
        }
    }

    /// Requeues pods of equal or lower priority, which may use what was reserved for a nominated pod.
    fn requeue_lower_priority_pods(&mut self, pod: &Arc<Pod>, now: Moment) {
        let priority = pod.priority();
        let among = |other: &Pod| other.priority() <= priority;
        self.queue.move_all_to_active_or_backoff_queue(
            &ClusterEvent::AssignedPodDelete(pod),
            &self.cluster,
            now,
            among,
        );
    }

    fn assume_and_bind(
        &mut self,
        pod: Arc<Pod>,
        placement: Placement,
        attempt: SchedulingAttempt,
    ) -> Decision {
        let Placement { node, volumes, .. } = placement;
        self.cluster.assume(Arc::new(pod.on(node.clone())));
        let storage = &mut self.cluster.storage;
        for (volume, claim) in &volumes.bind {
            storage.assume_volume(volume.name.clone(), claim);
        }
        for claim in &volumes.provision {
            storage.assume_claim(claim, node.clone());
        }
        if !volumes.bind.is_empty() || !volumes.provision.is_empty() {
            let bind = volumes
                .bind
                .iter()
                .map(|(volume, _)| volume.name.clone())
                .collect();
            let provision = volumes
                .provision
                .iter()
                .map(|claim| (claim.namespace.clone(), claim.name.clone()));
            self.volumes.insert(pod.uid.clone(), (bind, provision.collect()));
        }
        self.nominator.remove(&pod.uid);
        Decision::Bind {
            pod,
            node,
            volumes,
            attempt,
        }
    }

    // upstream: pkg/scheduler/schedule_one.go handleSchedulingFailure
    fn handle_scheduling_failure(
        &mut self,
        pod: Arc<Pod>,
        message: String,
        plugins: PluginSet,
        post_filter: PostFilterResult,
        now: Moment,
    ) -> Decision {
        let mut preemption = None;
        let preemption_attempted = !matches!(post_filter, PostFilterResult::Noop) && !plugins.is_empty();
        let nominating_info = match post_filter {
            PostFilterResult::Noop => {
                self.nominator.set(pod.clone(), pod.nominated_node_name.clone());
                NominatingInfo::Noop
            }
            PostFilterResult::NoCandidate => {
                self.nominator.set(pod.clone(), None);
                clears(&pod)
            }
            PostFilterResult::Candidate(Candidate { node, victims }) => {
                let weaker = self.nominator.on(&node).iter();
                let lower_priority_nominated_pods = weaker
                    .filter(|other| other.priority() < pod.priority())
                    .cloned()
                    .collect();
                self.nominator.set(pod.clone(), Some(node.clone()));
                let changed = pod.nominated_node_name.as_ref() != Some(&node);
                let victims: Vec<_> = victims.into_iter().filter(|victim| !victim.terminating).collect();
                if !victims.is_empty() {
                    self.queue.preempting(&pod.uid);
                    preemption = Some(Preemption {
                        node: node.clone(),
                        victims,
                        lower_priority_nominated_pods,
                    });
                }
                if changed {
                    NominatingInfo::Override(node)
                } else {
                    NominatingInfo::Noop
                }
            }
        };
        self.queue.reject(&pod.uid, plugins, now);
        Decision::Fail {
            pod,
            message,
            reason: FailureReason::Unschedulable,
            nominating_info,
            preemption_attempted,
            preemption,
        }
    }
}

/// What is to be written so that a pod is promised no node.
fn clears(pod: &Pod) -> NominatingInfo {
    match pod.nominated_node_name {
        Some(_) => NominatingInfo::Clear,
        None => NominatingInfo::Noop,
    }
}

#[cfg(test)]
mod tests;
