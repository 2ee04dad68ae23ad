//! Reconciles a DaemonSet.
//!
//! Invariants: a DaemonSet is not synced before all its creations and deletions are in the informer's cache. Pods created before
//! a crash are found again by owner and node. If two replicas of this controller run, both delete the same duplicate pod.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k3_workloads::{Node, Pod};
use kubecontroller::{
    Backoff, Clock, Key, KeyedBackoff,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    expectations::ControllerExpectations,
    informer::Informer,
    store::Store,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code, is_namespace_terminating},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::time::Instant;

use super::{
    manage::{DaemonSetPlan, ObservedDaemonSet, PlanProgress},
    placement::{NodeConstraints, NodeEligibility},
    pod_template::{DaemonPodTemplate, HASH, TemplateRevision},
    status,
};
use crate::{
    controller_ref_manager::{ControllerRefManager, OwnerIndex},
    event_message::EventMessage,
    history::{LatestRevision, NewRevision, RevisionList, RevisionStore, beyond_limit},
    objects::{ControllerRevision, DaemonSet, DaemonStatus, UpdateStrategyKind},
    pods::{
        pod_control::PodControl,
        slow_start_batch::{self, BatchResult},
    },
    resource::{DAEMON_SETS, PODS},
    status_throttle::StatusThrottle,
};

/// Pods created, and pods deleted, per sync.
const BURST: usize = 250;
/// Backoff before a failed pod is replaced.
pub(super) const FAILED_PODS_BACKOFF: Backoff =
    Backoff::exponential(Duration::from_secs(1), Duration::from_mins(15));

/// UID and observed generation of a DaemonSet, and a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BackoffKey {
    set: Box<str>,
    generation: i64,
    node: Box<str>,
}

// upstream: pkg/controller/daemon/daemon_controller.go DaemonSetsController, syncDaemonSet
pub(super) struct DaemonSetController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) sets: Informer<DaemonSet>,
    pub(super) pods: Informer<Pod>,
    pub(super) nodes: Store<Node>,
    pub(super) pods_by_owner: OwnerIndex<Pod>,
    pub(super) revision_store: RevisionStore,
    pub(super) expectations: Arc<ControllerExpectations>,
    /// Pods that failed, per DaemonSet and node. A kubelet may reject a pod immediately, every time: after each failure the wait
    /// before the next replacement doubles.
    /// The time is monotonic: a wall clock that is set back must not delay replacements.
    // upstream: pkg/controller/daemon/daemon_controller.go failedPodsBackoffKey, podsShouldBeOnNode
    pub(super) backoff: Mutex<KeyedBackoff<BackoffKey, Instant>>,
    pub(super) status_throttle: StatusThrottle,
}

