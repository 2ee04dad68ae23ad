//! Reconciles a StatefulSet.
//!
//! Invariants: names of pods and claims derive from the set, so that two replicas of this controller, or one after a crash,
//! create nothing twice. A set is not synced before all its writes are in the informer's cache.

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k3_workloads::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    expectations::ControllerExpectations,
    informer::Informer,
    writer::{
        ApiWriter, ObjectRef, WrittenObject, delete_options_for_uid, error_message, has_status_code,
        is_already_exists, is_namespace_terminating,
    },
};
use serde_json::{Value, json};

use super::{
    claims::{ClaimOwnerUpdate, ClaimWork},
    control::{
        DeletionReason, ObservedStatefulSet, PodIdentityAction, RevisionChoice, StatefulSetPlan, UpdateStep,
        complete_update,
    },
    pod_identity, status,
    step_error::{CreateClaimError, CreateClaimsError, StepError},
};
use crate::{
    controller_ref_manager::{ControllerRefManager, OwnerIndex},
    event_message::EventMessage,
    history::{LatestRevision, NewRevision, RevisionList, RevisionStore, beyond_limit},
    objects::{ControllerRevision, PodManagementPolicy, StatefulSet, StatefulStatus},
    pods::slow_start_batch,
    resource::{PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS},
    status_throttle::StatusThrottle,
    update::UpdateWithPatch,
};

const HASH: &str = "controller.kubernetes.io/hash";

// upstream: pkg/controller/statefulset/stateful_set.go StatefulSetController, syncStatefulSet
pub(super) struct StatefulSetController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) sets: Informer<StatefulSet>,
    pub(super) pods: Informer<Pod>,
    pub(super) claims: Informer<PersistentVolumeClaim>,
    pub(super) pods_by_owner: OwnerIndex<Pod>,
    pub(super) revision_store: RevisionStore,
    pub(super) expectations: Arc<ControllerExpectations>,
    pub(super) status_throttle: StatusThrottle,
}

/// One sync of a StatefulSet.
struct StatefulSetSync<'a> {
    controller: &'a StatefulSetController,
    request: &'a Request,
    set: &'a StatefulSet,
    about: ObjectReference,
    current: Arc<ControllerRevision>,
    update: Arc<ControllerRevision>,
    /// Pods deleted because of their revision.
    deleted_for_rollout: AtomicUsize,
}

