//! Does what is planned for a daemon set.
//!
//! Promises: a set is left alone until all that was made or deleted for it has been seen. What was made before a crash is found
//! again by its owner and its node. If two copies run, of two pods on a node the same one goes.

use std::{collections::BTreeMap, sync::Arc};

use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    expectations::ControllerExpectations,
    informer::Informer,
    store::Store,
};
use serde_json::json;

use super::{
    backoff::{Backoff, Site},
    making::{HASH, Mark, Mould},
    placement::{Fit, Placement},
    plan::{Plan, Seen},
    status,
};
use crate::{
    calm::Calm,
    family::{Family, Parent},
    history::{Archive, History, New, Newest, spare},
    news::News,
    objects::{ControllerRevision, DaemonSet, DaemonStatus, Node, Pod, Replacing},
    pods::{
        batch::{self, Tally},
        hands::Hands,
    },
    resource::{DAEMON_SETS, PODS},
    writer::{Made, Place, Writer, is, is_namespace_going},
};

/// How many pods are made, and how many deleted, before the set is looked at again.
const BURST: usize = 250;

pub(super) struct Keeper {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) sets: Informer<DaemonSet>,
    pub(super) pods: Informer<Pod>,
    pub(super) nodes: Store<Node>,
    pub(super) family: Family<Pod>,
    pub(super) archive: Archive,
    pub(super) expected: Arc<ControllerExpectations>,
    pub(super) backoff: Backoff,
    pub(super) calm: Calm,
}

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(set) = self.sets.store().get(&request.key) else {
            self.expected.delete_expectations(&request.key);
            self.calm.forget(&request.key);
            return Ok(Outcome::Done);
        };
        if set.spec.selector.is_empty() {
            let note = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.hands(&set).tell(&News::warning("SelectingAll", note));
            return Ok(Outcome::Done);
        }
        // Its revisions may be gone before its pods: what could be said of it would not be true.
        if set.metadata.is_going() {
            return Ok(Outcome::Done);
        }
        let is_new = set.metadata.generation != set.status.observed_generation;
        if let Some(left) = self.calm.left(&request.key).filter(|_| !is_new) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let pods = self.claim(&set).await?;
        let revisions = self.archive.claim(&set.metadata, &set.spec.selector).await?;
        let history = History::new(revisions, &set.spec.template).map_err(Error::permanent)?;
        let (hash, collisions) = match self.newest(&request, &set, &history, &pods).await {
            Err(error) if is_namespace_going(&error) => return Ok(Outcome::Done),
            other => other?,
        };
        let mark = Mark::new(&set, &hash);
        let seen = Seen::new(&set, &mark, self.fits(&set), &pods, self.clock.now());
        let is_ready = self.expected.are_satisfied(&request.key);
        let (mut again, mut followed) = (None, Ok(()));
        if is_ready {
            let plan = self.plan(&seen);
            again = plan.again;
            followed = self.follow(&request, &seen, plan).await;
            if followed.is_ok() {
                followed = self.clean_up(&set, &history, &pods).await.map_err(Error::from);
            }
        }
        let status = seen.status(is_ready, collisions);
        let look = seen.next_look(&status);
        let told = self.tell_status(&request, &set, &status).await;
        followed?;
        told?;
        let again = look.into_iter().chain(again).min();
        Ok(again.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

impl Keeper {
    fn hands<'a>(&'a self, set: &'a DaemonSet) -> Hands<'a> {
        Hands::new(&self.writer, &self.recorder, &set.metadata, &DAEMON_SETS)
    }

    /// The pods of a set, whatever has become of them.
    async fn claim(&self, set: &DaemonSet) -> kube::Result<Vec<Arc<Pod>>> {
        let meta = &set.metadata;
        let mut pods = self.family.children(&meta.uid);
        pods.extend(self.family.orphans(&meta.namespace));
        let parent = Parent {
            meta,
            resource: &DAEMON_SETS,
            children: &PODS,
        };
        let matches = |pod: &Pod| set.spec.selector.matches(&pod.metadata.labels);
        parent.claim(&self.writer, pods, matches).await
    }

    /// What each node is to a set.
    fn fits(&self, set: &DaemonSet) -> BTreeMap<Box<str>, Fit> {
        let placement = Placement::of(&set.spec.template);
        let fit = |node: Arc<Node>| (node.metadata.name.clone(), placement.fit(&node));
        self.nodes.all().into_iter().map(fit).collect()
    }

    // --- revisions ---

    /// The hash of the revision of the template of now, and how often a hash was that of another template.
    async fn newest(
        &self,
        request: &Request,
        set: &DaemonSet,
        history: &History,
        pods: &[Arc<Pod>],
    ) -> kube::Result<(Box<str>, Option<i32>)> {
        for revision in &history.all {
            if revision.metadata.label(HASH).is_none() {
                let name = &revision.metadata.name;
                self.archive.label(request, revision, HASH, name).await?;
            }
        }
        let collisions = set.status.collision_count;
        let newest = match history.newest() {
            Newest::Is(revision) => revision,
            Newest::Renumber(revision, number) => {
                self.archive.renumber(request, &revision, number).await?;
                revision
            }
            Newest::Make(number) => {
                let new = New {
                    set: &set.metadata,
                    template: &set.spec.template,
                    hash_label: HASH,
                    number,
                    collisions,
                };
                let (revision, collisions) = self.archive.make(request, &new).await?;
                return Ok((hash(&revision).into(), collisions));
            }
        };
        for double in history.doubles() {
            self.unite(request, pods, double, &newest).await?;
        }
        Ok((hash(&newest).into(), collisions))
    }

    /// The pods of a revision become those of another one of the same template, and it goes.
    async fn unite(
        &self,
        request: &Request,
        pods: &[Arc<Pod>],
        double: &ControllerRevision,
        newest: &ControllerRevision,
    ) -> kube::Result<()> {
        let patch = json!({"metadata": {"labels": {HASH: hash(newest)}}});
        for pod in pods
            .iter()
            .filter(|pod| pod.metadata.label(HASH) == Some(hash(double)))
        {
            let place = Place::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
            let made: Made = self.writer.merge(place, &patch).await?;
            request.record_write(&self.pods, &made.metadata.resource_version);
        }
        self.archive.remove(double).await
    }

    /// Deletes revisions beyond those that are kept. Those that a pod is of stay.
    async fn clean_up(&self, set: &DaemonSet, history: &History, pods: &[Arc<Pod>]) -> kube::Result<()> {
        let lives = |revision: &ControllerRevision| {
            let hash = hash(revision);
            pods.iter().any(|pod| pod.metadata.label(HASH) == Some(hash))
        };
        let limit = set.spec.revision_history_limit;
        for revision in spare(history.others(), history.others().count(), limit, lives) {
            self.archive.remove(&revision).await?;
        }
        Ok(())
    }

    // --- pods ---

    /// Pods are replaced when there is nothing else to do.
    fn plan(&self, seen: &Seen<'_>) -> Plan {
        let plan = seen.manage(|node| self.backoff.left(&site(seen.set, node)));
        if !plan.is_nothing() || seen.set.spec.update_strategy.kind == Replacing::OnDelete {
            return plan;
        }
        Plan {
            again: plan.again,
            ..seen.roll()
        }
    }

    async fn follow(&self, request: &Request, seen: &Seen<'_>, mut plan: Plan) -> Result<(), Error> {
        let (hands, key) = (self.hands(seen.set), &request.key);
        for news in &plan.news {
            hands.tell(news);
        }
        for node in &plan.failed {
            self.backoff.failed(site(seen.set, node));
        }
        if plan.is_nothing() {
            return Ok(());
        }
        plan.make.truncate(BURST);
        plan.delete.truncate(BURST);
        let uids = plan.delete.iter().map(|pod| &*pod.metadata.uid);
        self.expected.set_expectations(key, plan.make.len(), uids);
        let made = self.make(request, seen, &hands, &plan.make).await;
        let deletions: Vec<_> = plan
            .delete
            .iter()
            .map(|pod| self.delete(key, &hands, pod))
            .collect();
        let Tally { error, .. } = batch::all(deletions).await;
        made?;
        error.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn make(
        &self,
        request: &Request,
        seen: &Seen<'_>,
        hands: &Hands<'_>,
        nodes: &[Box<str>],
    ) -> Result<(), Error> {
        if nodes.is_empty() {
            return Ok(());
        }
        let mould = Mould::new(seen.set, seen.mark);
        let pods = mould.and_then(|mould| {
            nodes
                .iter()
                .map(|node| mould.pod(node))
                .collect::<Result<Vec<_>, _>>()
        });
        let pods = match pods {
            Ok(pods) => pods,
            Err(unmakeable) => {
                hands.tell_unmakeable(&unmakeable);
                self.expected.lower_expectations(&request.key, nodes.len());
                return Err(Error::permanent(unmakeable));
            }
        };
        let mut left = pods.iter();
        let tally = batch::slow_start(pods.len(), || {
            let pod = left.next();
            async move {
                match pod {
                    Some(pod) => hands.make(pod).await,
                    None => Ok(()),
                }
            }
        });
        let tally = tally.await;
        // Those that were not made will not be seen.
        self.expected
            .lower_expectations(&request.key, pods.len() - tally.done);
        tally.error.flatten().map_or(Ok(()), |error| Err(error.into()))
    }

    async fn delete(&self, key: &Key, hands: &Hands<'_>, pod: &Pod) -> kube::Result<()> {
        let deleted = hands.delete(pod).await;
        // What was not deleted, or was gone before it was expected to go, will not be seen going.
        let seen = self
            .pods
            .store()
            .get(&Key::new(&pod.metadata.namespace, &pod.metadata.name));
        let is_there =
            seen.is_some_and(|seen| seen.metadata.uid == pod.metadata.uid && !seen.metadata.is_going());
        if !matches!(deleted, Ok(true)) || !is_there {
            self.expected.deletion_observed(key, &pod.metadata.uid);
        }
        deleted.map(|_| ())
    }

    // --- telling ---

    /// Says what is so, if it is not what is said already.
    async fn tell_status(
        &self,
        request: &Request,
        set: &DaemonSet,
        status: &DaemonStatus,
    ) -> kube::Result<()> {
        if *status == set.status {
            return Ok(());
        }
        let patch = status::patch(status, &set.metadata.resource_version);
        let place = Place::new(&DAEMON_SETS, &set.metadata.namespace, &set.metadata.name).part("status");
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

fn site(set: &DaemonSet, node: &str) -> Site {
    Site {
        set: set.metadata.uid.clone(),
        generation: set.status.observed_generation,
        node: node.into(),
    }
}

/// The hash by which the pods of a revision are known. Those that have none get their name for it.
fn hash(revision: &ControllerRevision) -> &str {
    let meta = &revision.metadata;
    meta.label(HASH).unwrap_or(&meta.name)
}
