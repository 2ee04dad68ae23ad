//! Does what is planned for a stateful set.
//!
//! Promises: pods and claims have names that follow from their set, so that two copies, or one after a crash, make none twice.
//! A set is left alone until all that was written for it has been seen.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    expectations::ControllerExpectations,
    informer::Informer,
};
use serde_json::{Value, json};

use super::{
    claims::{Owned, Work},
    member,
    plan::{Plan, Seen, Step, Which, concluded},
    status,
};
use crate::{
    calm::Calm,
    family::{Family, Parent},
    history::{Archive, History, New, Newest, spare},
    news::News,
    objects::{ControllerRevision, Management, PersistentVolumeClaim, Pod, StatefulSet, StatefulStatus},
    pods::batch,
    resource::{PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS},
    writer::{Made, Place, Writer, is, is_namespace_going, is_taken, only, words},
};

const HASH: &str = "controller.kubernetes.io/hash";

pub(super) struct Keeper {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) sets: Informer<StatefulSet>,
    pub(super) pods: Informer<Pod>,
    pub(super) claims: Informer<PersistentVolumeClaim>,
    pub(super) family: Family<Pod>,
    pub(super) archive: Archive,
    pub(super) expected: Arc<ControllerExpectations>,
    pub(super) calm: Calm,
}

/// A set that is worked on.
struct Turn<'a> {
    keeper: &'a Keeper,
    request: &'a Request,
    set: &'a StatefulSet,
    about: ObjectReference,
    current: Arc<ControllerRevision>,
    update: Arc<ControllerRevision>,
    /// How many pods were deleted because of their revision.
    rolled: AtomicUsize,
}

