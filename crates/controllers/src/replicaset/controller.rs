//! Reconciles a ReplicaSet or a ReplicationController: creates missing pods and deletes surplus ones.
//!
//! Invariants: a set is not synced before all its creations and deletions are in the informer's cache (expectations). Pods
//! created before a crash are found again by their owner. If two replicas of this controller run, both delete the same
//! surplus pod.

use std::{cmp::Ordering, collections::HashSet, sync::Arc};

use k3_workloads::Pod;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    expectations::ControllerExpectations,
    informer::Informer,
    resource::Resource,
    selector::Selector,
    writer::{ApiWriter, ObjectRef, WrittenObject, error_message, has_status_code},
};

use super::status::{self, ObservedReplicaSet};
use crate::{
    controller_ref_manager::{ControllerRefManager, OwnerIndex},
    objects::{Projection, ReplicaSpec, ReplicaStatus},
    pods::{
        deletion_order,
        pod_control::PodControl,
        pod_from_template::PodFromTemplate,
        slow_start_batch::{self, BatchResult},
    },
    resource::PODS,
    status_throttle::StatusThrottle,
};

/// Pods created or deleted per sync.
const BURST: usize = 500;

pub(crate) type ReplicaSetProjection<S> = Projection<ReplicaSpec<S>, ReplicaStatus>;

/// The resource that is reconciled: ReplicaSets and ReplicationControllers share the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplicaSetKind {
    pub(crate) resource: &'static Resource,
    /// Whether the status has `terminatingReplicas`.
    pub(crate) reports_terminating: bool,
}

// upstream: pkg/controller/replicaset/replica_set.go ReplicaSetController, syncReplicaSet
pub(super) struct ReplicaSetController<S: Send + Sync + 'static> {
    pub(super) kind: ReplicaSetKind,
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) sets: Informer<ReplicaSetProjection<S>>,
    pub(super) siblings: OwnerIndex<ReplicaSetProjection<S>>,
    pub(super) pods: OwnerIndex<Pod>,
    pub(super) expectations: Arc<ControllerExpectations>,
    pub(super) status_throttle: StatusThrottle,
}

/// Why a set does not have the desired pods.
struct SyncFailure {
    message: String,
    error: Error,
}

impl<S: AsRef<Selector> + Send + Sync + 'static> Reconciler for ReplicaSetController<S> {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(set) = self.sets.store().get(key) else {
            self.expectations.delete_expectations(key);
            self.status_throttle.forget(key);
            return Ok(Outcome::Done);
        };
        let is_new = set.metadata.generation != set.status.observed_generation;
        if let Some(left) = self.status_throttle.left(key).filter(|_| !is_new) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let children = self.pods.children(&set.metadata.uid);
        let terminating = self.kind.reports_terminating.then(|| {
            let is_counted = |pod: &&Arc<Pod>| pod.is_terminating() && selects(&set, pod);
            children.iter().filter(is_counted).count()
        });
        let active = self.claim(&set, children).await?;
        let failure = if self.expectations.are_satisfied(key) && !set.metadata.is_terminating() {
            self.manage_replicas(&request, &set, &active).await
        } else {
            None
        };
        let observed = ObservedReplicaSet {
            spec: &set.spec,
            generation: set.metadata.generation,
            before: &set.status,
            active: &active,
            terminating,
            failure: failure.as_ref().map(|failure| &*failure.message),
            now: self.clock.now(),
        };
        let status = observed.status();
        if status != set.status {
            self.write_status(&request, &set, &status).await?;
        }
        match failure {
            Some(failure) => Err(failure.error),
            None => Ok(observed
                .next_available()
                .map_or(Outcome::Done, Outcome::RequeueAfter)),
        }
    }
}

fn selects<S: AsRef<Selector>>(set: &ReplicaSetProjection<S>, pod: &Pod) -> bool {
    set.spec.selector.as_ref().matches(&pod.metadata.labels)
}

