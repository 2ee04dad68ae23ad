//! The scheduler without its cluster: it is told what happens, and says what is to be done.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::{
    cluster::{Cluster, Key},
    cycle::{Engine, Found, Nominator, Placement, Preemption, Tried},
    event::Event,
    object::{Node, Pod, Service},
    plugins::{Decided, Plugins},
    pool::Text,
    profile::Profile,
    queue::{Attempt, Depths, Incoming, Moment, Patience, Queue},
};

/// Everything a scheduler knows and has decided. It belongs to one task.
#[derive(Debug)]
pub struct Core {
    pub(crate) cluster: Cluster,
    queue: Queue,
    engine: Engine,
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
        volumes: Decided,
        /// How often it was tried, and since when.
        attempt: Attempt,
    },
    /// It cannot be placed now: that is to be told.
    Refuse {
        /// The pod.
        pod: Arc<Pod>,
        /// Why.
        message: String,
        /// Whether the cluster is the reason; else the scheduler is.
        unschedulable: bool,
        /// Where it may be placed soon: what its status is to say.
        nominate: Nominate,
        /// Whether it was looked who could go for it.
        tried: bool,
        /// Who is to go for it.
        preemption: Option<Preempt>,
    },
    /// It is going: that it is not tried is to be told.
    Skip(Arc<Pod>),
}

/// What the status of a pod is to say about where it may be placed soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nominate {
    /// What it says now.
    Keep,
    /// Nothing.
    Nowhere,
    /// This node.
    On(Text),
}

/// Who is to go for a pod.
#[derive(Debug)]
pub struct Preempt {
    /// Where.
    pub node: Text,
    /// Who.
    pub victims: Vec<Arc<Pod>>,
    /// Weaker pods that were promised that node; they are not any more.
    pub disappointed: Vec<Arc<Pod>>,
}

impl Core {
    /// With the rules of some scheduler names; chance comes from a seed.
    pub fn new(profiles: Vec<Profile>, patience: Patience, seed: u64) -> Self {
        Core {
            cluster: Cluster::default(),
            queue: Queue::new(patience),
            engine: Engine::new(profiles, seed),
            nominator: Nominator::default(),
            volumes: HashMap::new(),
        }
    }

    /// A node is as it is now.
    pub fn node(&mut self, new: &Arc<Node>, now: Moment) {
        match self.cluster.set_node(new) {
            None => self.happened(&Event::NodeCame(new), now),
            Some(old) if old != *new => self.happened(&Event::NodeChanged { old: &old, new }, now),
            Some(_) => {}
        }
    }

    /// A node is gone.
    pub fn node_gone(&mut self, name: &str, now: Moment) {
        if let Some(node) = self.cluster.remove_node(name) {
            self.happened(&Event::NodeWent(&node), now);
        }
    }