impl Reconciler for StatefulSetController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(set) = self.sets.store().get(&request.key) else {
            self.expectations.delete_expectations(&request.key);
            self.status_throttle.forget(&request.key);
            return Ok(Outcome::Done);
        };
        // The throttle delays status writes only: pods that wait for each other must not wait for it.
        let left = self.throttle_remaining(&request.key, &set);
        if let Some(left) = left.filter(|_| set.spec.pod_management_policy == PodManagementPolicy::Parallel) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let selector = &set.spec.selector.selector;
        let revisions = self.revision_store.claim(&set.metadata, selector).await?;
        let pods = self.claim(&set).await?;
        let history = RevisionList::new(revisions, &set.spec.template).map_err(Error::permanent)?;
        let newest = match self.get_revisions(&request, &set, &history).await {
            Err(error) if is_namespace_terminating(&error) => None,
            other => other?,
        };
        let Some((update, collisions)) = newest else {
            return Ok(Outcome::Done);
        };
        let current = history.named(&set.status.current_revision).unwrap_or(&update);
        let observed = ObservedStatefulSet {
            set: &set,
            current: &current.metadata.name,
            update: &update.metadata.name,
            collisions,
            pods: &pods,
            claims: |name: &str| self.claims.store().get(&Key::new(&set.metadata.namespace, name)),
            now: self.clock.now(),
        };
        let plan = observed.plan();
        let sync = StatefulSetSync {
            controller: self,
            request: &request,
            set: &set,
            about: set.metadata.reference(&STATEFUL_SETS),
            current: Arc::clone(current),
            update,
            deleted_for_rollout: AtomicUsize::new(0),
        };
        let followed = if self.expectations.are_satisfied(&request.key) {
            sync.carry_out(&plan).await
        } else {
            Ok(())
        };
        let reported = self.write_status(&sync, plan.status).await;
        let cleaned = self.truncate_history(&sync, &history, &pods).await;
        followed.map_err(Error::transient)?;
        let left = reported?;
        cleaned?;
        let requeue_after = left.into_iter().chain(plan.requeue_after).min();
        Ok(requeue_after.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

// --- StatefulSetController ---

impl StatefulSetController {
    /// All pods of a set, in any phase.
    // upstream: pkg/controller/statefulset/stateful_set.go getPodsForStatefulSet
    async fn claim(&self, set: &StatefulSet) -> kube::Result<Vec<Arc<Pod>>> {
        let meta = &set.metadata;
        let mut pods = self.pods_by_owner.children(&meta.uid);
        pods.extend(self.pods_by_owner.orphans(&meta.namespace));
        let parent = ControllerRefManager {
            meta,
            resource: &STATEFUL_SETS,
            children: &PODS,
        };
        let selector = &set.spec.selector.selector;
        let matches =
            |pod: &Pod| selector.matches(&pod.metadata.labels) && pod_identity::is_member(meta, pod);
        parent.claim(&self.writer, pods, matches).await
    }

    /// The current revision, and the number of hash collisions. A terminating set gets no new revision.
    // upstream: pkg/controller/statefulset/stateful_set_control.go getStatefulSetRevisions
    async fn get_revisions(
        &self,
        request: &Request,
        set: &StatefulSet,
        history: &RevisionList,
    ) -> kube::Result<Option<(Arc<ControllerRevision>, i32)>> {
        let collisions = set.status.collision_count.unwrap_or(0);
        match history.latest() {
            LatestRevision::Current(revision) => Ok(Some((revision, collisions))),
            LatestRevision::Renumber(revision, number) => {
                self.revision_store.renumber(request, &revision, number).await?;
                Ok(Some((revision, collisions)))
            }
            LatestRevision::Create(_) if set.metadata.is_terminating() => Ok(None),
            LatestRevision::Create(number) => {
                let new = NewRevision {
                    set: &set.metadata,
                    template: &set.spec.template,
                    hash_label: HASH,
                    number,
                    collisions: Some(collisions),
                };
                let (revision, collisions) = self.revision_store.create(request, &new).await?;
                Ok(Some((revision, collisions.unwrap_or(0))))
            }
        }
    }

    /// Deletes revisions beyond revisionHistoryLimit. Revisions in use are kept and not counted.
    // upstream: pkg/controller/statefulset/stateful_set_control.go truncateHistory
    async fn truncate_history(
        &self,
        sync: &StatefulSetSync<'_>,
        history: &RevisionList,
        pods: &[Arc<Pod>],
    ) -> kube::Result<()> {
        let live = [&sync.current, &sync.update].map(|revision| &*revision.metadata.name);
        let lives = |revision: &ControllerRevision| {
            let name = &*revision.metadata.name;
            live.contains(&name) || pods.iter().any(|pod| pod_identity::revision(pod) == name)
        };
        let dead = history.all.iter().filter(|revision| !lives(revision)).count();
        let limit = sync.set.spec.revision_history_limit;
        for revision in beyond_limit(history.all.iter(), dead, limit, lives) {
            self.revision_store.delete(&revision).await?;
        }
        Ok(())
    }

    /// Remaining status throttle time, unless the spec changed.
    fn throttle_remaining(&self, key: &Key, set: &StatefulSet) -> Option<Duration> {
        let is_new = set.metadata.generation != set.status.observed_generation;
        self.status_throttle.left(key).filter(|_| !is_new)
    }

    /// Writes the status if it differs from the stored one; returns the remaining time if it was written a moment ago.
    async fn write_status(
        &self,
        sync: &StatefulSetSync<'_>,
        status: StatefulStatus,
    ) -> kube::Result<Option<Duration>> {
        let set = sync.set;
        let key = &sync.request.key;
        let status = complete_update(set, status, sync.deleted_for_rollout.load(Ordering::Relaxed));
        if status == set.status {
            return Ok(None);
        }
        if let Some(left) = self.throttle_remaining(key, set) {
            return Ok(Some(left));
        }
        let patch = status::status_patch(&status, &set.metadata.resource_version);
        let pod_ref =
            ObjectRef::new(&STATEFUL_SETS, &set.metadata.namespace, &set.metadata.name).subresource("status");
        match self.writer.merge_patch::<WrittenObject>(pod_ref, &patch).await {
            Ok(written) => {
                sync.request
                    .record_write(&self.sets, &written.metadata.resource_version);
                self.status_throttle.wrote(key);
                Ok(None)
            }
            // The set was deleted; there is no status to write.
            Err(error) if has_status_code(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

// --- StatefulSetSync ---

impl StatefulSetSync<'_> {
    /// Carries out the plan, up to the first failure.
    // upstream: pkg/controller/statefulset/stateful_set_control.go updateStatefulSet, updateStatefulSetAfterInvariantEstablished
    async fn carry_out(&self, plan: &StatefulSetPlan) -> Result<(), StepError> {
        let key = &self.request.key;
        let expectations = &self.controller.expectations;
        if plan.deleted().next().is_some() {
            let uids = plan.deleted().map(|pod| &*pod.metadata.uid);
            expectations.expect_deletions(key, uids);
        }
        let mut followed = Ok(());
        for cluster in &plan.stages {
            followed = match self.set.spec.pod_management_policy {
                PodManagementPolicy::OrderedReady => self.run_sequentially(cluster).await,
                PodManagementPolicy::Parallel => self.run_in_batches(cluster).await,
            };
            if followed.is_err() {
                break;
            }
        }
        // A pod that was not deleted, or was deleted before the expectation was set, sends no event.
        for pod in plan.deleted() {
            let observed = self.controller.pods.store().get(&pod_key(pod));
            let is_there = observed.is_some_and(|observed| {
                observed.metadata.uid == pod.metadata.uid && !observed.metadata.is_terminating()
            });
            if !is_there || followed.is_err() {
                expectations.deletion_observed(key, &pod.metadata.uid);
            }
        }
        followed
    }

    async fn run_sequentially(&self, steps: &[UpdateStep]) -> Result<(), StepError> {
        for step in steps {
            self.run_step(step).await?;
        }
        Ok(())
    }

    // upstream: pkg/controller/statefulset/stateful_set_control.go slowStartBatch, runForAll
    async fn run_in_batches(&self, steps: &[UpdateStep]) -> Result<(), StepError> {
        let mut left = steps.iter();
        let tally = slow_start_batch::slow_start_batch(steps.len(), || {
            let step = left.next();
            async move {
                match step {
                    Some(step) => self.run_step(step).await,
                    None => Ok(()),
                }
            }
        });
        tally.await.error.map_or(Ok(()), Err)
    }

    async fn run_step(&self, step: &UpdateStep) -> Result<(), StepError> {
        match step {
            UpdateStep::Create {
                ordinal,
                which,
                claims,
            } => self.create_pod(*ordinal, *which, claims).await,
            UpdateStep::Claims {
                pod,
                claims,
                records_event,
            } => {
                self.create_claims(&pod.metadata.name, claims).await?;
                let owned = self.update_claim_owners(claims).await;
                if *records_event && let Err(error) = &owned {
                    self.record_failure_event("Update", &pod.metadata.name, error);
                }
                owned
            }
            UpdateStep::Correct {
                pod,
                ordinal,
                claims,
                identity,
            } => {
                let corrected = self.update_pod(pod, *ordinal, claims, *identity).await;
                self.record_pod_event("Update", &pod.metadata.name, &corrected);
                corrected
            }
            UpdateStep::Delete { pod, reason } => self.delete_pod(pod, *reason).await,
        }
    }

    // --- pods ---

    // upstream: pkg/controller/statefulset/stateful_pod_control.go CreateStatefulPod
    async fn create_pod(
        &self,
        ordinal: i32,
        which: RevisionChoice,
        claims: &ClaimWork,
    ) -> Result<(), StepError> {
        let name = pod_identity::pod_name(self.set, ordinal);
        if let Err(error) = self.create_claims(&name, claims).await {
            self.record_failure_event("Create", &name, &error);
            return Err(error.into());
        }
        let revision = match which {
            RevisionChoice::Current => &self.current,
            RevisionChoice::Update => &self.update,
        };
        let pod = revision.template().map_err(Into::into).and_then(|template| {
            pod_identity::new_pod(self.set, &template, ordinal, &revision.metadata.name)
        });
        let pod = pod.inspect_err(|error| self.record_failure_event("Create", &name, error))?;
        let namespace = &self.set.metadata.namespace;
        let written = self
            .controller
            .writer
            .create::<WrittenObject>(&PODS, namespace, &pod)
            .await;
        let written = match written {
            Ok(written) => written,
            // The namespace is terminating: nothing to retry.
            Err(error) if is_namespace_terminating(&error) => return Ok(()),
            // The pod exists, or another pod has the name: the informer will deliver it.
            Err(error) if is_already_exists(&error) => return Err(StepError::Pod(error)),
            Err(error) => {
                let error = StepError::Pod(error);
                self.record_failure_event("Create", &name, &error);
                return Err(error);
            }
        };
        let version = &written.metadata.resource_version;
        self.request.record_write(&self.controller.pods, version);
        if let Err(error) = self.update_claim_owners(claims).await {
            self.record_failure_event("Update", &name, &error);
            return Err(error);
        }
        self.record_pod_event("Create", &name, &Ok(()));
        Ok(())
    }

    // upstream: pkg/controller/statefulset/stateful_pod_control.go UpdateStatefulPod
    async fn update_pod(
        &self,
        pod: &Pod,
        ordinal: i32,
        claims: &ClaimWork,
        identity: PodIdentityAction,
    ) -> Result<(), StepError> {
        self.create_claims(&pod.metadata.name, claims).await?;
        self.update_claim_owners(claims).await?;
        if identity == PodIdentityAction::Keep {
            return Ok(());
        }
        let pod_ref = ObjectRef::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
        let writer = &self.controller.writer;
        let changed = async {
            let mut tree: Value = writer.get(pod_ref).await?;
            pod_identity::restore_identity(self.set, ordinal, &mut tree);
            writer.update::<WrittenObject>(pod_ref, &tree).await
        };
        let written = changed.await.map_err(StepError::Pod)?;
        let version = &written.metadata.resource_version;
        self.request.record_write(&self.controller.pods, version);
        Ok(())
    }

    // upstream: pkg/controller/statefulset/stateful_pod_control.go DeleteStatefulPod
    async fn delete_pod(&self, pod: &Pod, reason: DeletionReason) -> Result<(), StepError> {
        let pod_ref = ObjectRef::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
        let deleted = self
            .controller
            .writer
            .delete(pod_ref, &delete_options_for_uid(&pod.metadata.uid))
            .await;
        match deleted {
            // Another pod has the name: this one is already deleted.
            Err(error) if has_status_code(&error, 409) => {
                let uid = &pod.metadata.uid;
                self.controller
                    .expectations
                    .deletion_observed(&self.request.key, uid);
                return Ok(());
            }
            Err(error) => {
                let error = StepError::Pod(error);
                self.record_failure_event("Delete", &pod.metadata.name, &error);
                return Err(error);
            }
            Ok(()) => {}
        }
        if reason == DeletionReason::Rollout {
            self.deleted_for_rollout.fetch_add(1, Ordering::Relaxed);
        }
        self.record_pod_event("Delete", &pod.metadata.name, &Ok(()));
        Ok(())
    }

    // --- claims ---

    /// Creates missing claims. All are tried, even if one fails.
    // upstream: pkg/controller/statefulset/stateful_pod_control.go createMissingPersistentVolumeClaims
    async fn create_claims(&self, pod: &str, claims: &ClaimWork) -> Result<(), CreateClaimsError> {
        let terminating = claims.terminating.iter();
        let mut errors: Vec<_> = terminating
            .map(|claim| CreateClaimError::Terminating(claim.clone()))
            .collect();
        for (name, body) in &claims.missing {
            let namespace = &self.set.metadata.namespace;
            let written = self
                .controller
                .writer
                .create::<WrittenObject>(&PERSISTENT_VOLUME_CLAIMS, namespace, body)
                .await;
            let set = &self.set.metadata.name;
            match written {
                Ok(written) => {
                    let version = &written.metadata.resource_version;
                    self.request.record_write(&self.controller.claims, version);
                    let note = format_args!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
                    self.record_event(&EventMessage::normal("SuccessfulCreate", note));
                }
                Err(source) => {
                    if !is_already_exists(&source) {
                        let why = error_message(&source);
                        let note = format_args!(
                            "Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {why}"
                        );
                        self.record_event(&EventMessage::warning("FailedCreate", note));
                    }
                    let claim = name.clone();
                    errors.push(CreateClaimError::Create { claim, source });
                }
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(CreateClaimsError(errors))
        }
    }

    /// Updates owner references of claims.
    // upstream: pkg/controller/statefulset/stateful_pod_control.go UpdatePodClaimForRetentionPolicy
    async fn update_claim_owners(&self, claims: &ClaimWork) -> Result<(), StepError> {
        for name in &claims.foreign {
            let note = format_args!(
                "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the \
                retention policy is ignored for this claim"
            );
            self.record_event(&EventMessage::warning("ConflictingController", note));
        }
        for ClaimOwnerUpdate { claim, owners } in &claims.owned {
            let meta = &claim.metadata;
            let pod_ref = ObjectRef::new(&PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name);
            let patch = json!({"metadata": {
                "uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": owners,
            }});
            match self
                .controller
                .writer
                .update_with_merge::<WrittenObject>(pod_ref, &patch)
                .await
            {
                Ok(written) => {
                    let version = &written.metadata.resource_version;
                    self.request.record_write(&self.controller.claims, version);
                }
                Err(source) => {
                    return Err(StepError::UpdateClaimOwners {
                        claim: meta.name.clone(),
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    // --- events ---

    fn record_event(&self, event: &EventMessage) {
        event.record(&self.controller.recorder, &self.about);
    }

    // upstream: pkg/controller/statefulset/stateful_pod_control.go recordPodEvent
    fn record_pod_event(&self, verb: &str, pod: &str, done: &Result<(), StepError>) {
        if let Err(error) = done {
            self.record_failure_event(verb, pod, error);
            return;
        }
        let set = &self.set.metadata.name;
        let note = format_args!("{verb} Pod {pod} in StatefulSet {set} successful");
        let reason = format!("Successful{verb}");
        self.record_event(&EventMessage::normal(&reason, note));
    }

    fn record_failure_event(&self, verb: &str, pod: &str, error: &impl Display) {
        let set = &self.set.metadata.name;
        let note = format_args!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}");
        let reason = format!("Failed{verb}");
        self.record_event(&EventMessage::warning(&reason, note));
    }
}

fn pod_key(pod: &Pod) -> Key {
    Key::new(&pod.metadata.namespace, &pod.metadata.name)
}
