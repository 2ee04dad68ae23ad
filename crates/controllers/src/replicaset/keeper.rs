//! Makes and deletes the pods of a set, whatever kind of set it is.
//!
//! Promises: a set is left alone until all that was made or deleted for it has been seen. What was made before a crash is
//! found again by its owner. If two copies run, one pod too many is deleted by both, and it is the same one.

use std::{cmp::Ordering, collections::HashSet, sync::Arc};

use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    expectations::ControllerExpectations,
    informer::Informer,
};

use super::status::{self, Seen};
use crate::{
    calm::Calm,
    family::{Family, Parent},
    objects::{Pod, ReplicaSpec, ReplicaStatus, Selector, Thing},
    pods::{
        batch::{self, Tally},
        hands::Hands,
        making::NewPod,
        ranking,
    },
    resource::{PODS, Resource},
    writer::{Made, Place, Writer, is, words},
};

/// How many pods are made or deleted before the set is looked at again.
const BURST: usize = 500;

pub(crate) type Set<S> = Thing<ReplicaSpec<S>, ReplicaStatus>;

/// A kind of sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetKind {
    pub(crate) resource: &'static Resource,
    /// Whether its status tells how many pods are going.
    pub(crate) tells_going: bool,
}

/// Keeps the sets of a kind at their sizes.
pub(super) struct Keeper<S: Send + Sync + 'static> {
    pub(super) kind: SetKind,
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) sets: Informer<Set<S>>,
    pub(super) siblings: Family<Set<S>>,
    pub(super) pods: Family<Pod>,
    pub(super) expected: Arc<ControllerExpectations>,
    pub(super) calm: Calm,
}

/// Why a set does not have the pods it should have.
struct Trouble {
    words: String,
    error: Error,
}

impl<S: AsRef<Selector> + Send + Sync + 'static> Reconciler for Keeper<S> {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(set) = self.sets.store().get(key) else {
            self.expected.delete_expectations(key);
            self.calm.forget(key);
            return Ok(Outcome::Done);
        };
        let is_new = set.metadata.generation != set.status.observed_generation;
        if let Some(left) = self.calm.left(key).filter(|_| !is_new) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let children = self.pods.children(&set.metadata.uid);
        let going = self.kind.tells_going.then(|| {
            let is_counted = |pod: &&Arc<Pod>| pod.is_terminating() && selects(&set, pod);
            children.iter().filter(is_counted).count()
        });
        let active = self.claim(&set, children).await?;
        let trouble = if self.expected.are_satisfied(key) && !set.metadata.is_going() {
            self.adjust(&request, &set, &active).await
        } else {
            None
        };
        let seen = Seen {
            spec: &set.spec,
            generation: set.metadata.generation,
            before: &set.status,
            active: &active,
            going,
            failure: trouble.as_ref().map(|trouble| &*trouble.words),
            now: self.clock.now(),
        };
        let status = seen.status();
        if status != set.status {
            self.write_status(&request, &set, &status).await?;
        }
        match trouble {
            Some(trouble) => Err(trouble.error),
            None => Ok(seen.next_available().map_or(Outcome::Done, Outcome::RequeueAfter)),
        }
    }
}

fn selects<S: AsRef<Selector>>(set: &Set<S>, pod: &Pod) -> bool {
    set.spec.selector.as_ref().matches(&pod.metadata.labels)
}

