//! The scheduling queue: `activeQ`, `backoffQ` and `unschedulablePods`.
//!
//! A pod is in `activeQ`, or backs off for a while after it failed, or waits for an event that may help it. The pod of the
//! highest priority in `activeQ` is next; of pods of one priority the one that waits longest. When `activeQ` is empty, the next
//! pod of `backoffQ` is tried early: nothing is gained by idling.

mod pod_heap;
mod queued_pod_info;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use hashbrown::{HashMap, HashSet};

use crate::{
    cache::SchedulerCache,
    cluster_event::ClusterEvent,
    interner::Text,
    object::Pod,
    plugins::{PluginId, PluginSet, framework::Frameworks},
    scheduler_core::PreemptionOutcome,
};
use pod_heap::PodHeap;
use queued_pod_info::{QueueLocation, QueuedPodInfo};

/// Why a pod waits that was tried in vain.
const SCHEDULE_ATTEMPT_FAILURE: &str = "ScheduleAttemptFailure";

/// A time, as the time that has passed since some beginning.
pub type Moment = Duration;

/// How long pods wait.
#[derive(Clone, Copy, Debug)]
pub struct BackoffOptions {
    /// How long a pod backs off after its first failure; after each further one twice as long.
    pub initial_backoff: Duration,
    /// But no longer than this.
    pub max_backoff: Duration,
    /// After this, a pod is tried again although nothing happened that may help it.
    pub max_in_unschedulable_pods: Duration,
}

/// The pods that wait for a node.
#[derive(Debug, Default)]
// upstream: pkg/scheduler/backend/queue/scheduling_queue.go PriorityQueue
pub(crate) struct SchedulingQueue {
    backoff: BackoffOptions,
    frameworks: Arc<Frameworks>,
    entries: HashMap<Text, QueuedPodInfo>,
    active_q: PodHeap,
    backoff_q: PodHeap,
    /// Those that failed for no reason of their own; they are not tried early.
    error_backoff_q: PodHeap,
    unschedulable_pods: HashSet<Text>,
    rejected: HashMap<PluginId, usize>,
    preempting: HashMap<Text, bool>,
    arrivals: u64,
    /// How many of those that wait, wait for gates.
    gated: usize,
    /// How many pods entered which queue for which reason, since the last call of `take_incoming`.
    incoming: HashMap<Incoming, u64>,
}

/// A queue, and why a pod entered it; both in upstream's words.
pub type Incoming = (&'static str, &'static str);

/// A pod is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulingAttempt {
    /// The first time is 1.
    pub number: u32,
    /// When the pod was added to the queue.
    pub queued_at: Moment,
}

/// How many pods wait, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// Ready to be tried.
    pub active: usize,
    /// Backing off.
    pub backoff: usize,
    /// Waiting for something to happen.
    pub unschedulable: usize,
    /// Waiting for gates.
    pub gated: usize,
}

impl Default for BackoffOptions {
    fn default() -> Self {
        BackoffOptions {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            max_in_unschedulable_pods: Duration::from_mins(5),
        }
    }
}

impl SchedulingQueue {
    /// For pods of the scheduler names of the frameworks.
    pub(crate) fn new(backoff: BackoffOptions, frameworks: Arc<Frameworks>) -> Self {
        SchedulingQueue {
            backoff,
            frameworks,
            ..SchedulingQueue::default()
        }
    }

    /// Adds a pod.
    pub(crate) fn add(&mut self, pod: Arc<Pod>, now: Moment) {
        let uid = pod.uid.clone();
        self.delete(&uid);
        self.arrivals += 1;
        self.entries
            .insert(uid.clone(), QueuedPodInfo::new(pod, now, self.arrivals));
        self.move_to_active_or_backoff_queue(&uid, "PodAdd", now);
    }

    /// Pops the next pod. It is in flight until `reject`, `fail` or `delete`.
    // upstream: pkg/scheduler/backend/queue/active_queue.go pop
    // upstream: pkg/scheduler/backend/queue/scheduling_queue.go Pop
    pub(crate) fn pop(&mut self, now: Moment) -> Option<(Arc<Pod>, SchedulingAttempt)> {
        self.flush_backoff_q_completed(now);
        let uid = self.active_q.pop().or_else(|| self.backoff_q.pop())?;
        let entry = self.entries.get_mut(&uid)?;
        entry.location = QueueLocation::InFlight;
        entry.attempts += 1;
        let attempt = SchedulingAttempt {
            number: entry.attempts,
            queued_at: entry.queued_at,
        };
        Some((entry.pod.clone(), attempt))
    }

    /// No node did: some rules rejected the pod. Without any it is tried again after a while.
    // upstream: pkg/scheduler/backend/queue/scheduling_queue.go AddUnschedulablePodIfNotPresent
    pub(crate) fn reject(&mut self, uid: &Text, plugins: PluginSet, now: Moment) {
        if plugins.is_empty() {
            self.fail(uid, now);
            return;
        }
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        entry.unschedulable_count += 1;
        entry.consecutive_errors_count = 0;
        entry.since = now;
        entry.unschedulable_plugins = plugins;
        self.wait(uid, SCHEDULE_ATTEMPT_FAILURE);
    }