impl<S: AsRef<Selector> + Send + Sync + 'static> ReplicaSetController<S> {
    fn parent<'a>(&self, set: &'a ReplicaSetProjection<S>) -> ControllerRefManager<'a> {
        ControllerRefManager {
            meta: &set.metadata,
            resource: self.kind.resource,
            children: &PODS,
        }
    }

    /// The active pods of a set.
    // upstream: pkg/controller/replicaset/replica_set.go claimPods
    async fn claim(
        &self,
        set: &ReplicaSetProjection<S>,
        mut pods: Vec<Arc<Pod>>,
    ) -> kube::Result<Vec<Arc<Pod>>> {
        pods.extend(self.pods.orphans(&set.metadata.namespace));
        pods.retain(|pod| pod.is_active());
        let matches = |pod: &Pod| selects(set, pod);
        self.parent(set).claim(&self.writer, pods, matches).await
    }

    /// Creates missing pods or deletes surplus ones.
    // upstream: pkg/controller/replicaset/replica_set.go manageReplicas
    async fn manage_replicas(
        &self,
        request: &Request,
        set: &ReplicaSetProjection<S>,
        active: &[Arc<Pod>],
    ) -> Option<SyncFailure> {
        let wanted = usize::try_from(set.spec.replicas).unwrap_or(0);
        match active.len().cmp(&wanted) {
            Ordering::Less => {
                self.create_pods(request, set, (wanted - active.len()).min(BURST))
                    .await
            }
            Ordering::Greater => {
                self.delete_pods(request, set, active, (active.len() - wanted).min(BURST))
                    .await
            }
            Ordering::Equal => None,
        }
    }

    // --- creating ---

    // upstream: pkg/controller/replicaset/replica_set.go manageReplicas, slowStartBatch
    async fn create_pods(
        &self,
        request: &Request,
        set: &ReplicaSetProjection<S>,
        count: usize,
    ) -> Option<SyncFailure> {
        let owner = self.parent(set).owner();
        let pod_control = self.pod_control(set);
        let text = match PodFromTemplate::new(&set.spec.template, owner).and_then(|pod| pod.to_raw()) {
            Ok(text) => text,
            Err(template_error) => {
                pod_control.record_template_error(&template_error);
                let message = template_error.to_string();
                let error = Error::permanent(template_error);
                return Some(SyncFailure { message, error });
            }
        };
        self.expectations.expect_creations(&request.key, count);
        let batch = slow_start_batch::slow_start_batch(count, || pod_control.create(&text)).await;
        // Events for pods that were not created will never arrive.
        self.expectations
            .lower_expectations(&request.key, count - batch.done);
        batch.error.flatten().map(|error| SyncFailure {
            message: error_message(&error),
            error: error.into(),
        })
    }

    // --- deleting ---

    // upstream: pkg/controller/replicaset/replica_set.go manageReplicas, getPodsToDelete
    async fn delete_pods(
        &self,
        request: &Request,
        set: &ReplicaSetProjection<S>,
        active: &[Arc<Pod>],
        count: usize,
    ) -> Option<SyncFailure> {
        let chosen = deletion_order::pods_to_delete(
            active.to_vec(),
            &self.indirectly_related_pods(set),
            count,
            self.clock.now(),
        );
        let uids = chosen.iter().map(|pod| &*pod.metadata.uid);
        self.expectations.expect_deletions(&request.key, uids);
        let pod_control = self.pod_control(set);
        let deletions: Vec<_> = chosen
            .iter()
            .map(|pod| self.delete_pod(request, &pod_control, pod))
            .collect();
        let BatchResult { error, .. } = slow_start_batch::all(deletions).await;
        // Pods that were deleted before the expectation was set send no further event.
        let left: HashSet<_> = self
            .pods
            .children(&set.metadata.uid)
            .into_iter()
            .filter(|pod| !pod.metadata.is_terminating())
            .map(|pod| pod.metadata.uid.clone())
            .collect();
        for pod in chosen.iter().filter(|pod| !left.contains(&pod.metadata.uid)) {
            self.expectations
                .deletion_observed(&request.key, &pod.metadata.uid);
        }
        error.map(|error| SyncFailure {
            message: format!("unable to delete pods: {}", error_message(&error)),
            error: error.into(),
        })
    }

    async fn delete_pod(
        &self,
        request: &Request,
        pod_control: &PodControl<'_>,
        pod: &Pod,
    ) -> kube::Result<()> {
        let deleted = pod_control.delete(pod).await;
        if !matches!(deleted, Ok(true)) {
            self.expectations
                .deletion_observed(&request.key, &pod.metadata.uid);
        }
        deleted.map(|_| ())
    }

    /// Pods of all sets with the same controller, for ranking by related pods on the same node.
    // upstream: pkg/controller/replicaset/replica_set.go getIndirectlyRelatedPods
    fn indirectly_related_pods(&self, set: &ReplicaSetProjection<S>) -> Vec<Arc<Pod>> {
        let Some(owner) = set.metadata.controller() else {
            return Vec::new();
        };
        let siblings = self.siblings.children(&owner.uid);
        let mut observed = HashSet::new();
        let pods = siblings
            .iter()
            .flat_map(|sibling| self.pods.children(&sibling.metadata.uid));
        pods.filter(|pod| observed.insert(pod.metadata.uid.clone()))
            .collect()
    }

    // --- events and status ---

    fn pod_control<'a>(&'a self, set: &'a ReplicaSetProjection<S>) -> PodControl<'a> {
        PodControl::new(&self.writer, &self.recorder, &set.metadata, self.kind.resource)
    }

    // upstream: pkg/controller/replicaset/replica_set_utils.go updateReplicaSetStatus
    async fn write_status(
        &self,
        request: &Request,
        set: &ReplicaSetProjection<S>,
        status: &ReplicaStatus,
    ) -> kube::Result<()> {
        let patch = status::status_patch(status, &set.metadata.resource_version);
        let object_ref = ObjectRef::new(self.kind.resource, &set.metadata.namespace, &set.metadata.name)
            .subresource("status");
        match self.writer.merge_patch::<WrittenObject>(object_ref, &patch).await {
            Ok(written) => {
                request.record_write(&self.sets, &written.metadata.resource_version);
                self.status_throttle.wrote(&request.key);
                Ok(())
            }
            // The set was deleted; there is no status to write.
            Err(error) if has_status_code(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
