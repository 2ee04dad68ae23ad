//! Reconciles a Deployment: carries out the [`SyncPlan`] that `sync.rs` computes.
//!
//! Invariants: every write carries the resourceVersion it was planned for, so that of two replicas of this controller one does
//! nothing; no plan is computed before the writes of the previous one are in the informer's cache. Names of ReplicaSets
//! derive from their templates, so that what was created before a crash, or by another replica, is found again.

use k3_workloads::{ConditionStatus, Pod};
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    events::{EventRecorder, EventType},
    informer::Informer,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

use super::{
    condition::{self, PROGRESSING},
    progress::{self, CREATE_ERROR},
    replica_set::ReplicaSetUpdate,
    sync::{ReplicaSetCreation, SyncPlan, plan},
};
use crate::{
    controller_ref_manager::{ControllerRefManager, OwnerIndex},
    objects::{Deployment, DeploymentStatus, ReplicaSet},
    resource::{DEPLOYMENTS, REPLICA_SETS},
    status_throttle::StatusThrottle,
    writer::{ApiWriter, ObjectRef, WrittenObject, error_message, has_status_code, is_namespace_terminating},
};

const SCALING: &str = "ScalingReplicaSet";

/// Another replica of this controller created the ReplicaSet; the informer delivers it shortly.
const REQUEUE_DELAY: Duration = Duration::from_millis(50);

// upstream: pkg/controller/deployment/deployment_controller.go DeploymentController, syncDeployment
pub(super) struct DeploymentController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) deployments: Informer<Deployment>,
    pub(super) sets: Informer<ReplicaSet>,
    pub(super) replica_set_index: OwnerIndex<ReplicaSet>,
    pub(super) pods: OwnerIndex<Pod>,
    pub(super) status_throttle: StatusThrottle,
}

/// Whether the rest of a plan can be carried out.
enum PlanProgress {
    Continue,
    Stop(Outcome),
}

impl Reconciler for DeploymentController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(deployment) = self.deployments.store().get(&request.key) else {
            self.status_throttle.forget(&request.key);
            return Ok(Outcome::Done);
        };
        let is_new = deployment.metadata.generation != deployment.status.observed_generation;
        if let Some(left) = self.status_throttle.left(&request.key).filter(|_| !is_new) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let sets = if deployment.spec.selector.selector.is_empty() {
            Vec::new()
        } else {
            self.claim(&deployment).await?
        };
        let has_pods = |set: &ReplicaSet| {
            let pods = self.pods.children(&set.metadata.uid);
            pods.iter().any(|pod| !pod.has_ended())
        };
        let plan = plan(&deployment, sets, has_pods, self.clock.now()).map_err(Error::permanent)?;
        self.carry_out(&request, &deployment, plan).await
    }
}

impl DeploymentController {
    /// The replica sets of a deployment.
    // upstream: pkg/controller/deployment/deployment_controller.go getReplicaSetsForDeployment
    async fn claim(&self, deployment: &Deployment) -> kube::Result<Vec<Arc<ReplicaSet>>> {
        let meta = &deployment.metadata;
        let mut sets = self.replica_set_index.children(&meta.uid);
        sets.extend(self.replica_set_index.orphans(&meta.namespace));
        let parent = ControllerRefManager {
            meta,
            resource: &DEPLOYMENTS,
            children: &REPLICA_SETS,
        };
        let selector = &deployment.spec.selector.selector;
        let matches = |set: &ReplicaSet| selector.matches(&set.metadata.labels);
        parent.claim(&self.writer, sets, matches).await
    }