    /// The attempt failed with an error: the pod is retried after a backoff.
    pub(crate) fn fail(&mut self, uid: &Text, now: Moment) {
        self.leave(uid);
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        entry.consecutive_errors_count += 1;
        entry.unschedulable_plugins = PluginSet::default();
        entry.since = now;
        entry.location = QueueLocation::ErrorBackoffQ;
        let key = entry.backoff_key(&self.backoff);
        self.error_backoff_q.insert(key, uid.clone());
        self.entered(QueueLocation::ErrorBackoffQ, SCHEDULE_ATTEMPT_FAILURE);
    }

    /// A pod that waits changed, or is seen for the first time.
    pub(crate) fn update(&mut self, old: &Pod, new: &Arc<Pod>, cluster: &SchedulerCache, now: Moment) {
        let uid = new.uid.clone();
        let Some(entry) = self.entries.get(&uid) else {
            self.add(new.clone(), now);
            return;
        };
        match entry.location {
            QueueLocation::InFlight => self.set(&uid, new),
            QueueLocation::UnschedulablePods => {
                self.set(&uid, new);
                let event = ClusterEvent::UnscheduledPodUpdate { old, new };
                if self.is_pod_worth_requeuing(&uid, &event, cluster) {
                    self.move_to_active_or_backoff_queue(&uid, event.name(), now);
                }
            }
            location => {
                self.leave(&uid);
                self.set(&uid, new);
                self.enter(&uid, location);
            }
        }
    }

    /// Removes a pod that was bound or deleted.
    pub(crate) fn delete(&mut self, uid: &Text) {
        self.leave(uid);
        self.entries.remove(uid);
        self.preempting.remove(uid);
    }

    /// Moves the pods that an event may make schedulable. Only those that `among` admits are checked.
    // upstream: pkg/scheduler/backend/queue/scheduling_queue.go MoveAllToActiveOrBackoffQueue
    pub(crate) fn move_all_to_active_or_backoff_queue(
        &mut self,
        event: &ClusterEvent<'_>,
        cluster: &SchedulerCache,
        now: Moment,
        among: impl Fn(&Pod) -> bool,
    ) {
        let events_to_register = self.frameworks.registered_for(event);
        if !events_to_register
            .iter()
            .any(|plugin| self.rejected.get(&plugin).is_some_and(|count| *count > 0))
        {
            return;
        }
        let asked = self.unschedulable_pods.iter().filter(|uid| {
            let entry = self.entries.get(*uid);
            entry.is_some_and(|entry| {
                entry.unschedulable_plugins.intersects(events_to_register) && among(&entry.pod)
            })
        });
        let asked: Vec<_> = asked.cloned().collect();
        for uid in asked {
            if self.is_pod_worth_requeuing(&uid, event, cluster) {
                self.move_to_active_or_backoff_queue(&uid, event.name(), now);
            }
        }
    }

    /// A preemption for the pod is under way; the pod is not retried before it is done.
    pub(crate) fn preempting(&mut self, uid: &Text) {
        self.preempting.insert(uid.clone(), false);
    }

    /// A preemption for the pod has ended.
    pub(crate) fn preempted(&mut self, uid: &Text, outcome: PreemptionOutcome, now: Moment) {
        let missed = self.preempting.remove(uid).unwrap_or(false);
        if (missed || outcome == PreemptionOutcome::Failed) && self.unschedulable_pods.contains(uid) {
            self.move_to_active_or_backoff_queue(uid, "AssignedPodDelete", now);
        }
    }

    /// Moves pods whose backoff is complete to the active queue (upstream's `flushBackoffQCompleted`).
    // upstream: pkg/scheduler/backend/queue/backoff_queue.go popAllBackoffCompleted
    // upstream: pkg/scheduler/backend/queue/scheduling_queue.go flushBackoffQCompleted
    pub(crate) fn flush_backoff_q_completed(&mut self, now: Moment) {
        for location in [QueueLocation::BackoffQ, QueueLocation::ErrorBackoffQ] {
            while let Some(uid) = self.order(location).first().cloned() {
                if self
                    .entries
                    .get(&uid)
                    .is_some_and(|entry| entry.backs_off(&self.backoff, now))
                {
                    break;
                }
                self.leave(&uid);
                self.enter(&uid, QueueLocation::ActiveQ);
                self.entered(QueueLocation::ActiveQ, "BackoffComplete");
            }
        }
    }

    /// Retries pods that stayed in `unschedulablePods` too long.
    // upstream: pkg/scheduler/backend/queue/scheduling_queue.go flushUnschedulableEntitiesLeftover
    pub(crate) fn flush_unschedulable_pods_leftover(&mut self, now: Moment) {
        let backoff = self.backoff;
        let leftover = self.unschedulable_pods.iter().filter(|uid| {
            let entry = self.entries.get(*uid);
            entry.is_some_and(|entry| {
                entry.gating_plugin.is_none()
                    && now.saturating_sub(entry.since) > backoff.max_in_unschedulable_pods
            })
        });
        let leftover: Vec<_> = leftover.cloned().collect();
        for uid in leftover {
            self.move_to_active_or_backoff_queue(&uid, "UnschedulableTimeout", now);
        }
    }