    /// A service is as it is now.
    pub fn service(&mut self, service: &Service) {
        let (namespace, name) = (service.namespace.clone(), service.name.clone());
        self.cluster
            .groups
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

    /// A pod is gone.
    pub fn pod_gone(&mut self, pod: &Arc<Pod>, now: Moment) {
        self.queue.delete(&pod.uid);
        self.nominator.remove(&pod.uid);
        if let Some(gone) = self.cluster.remove_pod(&pod.uid) {
            self.happened(&Event::PodWent(&gone), now);
        } else if pod.nominated.is_some() {
            self.freed_for_weaker(pod, now);
        }
    }

    /// Something else happened that may help pods.
    pub fn happened(&mut self, event: &Event<'_>, now: Moment) {
        self.queue.happened(event, &self.cluster, now, |_| true);
    }

    /// The next decision, if any pod is ready.
    pub fn next(&mut self, now: Moment) -> Option<Decision> {
        loop {
            let (pod, attempt) = self.queue.pop(now)?;
            if pod.going {
                self.queue.delete(&pod.uid);
                return Some(Decision::Skip(pod));
            }
            if self.cluster.pod(&pod.uid).is_some() {
                self.queue.delete(&pod.uid);
                continue;
            }
            return Some(match self.engine.find(&pod, &self.cluster, &self.nominator) {
                Found::Node(placement) => self.place(pod, placement, attempt),
                Found::Unfit(unfit) => self.refuse(pod, unfit.message, unfit.plugins, unfit.tried, now),
                Found::NoNodes => {
                    let message = "no nodes available to schedule pods".into();
                    self.refuse(pod, message, Plugins::default(), Tried::Useless, now)
                }
                Found::Failed(message) => {
                    self.queue.fail(&pod.uid, now);
                    self.nominator.set(pod.clone(), None);
                    Decision::Refuse {
                        nominate: clears(&pod),
                        pod,
                        message,
                        unschedulable: false,
                        tried: false,
                        preemption: None,
                    }
                }
            });
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
            self.happened(&Event::PodWent(&pod), now);
        }
    }

    /// Others were pushed away for a pod, or could not be.
    pub fn preempted(&mut self, uid: &Text, done: bool, now: Moment) {
        self.queue.preempted(uid, done, now);
    }

    /// Time passed.
    pub fn tick(&mut self, now: Moment) {
        self.queue.wake(now);
        self.queue.remember(now);
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
    pub fn depths(&self) -> Depths {
        self.queue.depths()
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
            Some(old) if was_placed => self.happened(&Event::PodChanged { old, new }, now),
            _ => {
                self.queue.delete(&new.uid);
                self.nominator.remove(&new.uid);
                self.happened(&Event::PodCame(new), now);
            }
        }
    }

    fn waiting(&mut self, old: Option<&Arc<Pod>>, new: &Arc<Pod>, now: Moment) {
        if self.cluster.pod(&new.uid).is_some() {
            // Only assumed here: a pod that begins to go frees what it was to have.
            if new.going && old.is_some_and(|old| !old.going) {
                self.cluster.remove_pod(&new.uid);
                self.happened(&Event::PodWent(new), now);
            }
            return;
        }
        let Some(old) = old else {
            self.nominator.set(new.clone(), new.nominated.clone());
            self.queue.add(new.clone(), now);
            return;
        };
        if old.version == new.version && self.queue.pod(&new.uid).is_some() {
            return;
        }
        self.nominator.update(old, new);
        self.queue.update(old, new, &self.cluster, now);
        if old.nominated.is_some() && old.nominated != new.nominated {
            self.freed_for_weaker(old, now);
        }
    }

    /// What a pod was promised is free for those that are not more important.
    fn freed_for_weaker(&mut self, pod: &Arc<Pod>, now: Moment) {
        let priority = pod.priority();
        let among = |other: &Pod| other.priority() <= priority;
        self.queue
            .happened(&Event::PodWent(pod), &self.cluster, now, among);
    }

    fn place(&mut self, pod: Arc<Pod>, placement: Placement, attempt: Attempt) -> Decision {
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

    fn refuse(
        &mut self,
        pod: Arc<Pod>,
        message: String,
        plugins: Plugins,
        tried: Tried,
        now: Moment,
    ) -> Decision {
        let mut preemption = None;
        let is_tried = !matches!(tried, Tried::Nothing) && !plugins.is_empty();
        let nominate = match tried {
            Tried::Nothing => {
                self.nominator.set(pod.clone(), pod.nominated.clone());
                Nominate::Keep
            }
            Tried::Useless => {
                self.nominator.set(pod.clone(), None);
                clears(&pod)
            }
            Tried::Found(Preemption { node, victims }) => {
                let weaker = self.nominator.on(&node).iter();
                let disappointed = weaker
                    .filter(|other| other.priority() < pod.priority())
                    .cloned()
                    .collect();
                self.nominator.set(pod.clone(), Some(node.clone()));
                let changed = pod.nominated.as_ref() != Some(&node);
                let victims: Vec<_> = victims.into_iter().filter(|victim| !victim.going).collect();
                if !victims.is_empty() {
                    self.queue.preempting(&pod.uid);
                    preemption = Some(Preempt {
                        node: node.clone(),
                        victims,
                        disappointed,
                    });
                }
                if changed {
                    Nominate::On(node)
                } else {
                    Nominate::Keep
                }
            }
        };
        self.queue.reject(&pod.uid, plugins, now);
        Decision::Refuse {
            pod,
            message,
            unschedulable: true,
            nominate,
            tried: is_tried,
            preemption,
        }
    }
}

/// What is to be written so that a pod is promised no node.
fn clears(pod: &Pod) -> Nominate {
    match pod.nominated {
        Some(_) => Nominate::Nowhere,
        None => Nominate::Keep,
    }
}

#[cfg(test)]
mod tests;