/// Why a step failed, in the words that people are told.
type Trouble = String;

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(set) = self.sets.store().get(&request.key) else {
            self.expected.delete_expectations(&request.key);
            self.calm.forget(&request.key);
            return Ok(Outcome::Done);
        };
        // Pods that wait for each other must not wait for this too: only what is said of them does.
        let left = self.left(&request.key, &set);
        if let Some(left) = left.filter(|_| set.spec.pod_management_policy == Management::Parallel) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let selector = &set.spec.selector.selector;
        let revisions = self.archive.claim(&set.metadata, selector).await?;
        let pods = self.claim(&set).await?;
        let history = History::new(revisions, &set.spec.template).map_err(Error::permanent)?;
        let newest = match self.newest(&request, &set, &history).await {
            Err(error) if is_namespace_going(&error) => None,
            other => other?,
        };
        let Some((update, collisions)) = newest else {
            return Ok(Outcome::Done);
        };
        let current = history.named(&set.status.current_revision).unwrap_or(&update);
        let seen = Seen {
            set: &set,
            current: &current.metadata.name,
            update: &update.metadata.name,
            collisions,
            pods: &pods,
            claims: |name: &str| self.claims.store().get(&Key::new(&set.metadata.namespace, name)),
            now: self.clock.now(),
        };
        let plan = seen.plan();
        let turn = Turn {
            keeper: self,
            request: &request,
            set: &set,
            about: set.metadata.reference(&STATEFUL_SETS),
            current: Arc::clone(current),
            update,
            rolled: AtomicUsize::new(0),
        };
        let followed = if self.expected.are_satisfied(&request.key) {
            turn.follow(&plan).await
        } else {
            Ok(())
        };
        let told = self.tell_status(&turn, plan.status).await;
        let cleaned = self.clean_up(&turn, &history, &pods).await;
        followed.map_err(Error::transient)?;
        let left = told?;
        cleaned?;
        let again = left.into_iter().chain(plan.again).min();
        Ok(again.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

// --- Keeper ---

impl Keeper {
    /// The pods of a set, whatever has become of them.
    async fn claim(&self, set: &StatefulSet) -> kube::Result<Vec<Arc<Pod>>> {
        let meta = &set.metadata;
        let mut pods = self.family.children(&meta.uid);
        pods.extend(self.family.orphans(&meta.namespace));
        let parent = Parent {
            meta,
            resource: &STATEFUL_SETS,
            children: &PODS,
        };
        let selector = &set.spec.selector.selector;
        let matches = |pod: &Pod| selector.matches(&pod.metadata.labels) && member::is_member(meta, pod);
        parent.claim(&self.writer, pods, matches).await
    }

    /// The revision of the template of now, and how often a hash was that of another template. A set that goes gets no new one.
    async fn newest(
        &self,
        request: &Request,
        set: &StatefulSet,
        history: &History,
    ) -> kube::Result<Option<(Arc<ControllerRevision>, i32)>> {
        let collisions = set.status.collision_count.unwrap_or(0);
        match history.newest() {
            Newest::Is(revision) => Ok(Some((revision, collisions))),
            Newest::Renumber(revision, number) => {
                self.archive.renumber(request, &revision, number).await?;
                Ok(Some((revision, collisions)))
            }
            Newest::Make(_) if set.metadata.is_going() => Ok(None),
            Newest::Make(number) => {
                let new = New {
                    set: &set.metadata,
                    template: &set.spec.template,
                    hash_label: HASH,
                    number,
                    collisions: Some(collisions),
                };
                let (revision, collisions) = self.archive.make(request, &new).await?;
                Ok(Some((revision, collisions.unwrap_or(0))))
            }
        }
    }

    /// Deletes revisions beyond those that are kept. Those that a pod is of, or will be, stay and are not counted.
    async fn clean_up(&self, turn: &Turn<'_>, history: &History, pods: &[Arc<Pod>]) -> kube::Result<()> {
        let live = [&turn.current, &turn.update].map(|revision| &*revision.metadata.name);
        let lives = |revision: &ControllerRevision| {
            let name = &*revision.metadata.name;
            live.contains(&name) || pods.iter().any(|pod| member::revision(pod) == name)
        };
        let dead = history.all.iter().filter(|revision| !lives(revision)).count();
        let limit = turn.set.spec.revision_history_limit;
        for revision in spare(history.all.iter(), dead, limit, lives) {
            self.archive.remove(&revision).await?;
        }
        Ok(())
    }

    /// How long nothing more is said of a set, unless it was changed.
    fn left(&self, key: &Key, set: &StatefulSet) -> Option<Duration> {
        let is_new = set.metadata.generation != set.status.observed_generation;
        self.calm.left(key).filter(|_| !is_new)
    }

    /// Says what is so, if it is not what is said already. If that was said a moment ago, gives the time until it can be.
    async fn tell_status(&self, turn: &Turn<'_>, status: StatefulStatus) -> kube::Result<Option<Duration>> {
        let (set, key) = (turn.set, &turn.request.key);
        let status = concluded(set, status, turn.rolled.load(Ordering::Relaxed));
        if status == set.status {
            return Ok(None);
        }
        if let Some(left) = self.left(key, set) {
            return Ok(Some(left));
        }
        let patch = status::patch(&status, &set.metadata.resource_version);
        let place = Place::new(&STATEFUL_SETS, &set.metadata.namespace, &set.metadata.name).part("status");
        match self.writer.update::<Made>(place, &patch).await {
            Ok(made) => {
                turn.request
                    .record_write(&self.sets, &made.metadata.resource_version);
                self.calm.wrote(key);
                Ok(None)
            }
            // It is gone, and has nothing to tell.
            Err(error) if is(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

// --- Turn ---

impl Turn<'_> {
    /// Does what is planned, up to the first failure.
    async fn follow(&self, plan: &Plan) -> Result<(), Trouble> {
        let (key, expected) = (&self.request.key, &self.keeper.expected);
        if plan.deleted().next().is_some() {
            let uids = plan.deleted().map(|pod| &*pod.metadata.uid);
            expected.expect_deletions(key, uids);
        }
        let mut followed = Ok(());
        for stage in &plan.stages {
            followed = match self.set.spec.pod_management_policy {
                Management::OrderedReady => self.one_by_one(stage).await,
                Management::Parallel => self.many(stage).await,
            };
            if followed.is_err() {
                break;
            }
        }
        // What was not deleted, or was gone before it was expected to go, will not be seen going.
        for pod in plan.deleted() {
            let seen = self.keeper.pods.store().get(&pod_key(pod));
            let is_there =
                seen.is_some_and(|seen| seen.metadata.uid == pod.metadata.uid && !seen.metadata.is_going());
            if !is_there || followed.is_err() {
                expected.deletion_observed(key, &pod.metadata.uid);
            }
        }
        followed
    }

    async fn one_by_one(&self, steps: &[Step]) -> Result<(), Trouble> {
        for step in steps {
            self.take(step).await?;
        }
        Ok(())
    }

    async fn many(&self, steps: &[Step]) -> Result<(), Trouble> {
        let mut left = steps.iter();
        let tally = batch::slow_start(steps.len(), || {
            let step = left.next();
            async move {
                match step {
                    Some(step) => self.take(step).await,
                    None => Ok(()),
                }
            }
        });
        tally.await.error.map_or(Ok(()), Err)
    }

    async fn take(&self, step: &Step) -> Result<(), Trouble> {
        match step {
            Step::Make {
                ordinal,
                which,
                claims,
            } => self.make(*ordinal, *which, claims).await,
            Step::Claims { pod, claims, tells } => {
                self.make_claims(&pod.metadata.name, claims).await?;
                let owned = self.own(claims).await;
                if *tells && let Err(trouble) = &owned {
                    self.tell_failure("Update", &pod.metadata.name, trouble);
                }
                owned
            }
            Step::Correct {
                pod,
                ordinal,
                claims,
                changes,
            } => {
                let corrected = self.correct(pod, *ordinal, claims, *changes).await;
                self.tell_pod("Update", &pod.metadata.name, &corrected);
                corrected
            }
            Step::Delete { pod, rolls } => self.delete(pod, *rolls).await,
        }
    }

    // --- pods ---

    async fn make(&self, ordinal: i32, which: Which, claims: &Work) -> Result<(), Trouble> {
        let name = member::name(self.set, ordinal);
        if let Err(trouble) = self.make_claims(&name, claims).await {
            self.tell_failure("Create", &name, &trouble);
            return Err(trouble);
        }
        let revision = match which {
            Which::Current => &self.current,
            Which::Update => &self.update,
        };
        let pod = revision
            .template()
            .map_err(Into::into)
            .and_then(|template| member::make(self.set, &template, ordinal, &revision.metadata.name));
        let pod = pod.map_err(|unmakeable| {
            let trouble = unmakeable.to_string();
            self.tell_failure("Create", &name, &trouble);
            trouble
        })?;
        let namespace = &self.set.metadata.namespace;
        let made = self.keeper.writer.create::<Made>(&PODS, namespace, &pod).await;
        let made = match made {
            Ok(made) => made,
            // Nothing can be done about it.
            Err(error) if is_namespace_going(&error) => return Ok(()),
            // It was made a moment ago, or another pod has the name: that will be seen.
            Err(error) if is_taken(&error) => return Err(words(&error)),
            Err(error) => {
                let trouble = words(&error);
                self.tell_failure("Create", &name, &trouble);
                return Err(trouble);
            }
        };
        let version = &made.metadata.resource_version;
        self.request.record_write(&self.keeper.pods, version);
        if let Err(trouble) = self.own(claims).await {
            self.tell_failure("Update", &name, &trouble);
            return Err(trouble);
        }
        self.tell_pod("Create", &name, &Ok(()));
        Ok(())
    }

    async fn correct(&self, pod: &Pod, ordinal: i32, claims: &Work, changes: bool) -> Result<(), Trouble> {
        self.make_claims(&pod.metadata.name, claims).await?;
        self.own(claims).await?;
        if !changes {
            return Ok(());
        }
        let place = Place::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
        let writer = &self.keeper.writer;
        let changed = async {
            let mut tree: Value = writer.get(place).await?;
            member::correct(self.set, ordinal, &mut tree);
            writer.replace::<Made>(place, &tree).await
        };
        let made = changed.await.map_err(|error| words(&error))?;
        let version = &made.metadata.resource_version;
        self.request.record_write(&self.keeper.pods, version);
        Ok(())
    }

    async fn delete(&self, pod: &Pod, rolls: bool) -> Result<(), Trouble> {
        let place = Place::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
        let deleted = self.keeper.writer.delete(place, &only(&pod.metadata.uid)).await;
        match deleted {
            // Another pod has the name: this one is gone.
            Err(error) if is(&error, 409) => {
                let uid = &pod.metadata.uid;
                self.keeper.expected.deletion_observed(&self.request.key, uid);
                return Ok(());
            }
            Err(error) => {
                let trouble = words(&error);
                self.tell_failure("Delete", &pod.metadata.name, &trouble);
                return Err(trouble);
            }
            Ok(()) => {}
        }
        if rolls {
            self.rolled.fetch_add(1, Ordering::Relaxed);
        }
        self.tell_pod("Delete", &pod.metadata.name, &Ok(()));
        Ok(())
    }

    // --- claims ---

    /// Makes claims that are missing. All are tried, whatever fails.
    async fn make_claims(&self, pod: &str, claims: &Work) -> Result<(), Trouble> {
        let mut troubles: Vec<_> = claims
            .going
            .iter()
            .map(|claim| format!("pvc {claim} is being deleted"))
            .collect();
        for (name, body) in &claims.missing {
            let namespace = &self.set.metadata.namespace;
            let made = self
                .keeper
                .writer
                .create::<Made>(&PERSISTENT_VOLUME_CLAIMS, namespace, body)
                .await;
            let set = &self.set.metadata.name;
            match made {
                Ok(made) => {
                    let version = &made.metadata.resource_version;
                    self.request.record_write(&self.keeper.claims, version);
                    let note = format_args!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
                    self.tell(&News::normal("SuccessfulCreate", note));
                }
                Err(error) => {
                    let why = words(&error);
                    if !is_taken(&error) {
                        let note = format_args!(
                            "Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {why}"
                        );
                        self.tell(&News::warning("FailedCreate", note));
                    }
                    troubles.push(format!("failed to create PVC {name}: {why}"));
                }
            }
        }
        match &*troubles {
            [] => Ok(()),
            [trouble] => Err(trouble.clone()),
            troubles => Err(format!("[{}]", troubles.join(", "))),
        }
    }

    /// Gives claims the owners that they should have.
    async fn own(&self, claims: &Work) -> Result<(), Trouble> {
        for name in &claims.foreign {
            let note = format_args!(
                "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the \
                retention policy is ignored for this claim"
            );
            self.tell(&News::warning("ConflictingController", note));
        }
        for Owned { claim, owners } in &claims.owned {
            let meta = &claim.metadata;
            let place = Place::new(&PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name);
            let patch = json!({"metadata": {
                "uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": owners,
            }});
            match self.keeper.writer.update::<Made>(place, &patch).await {
                Ok(made) => {
                    let version = &made.metadata.resource_version;
                    self.request.record_write(&self.keeper.claims, version);
                }
                Err(error) => {
                    let (name, why) = (&meta.name, words(&error));
                    return Err(format!(
                        "could not update claim {name} for delete policy ownerRefs: {why}"
                    ));
                }
            }
        }
        Ok(())
    }

    // --- telling ---

    fn tell(&self, news: &News) {
        news.tell(&self.keeper.recorder, &self.about);
    }

    fn tell_pod(&self, verb: &str, pod: &str, done: &Result<(), Trouble>) {
        if let Err(trouble) = done {
            self.tell_failure(verb, pod, trouble);
            return;
        }
        let set = &self.set.metadata.name;
        let note = format_args!("{verb} Pod {pod} in StatefulSet {set} successful");
        let reason = format!("Successful{verb}");
        self.tell(&News::normal(&reason, note));
    }

    fn tell_failure(&self, verb: &str, pod: &str, trouble: &str) {
        let set = &self.set.metadata.name;
        let note = format_args!("{verb} Pod {pod} in StatefulSet {set} failed error: {trouble}");
        let reason = format!("Failed{verb}");
        self.tell(&News::warning(&reason, note));
    }
}

fn pod_key(pod: &Pod) -> Key {
    Key::new(&pod.metadata.namespace, &pod.metadata.name)
}