impl Reconciler for DaemonSetController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(set) = self.sets.store().get(&request.key) else {
            self.expectations.delete_expectations(&request.key);
            self.status_throttle.forget(&request.key);
            return Ok(Outcome::Done);
        };
        if set.spec.selector.is_empty() {
            let note = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.pod_control(&set)
                .record(&EventMessage::warning("SelectingAll", note));
            return Ok(Outcome::Done);
        }
        // Its revisions may be deleted before its pods: a status computed now could be wrong.
        if set.metadata.is_terminating() {
            return Ok(Outcome::Done);
        }
        let is_new = set.metadata.generation != set.status.observed_generation;
        if let Some(backoff_remaining) = self.status_throttle.left(&request.key).filter(|_| !is_new) {
            return Ok(Outcome::RequeueAfter(backoff_remaining));
        }
        let pods = self.claim(&set).await?;
        let revisions = self
            .revision_store
            .claim(&set.metadata, &set.spec.selector)
            .await?;
        let history = RevisionList::new(revisions, &set.spec.template).map_err(Error::permanent)?;
        let (hash, collisions) = match self.current_revision_hash(&request, &set, &history, &pods).await {
            Err(error) if is_namespace_terminating(&error) => return Ok(Outcome::Done),
            other => other?,
        };
        let revision = TemplateRevision::new(&set, &hash);
        let observed = ObservedDaemonSet::new(
            &set,
            &revision,
            self.node_eligibility(&set),
            &pods,
            self.clock.now(),
        );
        let is_ready = self.expectations.are_satisfied(&request.key);
        let mut requeue_after = None;
        let mut followed = Ok(());
        if is_ready {
            let plan = self.plan(&observed);
            requeue_after = plan.requeue_after;
            followed = self.carry_out(&request, &observed, plan).await;
            if followed.is_ok() {
                followed = self
                    .clean_up_history(&set, &history, &pods)
                    .await
                    .map_err(Error::from);
            }
        }
        let progress = if is_ready {
            PlanProgress::CarriedOut
        } else {
            PlanProgress::Waiting
        };
        let status = observed.status(progress, collisions);
        let look = observed.next_available_in(&status);
        let reported = self.write_status(&request, &set, &status).await;
        followed?;
        reported?;
        let requeue_after = look.into_iter().chain(requeue_after).min();
        Ok(requeue_after.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

impl DaemonSetController {
    fn pod_control<'a>(&'a self, set: &'a DaemonSet) -> PodControl<'a> {
        PodControl::new(&self.writer, &self.recorder, &set.metadata, &DAEMON_SETS)
    }

    /// All pods of a DaemonSet, in any phase.
    // upstream: pkg/controller/daemon/daemon_controller.go getDaemonPods
    async fn claim(&self, set: &DaemonSet) -> kube::Result<Vec<Arc<Pod>>> {
        let meta = &set.metadata;
        let mut pods = self.pods_by_owner.children(&meta.uid);
        pods.extend(self.pods_by_owner.orphans(&meta.namespace));
        let parent = ControllerRefManager {
            meta,
            resource: &DAEMON_SETS,
            children: &PODS,
        };
        let matches = |pod: &Pod| set.spec.selector.matches(&pod.metadata.labels);
        parent.claim(&self.writer, pods, matches).await
    }

    /// Which nodes should run a pod.
    fn node_eligibility(&self, set: &DaemonSet) -> BTreeMap<Box<str>, NodeEligibility> {
        let placement = NodeConstraints::from_template(&set.spec.template);
        let fit = |node: Arc<Node>| {
            (
                node.metadata.name.clone(),
                placement.node_should_run_daemon_pod(&node),
            )
        };
        self.nodes.all().into_iter().map(fit).collect()
    }

    // --- revisions ---

    /// The hash of the current revision, and the number of hash collisions.
    // upstream: pkg/controller/daemon/update.go constructHistory, snapshot
    async fn current_revision_hash(
        &self,
        request: &Request,
        set: &DaemonSet,
        history: &RevisionList,
        pods: &[Arc<Pod>],
    ) -> kube::Result<(Box<str>, Option<i32>)> {
        for revision in &history.all {
            if revision.metadata.label(HASH).is_none() {
                let name = &revision.metadata.name;
                self.revision_store.label(request, revision, HASH, name).await?;
            }
        }
        let collisions = set.status.collision_count;
        let newest = match history.latest() {
            LatestRevision::Current(revision) => revision,
            LatestRevision::Renumber(revision, number) => {
                self.revision_store.renumber(request, &revision, number).await?;
                revision
            }
            LatestRevision::Create(number) => {
                let new = NewRevision {
                    set: &set.metadata,
                    template: &set.spec.template,
                    hash_label: HASH,
                    number,
                    collisions,
                };
                let (revision, collisions) = self.revision_store.create(request, &new).await?;
                return Ok((hash(&revision).into(), collisions));
            }
        };
        for double in history.duplicates() {
            self.merge_duplicate_revision(request, pods, double, &newest)
                .await?;
        }
        Ok((hash(&newest).into(), collisions))
    }

    /// Relabels pods of a duplicate revision of the same template, and deletes that revision.
    // upstream: pkg/controller/daemon/update.go dedupCurHistories
    async fn merge_duplicate_revision(
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
            let status_ref = ObjectRef::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
            let written: WrittenObject = self.writer.merge_patch(status_ref, &patch).await?;
            request.record_write(&self.pods, &written.metadata.resource_version);
        }
        self.revision_store.delete(double).await
    }

    /// Deletes revisions beyond revisionHistoryLimit. Revisions that a pod has are kept.
    // upstream: pkg/controller/daemon/update.go cleanupHistory
    async fn clean_up_history(
        &self,
        set: &DaemonSet,
        history: &RevisionList,
        pods: &[Arc<Pod>],
    ) -> kube::Result<()> {
        let lives = |revision: &ControllerRevision| {
            let hash = hash(revision);
            pods.iter().any(|pod| pod.metadata.label(HASH) == Some(hash))
        };
        let limit = set.spec.revision_history_limit;
        for revision in beyond_limit(
            history.other_revisions(),
            history.other_revisions().count(),
            limit,
            lives,
        ) {
            self.revision_store.delete(&revision).await?;
        }
        Ok(())
    }

    // --- pods ---

    /// A rolling update starts only when there is nothing else to do.
    fn plan(&self, observed: &ObservedDaemonSet<'_>) -> DaemonSetPlan {
        let plan = observed.manage(|node| self.backoff_remaining(&backoff_key(observed.set, node)));
        if !plan.is_empty() || observed.set.spec.update_strategy.kind == UpdateStrategyKind::OnDelete {
            return plan;
        }
        DaemonSetPlan {
            requeue_after: plan.requeue_after,
            ..observed.rolling_update()
        }
    }

    /// How long a failed pod is kept; `None` if it can be replaced now.
    fn backoff_remaining(&self, key: &BackoffKey) -> Option<Duration> {
        let now = Instant::now();
        let until = self.backoff().until_since_update(key, now)?;
        Some(until.duration_since(now))
    }

    fn backoff(&self) -> MutexGuard<'_, KeyedBackoff<BackoffKey, Instant>> {
        self.backoff.lock()
    }

    // upstream: pkg/controller/daemon/daemon_controller.go syncNodes
    async fn carry_out(
        &self,
        request: &Request,
        observed: &ObservedDaemonSet<'_>,
        mut plan: DaemonSetPlan,
    ) -> Result<(), Error> {
        let pod_control = self.pod_control(observed.set);
        let key = &request.key;
        for events in &plan.events {
            pod_control.record(events);
        }
        if !plan.failed.is_empty() {
            let now = Instant::now();
            let mut backoff = self.backoff();
            backoff.remove_expired(now);
            for node in &plan.failed {
                backoff.increase(backoff_key(observed.set, node), now, now);
            }
        }
        if plan.is_empty() {
            return Ok(());
        }
        plan.make.truncate(BURST);
        plan.delete.truncate(BURST);
        let uids = plan.delete.iter().map(|pod| &*pod.metadata.uid);
        self.expectations.set_expectations(key, plan.make.len(), uids);
        let written = self
            .create_pods(request, observed, &pod_control, &plan.make)
            .await;
        let deletions: Vec<_> = plan
            .delete
            .iter()
            .map(|pod| self.delete(key, &pod_control, pod))
            .collect();
        let BatchResult { error, .. } = slow_start_batch::all(deletions).await;
        written?;
        error.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn create_pods(
        &self,
        request: &Request,
        observed: &ObservedDaemonSet<'_>,
        pod_control: &PodControl<'_>,
        nodes: &[Box<str>],
    ) -> Result<(), Error> {
        if nodes.is_empty() {
            return Ok(());
        }
        let pod_template = DaemonPodTemplate::new(observed.set, observed.revision);
        let pods = pod_template.and_then(|pod_template| {
            nodes
                .iter()
                .map(|node| pod_template.pod(node))
                .collect::<Result<Vec<_>, _>>()
        });
        let pods = match pods {
            Ok(pods) => pods,
            Err(unmakeable) => {
                pod_control.record_template_error(&unmakeable);
                self.expectations.lower_expectations(&request.key, nodes.len());
                return Err(Error::permanent(unmakeable));
            }
        };
        let mut backoff_remaining = pods.iter();
        let tally = slow_start_batch::slow_start_batch(pods.len(), || {
            let pod = backoff_remaining.next();
            async move {
                match pod {
                    Some(pod) => pod_control.create(pod).await,
                    None => Ok(()),
                }
            }
        });
        let tally = tally.await;
        // Events for pods that were not created will never arrive.
        self.expectations
            .lower_expectations(&request.key, pods.len() - tally.done);
        tally.error.flatten().map_or(Ok(()), |error| Err(error.into()))
    }

    async fn delete(&self, key: &Key, pod_control: &PodControl<'_>, pod: &Pod) -> kube::Result<()> {
        let deleted = pod_control.delete(pod).await;
        // A pod that was not deleted, or was deleted before the expectation was set, sends no event.
        let observed = self
            .pods
            .store()
            .get(&Key::new(&pod.metadata.namespace, &pod.metadata.name));
        let is_there = observed.is_some_and(|observed| {
            observed.metadata.uid == pod.metadata.uid && !observed.metadata.is_terminating()
        });
        if !matches!(deleted, Ok(true)) || !is_there {
            self.expectations.deletion_observed(key, &pod.metadata.uid);
        }
        deleted.map(|_| ())
    }

    // --- status ---

    /// Writes the status if it differs from the stored one.
    // upstream: pkg/controller/daemon/daemon_controller.go storeDaemonSetStatus
    async fn write_status(
        &self,
        request: &Request,
        set: &DaemonSet,
        status: &DaemonStatus,
    ) -> kube::Result<()> {
        if *status == set.status {
            return Ok(());
        }
        let patch = status::status_patch(status, &set.metadata.resource_version);
        let status_ref =
            ObjectRef::new(&DAEMON_SETS, &set.metadata.namespace, &set.metadata.name).subresource("status");
        match self.writer.merge_patch::<WrittenObject>(status_ref, &patch).await {
            Ok(written) => {
                request.record_write(&self.sets, &written.metadata.resource_version);
                self.status_throttle.wrote(&request.key);
                Ok(())
            }
            // The DaemonSet was deleted; there is no status to write.
            Err(error) if has_status_code(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn backoff_key(set: &DaemonSet, node: &str) -> BackoffKey {
    BackoffKey {
        set: set.metadata.uid.clone(),
        generation: set.status.observed_generation,
        node: node.into(),
    }
}

/// The label value for pods of a revision; revisions without a hash label use their name.
fn hash(revision: &ControllerRevision) -> &str {
    let meta = &revision.metadata;
    meta.label(HASH).unwrap_or(&meta.name)
}