impl<S: AsRef<Selector> + Send + Sync + 'static> Keeper<S> {
    fn parent<'a>(&self, set: &'a Set<S>) -> Parent<'a> {
        Parent {
            meta: &set.metadata,
            resource: self.kind.resource,
            children: &PODS,
        }
    }

    /// The pods of a set that do their work, or will.
    async fn claim(&self, set: &Set<S>, mut pods: Vec<Arc<Pod>>) -> kube::Result<Vec<Arc<Pod>>> {
        pods.extend(self.pods.orphans(&set.metadata.namespace));
        pods.retain(|pod| pod.is_active());
        let matches = |pod: &Pod| selects(set, pod);
        self.parent(set).claim(&self.writer, pods, matches).await
    }

    /// Makes pods that are missing, or deletes those that are too many.
    async fn adjust(&self, request: &Request, set: &Set<S>, active: &[Arc<Pod>]) -> Option<Trouble> {
        let wanted = usize::try_from(set.spec.replicas).unwrap_or(0);
        match active.len().cmp(&wanted) {
            Ordering::Less => self.make(request, set, (wanted - active.len()).min(BURST)).await,
            Ordering::Greater => {
                self.delete(request, set, active, (active.len() - wanted).min(BURST))
                    .await
            }
            Ordering::Equal => None,
        }
    }

    // --- making ---

    async fn make(&self, request: &Request, set: &Set<S>, count: usize) -> Option<Trouble> {
        let owner = self.parent(set).owner();
        let hands = self.hands(set);
        let text = match NewPod::new(&set.spec.template, owner).and_then(|pod| pod.text()) {
            Ok(text) => text,
            Err(unmakeable) => {
                hands.tell_unmakeable(&unmakeable);
                let words = unmakeable.to_string();
                let error = Error::permanent(unmakeable);
                return Some(Trouble { words, error });
            }
        };
        self.expected.expect_creations(&request.key, count);
        let tally = batch::slow_start(count, || hands.make(&text)).await;
        // Those that were not made will not be seen.
        self.expected.lower_expectations(&request.key, count - tally.done);
        tally.error.flatten().map(|error| Trouble {
            words: words(&error),
            error: error.into(),
        })
    }

    // --- deleting ---

    async fn delete(
        &self,
        request: &Request,
        set: &Set<S>,
        active: &[Arc<Pod>],
        count: usize,
    ) -> Option<Trouble> {
        let chosen = ranking::first_to_go(active.to_vec(), &self.kin(set), count, self.clock.now());
        let uids = chosen.iter().map(|pod| &*pod.metadata.uid);
        self.expected.expect_deletions(&request.key, uids);
        let hands = self.hands(set);
        let deletions: Vec<_> = chosen
            .iter()
            .map(|pod| self.delete_one(request, &hands, pod))
            .collect();
        let Tally { error, .. } = batch::all(deletions).await;
        // What was gone before it was expected to go will not be seen going.
        let left: HashSet<_> = self
            .pods
            .children(&set.metadata.uid)
            .into_iter()
            .filter(|pod| !pod.metadata.is_going())
            .map(|pod| pod.metadata.uid.clone())
            .collect();
        for pod in chosen.iter().filter(|pod| !left.contains(&pod.metadata.uid)) {
            self.expected.deletion_observed(&request.key, &pod.metadata.uid);
        }
        error.map(|error| Trouble {
            words: format!("unable to delete pods: {}", words(&error)),
            error: error.into(),
        })
    }

    async fn delete_one(&self, request: &Request, hands: &Hands<'_>, pod: &Pod) -> kube::Result<()> {
        let deleted = hands.delete(pod).await;
        if !matches!(deleted, Ok(true)) {
            self.expected.deletion_observed(&request.key, &pod.metadata.uid);
        }
        deleted.map(|_| ())
    }

    /// The pods of all sets of one owner.
    fn kin(&self, set: &Set<S>) -> Vec<Arc<Pod>> {
        let Some(owner) = set.metadata.controller() else {
            return Vec::new();
        };
        let siblings = self.siblings.children(&owner.uid);
        let mut seen = HashSet::new();
        let pods = siblings
            .iter()
            .flat_map(|sibling| self.pods.children(&sibling.metadata.uid));
        pods.filter(|pod| seen.insert(pod.metadata.uid.clone())).collect()
    }

    // --- telling ---

    fn hands<'a>(&'a self, set: &'a Set<S>) -> Hands<'a> {
        Hands::new(&self.writer, &self.recorder, &set.metadata, self.kind.resource)
    }

    async fn write_status(
        &self,
        request: &Request,
        set: &Set<S>,
        status: &ReplicaStatus,
    ) -> kube::Result<()> {
        let patch = status::patch(status, &set.metadata.resource_version);
        let place =
            Place::new(self.kind.resource, &set.metadata.namespace, &set.metadata.name).part("status");
        match self.writer.update::<Made>(place, &patch).await {
            Ok(made) => {
                request.record_write(&self.sets, &made.metadata.resource_version);
                self.calm.wrote(&request.key);
                Ok(())
            }
            // It is gone, and has nothing to tell.
            Err(error) if is(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