    /// A pod that is known here.
    pub(crate) fn pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.entries.get(uid).map(|entry| &entry.pod)
    }

    /// Whether a pod can be tried now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.active_q.is_empty() || !self.backoff_q.is_empty()
    }

    /// Whether anything changes with time alone.
    pub(crate) fn is_ticking(&self) -> bool {
        !self.error_backoff_q.is_empty() || !self.unschedulable_pods.is_empty()
    }

    /// How many pods wait, and for what.
    pub(crate) fn pending_pods(&self) -> PendingPods {
        PendingPods {
            active: self.active_q.len(),
            backoff: self.backoff_q.len() + self.error_backoff_q.len(),
            unschedulable: self.unschedulable_pods.len() - self.gated,
            gated: self.gated,
        }
    }

    /// How many pods entered which queue for which reason, since this was asked last.
    pub(crate) fn take_incoming(&mut self) -> impl Iterator<Item = (Incoming, u64)> {
        self.incoming.drain()
    }

    fn entered(&mut self, location: QueueLocation, why: &'static str) {
        let queue = match location {
            QueueLocation::ActiveQ => "active",
            QueueLocation::BackoffQ | QueueLocation::ErrorBackoffQ => "backoff",
            QueueLocation::UnschedulablePods => "unschedulable",
            QueueLocation::InFlight => return,
        };
        *self.incoming.entry((queue, why)).or_default() += 1;
    }

    // upstream: pkg/scheduler/backend/queue/scheduling_queue.go isPodWorthRequeuing
    fn is_pod_worth_requeuing(&self, uid: &Text, event: &ClusterEvent<'_>, cluster: &SchedulerCache) -> bool {
        let Some(entry) = self.entries.get(uid) else {
            return false;
        };
        let Some(framework) = self.frameworks.get(&entry.pod.spec.scheduler) else {
            return false;
        };
        let queueing_hint = |plugin| framework.queueing_hint(plugin, &entry.pod, event, cluster);
        match entry.gating_plugin {
            Some(gating_plugin) => queueing_hint(gating_plugin),
            None => entry.unschedulable_plugins.iter().any(queueing_hint),
        }
    }

    /// A pod is to be tried again: at once, or when it has backed off.
    fn move_to_active_or_backoff_queue(&mut self, uid: &Text, why: &'static str, now: Moment) {
        if let Some(missed) = self.preempting.get_mut(uid) {
            *missed = true;
            return;
        }
        self.leave(uid);
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        let framework = self.frameworks.get(&entry.pod.spec.scheduler);
        entry.gating_plugin = framework.and_then(|framework| framework.gating_plugin(&entry.pod));
        if entry.gating_plugin.is_some() {
            self.wait(uid, why);
        } else {
            let location = if entry.backs_off(&self.backoff, now) {
                QueueLocation::BackoffQ
            } else {
                QueueLocation::ActiveQ
            };
            self.enter(uid, location);
            self.entered(location, why);
        }
    }

    fn set(&mut self, uid: &Text, pod: &Arc<Pod>) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.pod = pod.clone();
        }
    }

    fn wait(&mut self, uid: &Text, why: &'static str) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        entry.location = QueueLocation::UnschedulablePods;
        for plugin in entry.unschedulable_plugins.iter() {
            *self.rejected.entry(plugin).or_default() += 1;
        }
        self.gated += usize::from(entry.gating_plugin.is_some());
        self.unschedulable_pods.insert(uid.clone());
        self.entered(QueueLocation::UnschedulablePods, why);
    }

    fn enter(&mut self, uid: &Text, location: QueueLocation) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        entry.location = location;
        let key = if location == QueueLocation::ActiveQ {
            entry.active_q_key()
        } else {
            entry.backoff_key(&self.backoff)
        };
        self.order(location).insert(key, uid.clone());
    }

    fn leave(&mut self, uid: &Text) {
        let Some(entry) = self.entries.get(uid) else {
            return;
        };
        let location = entry.location;
        let plugins = entry.unschedulable_plugins;
        let is_gated = entry.gating_plugin.is_some();
        let key = if location == QueueLocation::ActiveQ {
            entry.active_q_key()
        } else {
            entry.backoff_key(&self.backoff)
        };
        match location {
            QueueLocation::InFlight => {}
            QueueLocation::UnschedulablePods => {
                if self.unschedulable_pods.remove(uid) {
                    self.gated -= usize::from(is_gated);
                    for plugin in plugins.iter() {
                        *self.rejected.entry(plugin).or_insert(1) -= 1;
                    }
                }
            }
            location => self.order(location).remove(&key),
        }
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.location = QueueLocation::InFlight;
        }
    }

    fn order(&mut self, location: QueueLocation) -> &mut PodHeap {
        match location {
            QueueLocation::ActiveQ => &mut self.active_q,
            QueueLocation::ErrorBackoffQ => &mut self.error_backoff_q,
            _ => &mut self.backoff_q,
        }
    }
}
