//! The pods that wait for a node.
//!
//! A pod is ready, or backs off for a while after it failed, or waits for something to happen that may help it. The
//! most important ready pod is next; of equals the one that waits longest. When none is ready, the next that backs off
//! is tried early: nothing is gained by idling.

mod entry;
mod order;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use hashbrown::{HashMap, HashSet};

use crate::{
    cluster::Cluster,
    event::Event,
    object::Pod,
    plugins::{Plugin, Plugins, calls, gated},
    pool::Text,
};
use entry::{Entry, Place};
use order::Order;

/// Why a pod waits that was tried in vain.
const FAILED_ATTEMPT: &str = "ScheduleAttemptFailure";

/// A time, as the time that has passed since some beginning.
pub type Moment = Duration;

/// How long pods wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long a pod backs off after its first failure; after each further one twice as long.
    pub first: Duration,
    /// But no longer than this.
    pub most: Duration,
    /// After this, a pod is tried again although nothing happened that may help it.
    pub forgotten: Duration,
}

/// The pods that wait for a node.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    patience: Patience,
    entries: HashMap<Text, Entry>,
    ready: Order,
    backing_off: Order,
    /// Those that failed for no reason of their own; they are not tried early.
    failed: Order,
    waiting: HashSet<Text>,
    rejected: HashMap<Plugin, usize>,
    preempting: HashMap<Text, bool>,
    arrivals: u64,
    /// How many of those that wait, wait for gates.
    gated: usize,
    /// How many pods entered which queue for which reason, since somebody asked.
    incoming: HashMap<Incoming, u64>,
}

/// A queue, and why a pod entered it; both in upstream's words.
pub type Incoming = (&'static str, &'static str);

/// A pod is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// The first time is 1.
    pub number: u32,
    /// When it came to wait.
    pub came: Moment,
}

/// How many pods wait, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// Ready to be tried.
    pub active: usize,
    /// Backing off.
    pub backoff: usize,
    /// Waiting for something to happen.
    pub unschedulable: usize,
    /// Waiting for gates.
    pub gated: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            first: Duration::from_secs(1),
            most: Duration::from_secs(10),
            forgotten: Duration::from_mins(5),
        }
    }
}

impl Queue {
    /// With a patience of one's own.
    pub(crate) fn new(patience: Patience) -> Self {
        Queue {
            patience,
            ..Queue::default()
        }
    }

    /// A pod came.
    pub(crate) fn add(&mut self, pod: Arc<Pod>, now: Moment) {
        let uid = pod.uid.clone();
        self.delete(&uid);
        self.arrivals += 1;
        self.entries
            .insert(uid.clone(), Entry::new(pod, now, self.arrivals));
        self.requeue(&uid, "PodAdd", now);
    }

    /// The next pod that is to be tried. It is in flight until one says what became of it.
    pub(crate) fn pop(&mut self, now: Moment) -> Option<(Arc<Pod>, Attempt)> {
        self.wake(now);
        let uid = self.ready.pop().or_else(|| self.backing_off.pop())?;
        let entry = self.entries.get_mut(&uid)?;
        entry.place = Place::Flight;
        entry.attempts += 1;
        let attempt = Attempt {
            number: entry.attempts,
            came: entry.came,
        };
        Some((entry.pod.clone(), attempt))
    }

    /// No node did: some rules rejected the pod. Without any it is tried again after a while.
    pub(crate) fn reject(&mut self, uid: &Text, plugins: Plugins, now: Moment) {
        if plugins.is_empty() {
            self.fail(uid, now);
            return;
        }
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        entry.rejections += 1;
        entry.failures = 0;
        entry.since = now;
        entry.plugins = plugins;
        self.wait(uid, FAILED_ATTEMPT);
    }

    /// Something went wrong that has nothing to do with the pod: it is tried again after a while.
    pub(crate) fn fail(&mut self, uid: &Text, now: Moment) {
        self.leave(uid);
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        entry.failures += 1;
        entry.plugins = Plugins::default();
        entry.since = now;
        entry.place = Place::Failed;
        let key = entry.backoff_key(&self.patience);
        self.failed.insert(key, uid.clone());
        self.entered(Place::Failed, FAILED_ATTEMPT);
    }

    /// A pod that waits changed, or is seen for the first time.
    pub(crate) fn update(&mut self, old: &Pod, new: &Arc<Pod>, cluster: &Cluster, now: Moment) {
        let uid = new.uid.clone();
        let Some(entry) = self.entries.get(&uid) else {
            self.add(new.clone(), now);
            return;
        };
        match entry.place {
            Place::Flight => self.set(&uid, new),
            Place::Waiting => {
                self.set(&uid, new);
                let event = Event::ItselfChanged { old, new };
                if self.helps(&uid, &event, cluster) {
                    self.requeue(&uid, event.name(), now);
                }
            }
            place => {
                self.leave(&uid);
                self.set(&uid, new);
                self.enter(&uid, place);
            }
        }
    }

    /// A pod is placed, or gone.
    pub(crate) fn delete(&mut self, uid: &Text) {
        self.leave(uid);
        self.entries.remove(uid);
        self.preempting.remove(uid);
    }

    /// Something happened: the pods that it may help are tried again. Only those that `among` admits are asked.
    pub(crate) fn happened(
        &mut self,
        event: &Event<'_>,
        cluster: &Cluster,
        now: Moment,
        among: impl Fn(&Pod) -> bool,
    ) {
        let interested = calls::interested(event);
        if !interested
            .iter()
            .any(|plugin| self.rejected.get(&plugin).is_some_and(|count| *count > 0))
        {
            return;
        }
        let asked = self.waiting.iter().filter(|uid| {
            let entry = self.entries.get(*uid);
            entry.is_some_and(|entry| entry.plugins.meets(interested) && among(&entry.pod))
        });
        let asked: Vec<_> = asked.cloned().collect();
        for uid in asked {
            if self.helps(&uid, event, cluster) {
                self.requeue(&uid, event.name(), now);
            }
        }
    }