    async fn carry_out(
        &self,
        request: &Request,
        deployment: &Deployment,
        plan: SyncPlan,
    ) -> Result<Outcome, Error> {
        if plan.selects_all {
            let note = "This deployment is selecting all pods. A non-empty selector is required.";
            self.record_event(deployment, EventType::Warning, "SelectingAll", note.to_owned());
        }
        if let Some(creation) = &plan.creation
            && let PlanProgress::Stop(outcome) = self.create(request, deployment, creation).await?
        {
            return Ok(outcome);
        }
        for change in &plan.changes {
            self.update_replica_set(request, deployment, change).await?;
        }
        for set in &plan.removals {
            self.delete_replica_set(set).await?;
        }
        if let Some(rollback) = &plan.rollback {
            let object_ref = deployment_ref(deployment);
            let written: WrittenObject = self
                .writer
                .update_with_json_patch(object_ref, &rollback.steps)
                .await?;
            request.record_write(&self.deployments, &written.metadata.resource_version);
            let kind = if rollback.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            };
            self.record_event(deployment, kind, rollback.reason, rollback.message.clone());
            return Ok(Outcome::Done);
        }
        if plan.status.is_some() || plan.revision.is_some() {
            let status = plan.status.as_ref().unwrap_or(&deployment.status);
            let patch = progress::status_patch(
                status,
                &deployment.metadata.resource_version,
                plan.revision.as_deref(),
            );
            self.write_status(request, deployment, &patch).await?;
        }
        Ok(plan.requeue_after.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    // --- replica sets ---

    // upstream: pkg/controller/deployment/sync.go getNewReplicaSet
    async fn create(
        &self,
        request: &Request,
        deployment: &Deployment,
        creation: &ReplicaSetCreation,
    ) -> Result<PlanProgress, Error> {
        let namespace = &deployment.metadata.namespace;
        let created = self
            .writer
            .create::<WrittenObject>(&REPLICA_SETS, namespace, &creation.body)
            .await;
        let error = match created {
            Ok(written) => {
                request.record_write(&self.sets, &written.metadata.resource_version);
                if creation.replicas > 0 {
                    self.record_scaling_event(deployment, &creation.name, (0, creation.replicas));
                }
                return Ok(PlanProgress::Continue);
            }
            Err(error) => error,
        };
        if has_status_code(&error, 409) {
            let there = self
                .resolve_name_collision(request, deployment, &creation.name)
                .await?;
            return Ok(PlanProgress::Stop(there));
        }
        if is_namespace_terminating(&error) {
            return Ok(PlanProgress::Stop(Outcome::Done));
        }
        let problem = format!(
            "Failed to create new replica set {:?}: {}",
            creation.name,
            error_message(&error)
        );
        if progress::deadline(deployment).is_some() {
            let mut status = deployment.status.clone();
            let failed = ConditionStatus::False;
            let condition = condition::new(
                PROGRESSING,
                failed,
                CREATE_ERROR,
                problem.clone(),
                self.clock.now(),
            );
            condition::set(&mut status.conditions, condition);
            if status != deployment.status {
                let patch = progress::status_patch(&status, &deployment.metadata.resource_version, None);
                // The missing ReplicaSet is the error to report; failing to write the condition is secondary.
                let _ = self.write_status(request, deployment, &patch).await;
            }
        }
        self.record_event(deployment, EventType::Warning, CREATE_ERROR, problem);
        Err(error.into())
    }

    /// The name exists: either it is the ReplicaSet to be created, or another template has the same hash (collisionCount).
    // upstream: pkg/controller/deployment/sync.go getNewReplicaSet; a hash collision increments collisionCount
    async fn resolve_name_collision(
        &self,
        request: &Request,
        deployment: &Deployment,
        name: &str,
    ) -> Result<Outcome, Error> {
        let object_ref = ObjectRef::new(&REPLICA_SETS, &deployment.metadata.namespace, name);
        let there: ReplicaSet = self.writer.get(object_ref).await?;
        let is_own = there.metadata.is_controlled_by(&deployment.metadata.uid);
        let template = deployment
            .spec
            .template
            .canonical_tree()
            .map_err(Error::permanent)?;
        if is_own
            && there
                .spec
                .template
                .canonical_tree()
                .is_ok_and(|theirs| theirs == template)
        {
            return Ok(Outcome::RequeueAfter(REQUEUE_DELAY));
        }
        let collisions = deployment.status.collision_count.unwrap_or(0) + 1;
        let status = DeploymentStatus {
            collision_count: Some(collisions),
            ..deployment.status.clone()
        };
        let patch = progress::status_patch(&status, &deployment.metadata.resource_version, None);
        self.write_status(request, deployment, &patch).await?;
        Ok(Outcome::RequeueAfter(REQUEUE_DELAY))
    }

    async fn update_replica_set(
        &self,
        request: &Request,
        deployment: &Deployment,
        change: &ReplicaSetUpdate,
    ) -> kube::Result<()> {
        let meta = &change.set.metadata;
        let object_ref = ObjectRef::new(&REPLICA_SETS, &meta.namespace, &meta.name);
        let written: WrittenObject = self.writer.merge_patch(object_ref, &change.patch).await?;
        request.record_write(&self.sets, &written.metadata.resource_version);
        if let Some(scaled) = change.scaled {
            self.record_scaling_event(deployment, &meta.name, scaled);
        }
        Ok(())
    }

    async fn delete_replica_set(&self, set: &ReplicaSet) -> kube::Result<()> {
        let meta = &set.metadata;
        let object_ref = ObjectRef::new(&REPLICA_SETS, &meta.namespace, &meta.name);
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        });
        self.writer.delete(object_ref, &options).await
    }

    // --- events and status ---

    async fn write_status(
        &self,
        request: &Request,
        deployment: &Deployment,
        patch: &Value,
    ) -> kube::Result<()> {
        match self
            .writer
            .merge_patch::<WrittenObject>(deployment_ref(deployment).subresource("status"), patch)
            .await
        {
            Ok(written) => {
                request.record_write(&self.deployments, &written.metadata.resource_version);
                self.status_throttle.wrote(&request.key);
                Ok(())
            }
            // The Deployment was deleted; there is no status to write.
            Err(error) if has_status_code(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn record_scaling_event(&self, deployment: &Deployment, set: &str, (from, to): (i32, i32)) {
        let way = if from < to { "up" } else { "down" };
        let note = format!("Scaled {way} replica set {set} from {from} to {to}");
        self.record_event(deployment, EventType::Normal, SCALING, note);
    }

    fn record_event(&self, deployment: &Deployment, kind: EventType, reason: &str, note: String) {
        let regarding = DEPLOYMENTS.object_reference(&deployment.metadata);
        self.recorder.event(&regarding, kind, reason, reason, note);
    }
}

fn deployment_ref(deployment: &Deployment) -> ObjectRef<'_> {
    ObjectRef::new(
        &DEPLOYMENTS,
        &deployment.metadata.namespace,
        &deployment.metadata.name,
    )
}