    /// Others are being pushed away for a pod; it is not tried before that is done.
    pub(crate) fn preempting(&mut self, uid: &Text) {
        self.preempting.insert(uid.clone(), false);
    }

    /// Others were pushed away for a pod, or could not be.
    pub(crate) fn preempted(&mut self, uid: &Text, done: bool, now: Moment) {
        let missed = self.preempting.remove(uid).unwrap_or(false);
        if (missed || !done) && self.waiting.contains(uid) {
            self.requeue(uid, "AssignedPodDelete", now);
        }
    }

    /// Pods whose time has come are ready; those that nothing happened for in a long time are tried again.
    pub(crate) fn wake(&mut self, now: Moment) {
        for place in [Place::BackingOff, Place::Failed] {
            while let Some(uid) = self.order(place).first().cloned() {
                if self
                    .entries
                    .get(&uid)
                    .is_some_and(|entry| entry.backs_off(&self.patience, now))
                {
                    break;
                }
                self.leave(&uid);
                self.enter(&uid, Place::Ready);
                self.entered(Place::Ready, "BackoffComplete");
            }
        }
    }

    /// Pods that nothing happened for in a long time are tried again.
    pub(crate) fn remember(&mut self, now: Moment) {
        let patience = self.patience;
        let forgotten = self.waiting.iter().filter(|uid| {
            let entry = self.entries.get(*uid);
            entry.is_some_and(|entry| {
                entry.gate.is_none() && now.saturating_sub(entry.since) > patience.forgotten
            })
        });
        let forgotten: Vec<_> = forgotten.cloned().collect();
        for uid in forgotten {
            self.requeue(&uid, "UnschedulableTimeout", now);
        }
    }

    /// A pod that is known here.
    pub(crate) fn pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.entries.get(uid).map(|entry| &entry.pod)
    }

    /// Whether a pod can be tried now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty() || !self.backing_off.is_empty()
    }

    /// Whether anything changes with time alone.
    pub(crate) fn is_ticking(&self) -> bool {
        !self.failed.is_empty() || !self.waiting.is_empty()
    }

    /// How many pods wait, and for what.
    pub(crate) fn depths(&self) -> Depths {
        Depths {
            active: self.ready.len(),
            backoff: self.backing_off.len() + self.failed.len(),
            unschedulable: self.waiting.len() - self.gated,
            gated: self.gated,
        }
    }

    /// How many pods entered which queue for which reason, since this was asked last.
    pub(crate) fn take_incoming(&mut self) -> impl Iterator<Item = (Incoming, u64)> {
        self.incoming.drain()
    }

    fn entered(&mut self, place: Place, why: &'static str) {
        let queue = match place {
            Place::Ready => "active",
            Place::BackingOff | Place::Failed => "backoff",
            Place::Waiting => "unschedulable",
            Place::Flight => return,
        };
        *self.incoming.entry((queue, why)).or_default() += 1;
    }

    fn helps(&self, uid: &Text, event: &Event<'_>, cluster: &Cluster) -> bool {
        let Some(entry) = self.entries.get(uid) else {
            return false;
        };
        match entry.gate {
            Some(gate) => calls::helps(gate, &entry.pod, event, cluster),
            None => entry
                .plugins
                .iter()
                .any(|plugin| calls::helps(plugin, &entry.pod, event, cluster)),
        }
    }

    /// A pod is to be tried again: at once, or when it has backed off.
    fn requeue(&mut self, uid: &Text, why: &'static str, now: Moment) {
        if let Some(missed) = self.preempting.get_mut(uid) {
            *missed = true;
            return;
        }
        self.leave(uid);
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        entry.gate = gated(&entry.pod);
        if entry.gate.is_some() {
            self.wait(uid, why);
        } else {
            let place = if entry.backs_off(&self.patience, now) {
                Place::BackingOff
            } else {
                Place::Ready
            };
            self.enter(uid, place);
            self.entered(place, why);
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
        entry.place = Place::Waiting;
        for plugin in entry.plugins.iter() {
            *self.rejected.entry(plugin).or_default() += 1;
        }
        self.gated += usize::from(entry.gate.is_some());
        self.waiting.insert(uid.clone());
        self.entered(Place::Waiting, why);
    }

    fn enter(&mut self, uid: &Text, place: Place) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        entry.place = place;
        let key = if place == Place::Ready {
            entry.ready_key()
        } else {
            entry.backoff_key(&self.patience)
        };
        self.order(place).insert(key, uid.clone());
    }

    fn leave(&mut self, uid: &Text) {
        let Some(entry) = self.entries.get(uid) else {
            return;
        };
        let (place, plugins, is_gated) = (entry.place, entry.plugins, entry.gate.is_some());
        let key = if place == Place::Ready {
            entry.ready_key()
        } else {
            entry.backoff_key(&self.patience)
        };
        match place {
            Place::Flight => {}
            Place::Waiting => {
                if self.waiting.remove(uid) {
                    self.gated -= usize::from(is_gated);
                    for plugin in plugins.iter() {
                        *self.rejected.entry(plugin).or_insert(1) -= 1;
                    }
                }
            }
            place => self.order(place).remove(&key),
        }
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.place = Place::Flight;
        }
    }

    fn order(&mut self, place: Place) -> &mut Order {
        match place {
            Place::Ready => &mut self.ready,
            Place::Failed => &mut self.failed,
            _ => &mut self.backing_off,
        }
    }
}
