//! Does what is planned for a deployment.
//!
//! Promises: every write names the version it was planned for, so that of two that plan at once one does nothing; and no plan
//! is made before what was written for the last one has been seen. The names of replica sets are made of their templates:
//! what was made before a crash, or by another copy, is found.

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
    plan::{Creation, Plan, plan},
    progress::{self, CREATE_ERROR},
    set::Change,
};
use crate::{
    calm::Calm,
    family::{Family, Parent},
    objects::{ConditionStatus, Deployment, DeploymentStatus, Pod, ReplicaSet},
    resource::{DEPLOYMENTS, REPLICA_SETS},
    writer::{Made, Place, Writer, is, is_namespace_going, words},
};

const SCALING: &str = "ScalingReplicaSet";

/// What another copy has made is seen soon.
const SOON: Duration = Duration::from_millis(50);

pub(super) struct Roller {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) deployments: Informer<Deployment>,
    pub(super) sets: Informer<ReplicaSet>,
    pub(super) families: Family<ReplicaSet>,
    pub(super) pods: Family<Pod>,
    pub(super) calm: Calm,
}

/// Whether a plan can be gone on with.
enum Next {
    Go,
    Stop(Outcome),
}

impl Reconciler for Roller {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(deployment) = self.deployments.store().get(&request.key) else {
            self.calm.forget(&request.key);
            return Ok(Outcome::Done);
        };
        let is_new = deployment.metadata.generation != deployment.status.observed_generation;
        if let Some(left) = self.calm.left(&request.key).filter(|_| !is_new) {
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
        self.follow(&request, &deployment, plan).await
    }
}

impl Roller {
    /// The replica sets of a deployment.
    async fn claim(&self, deployment: &Deployment) -> kube::Result<Vec<Arc<ReplicaSet>>> {
        let meta = &deployment.metadata;
        let mut sets = self.families.children(&meta.uid);
        sets.extend(self.families.orphans(&meta.namespace));
        let parent = Parent {
            meta,
            resource: &DEPLOYMENTS,
            children: &REPLICA_SETS,
        };
        let selector = &deployment.spec.selector.selector;
        let matches = |set: &ReplicaSet| selector.matches(&set.metadata.labels);
        parent.claim(&self.writer, sets, matches).await
    }

    async fn follow(&self, request: &Request, deployment: &Deployment, plan: Plan) -> Result<Outcome, Error> {
        if plan.selects_all {
            let note = "This deployment is selecting all pods. A non-empty selector is required.";
            self.tell(deployment, EventType::Warning, "SelectingAll", note.to_owned());
        }
        if let Some(creation) = &plan.creation
            && let Next::Stop(outcome) = self.create(request, deployment, creation).await?
        {
            return Ok(outcome);
        }
        for change in &plan.changes {
            self.change(request, deployment, change).await?;
        }
        for set in &plan.removals {
            self.remove(set).await?;
        }
        if let Some(rollback) = &plan.rollback {
            let place = place(deployment);
            let made: Made = self.writer.update_by_steps(place, &rollback.steps).await?;
            request.record_write(&self.deployments, &made.metadata.resource_version);
            let kind = if rollback.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            };
            self.tell(deployment, kind, rollback.reason, rollback.message.clone());
            return Ok(Outcome::Done);
        }
        if plan.status.is_some() || plan.revision.is_some() {
            let status = plan.status.as_ref().unwrap_or(&deployment.status);
            let patch = progress::patch(
                status,
                &deployment.metadata.resource_version,
                plan.revision.as_deref(),
            );
            self.write_status(request, deployment, &patch).await?;
        }
        Ok(plan.again.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    // --- replica sets ---

    async fn create(
        &self,
        request: &Request,
        deployment: &Deployment,
        creation: &Creation,
    ) -> Result<Next, Error> {
        let namespace = &deployment.metadata.namespace;
        let created = self
            .writer
            .create::<Made>(&REPLICA_SETS, namespace, &creation.body)
            .await;
        let error = match created {
            Ok(made) => {
                request.record_write(&self.sets, &made.metadata.resource_version);
                if creation.replicas > 0 {
                    self.tell_scaled(deployment, &creation.name, (0, creation.replicas));
                }
                return Ok(Next::Go);
            }
            Err(error) => error,
        };
        if is(&error, 409) {
            let there = self.compare(request, deployment, &creation.name).await?;
            return Ok(Next::Stop(there));
        }
        if is_namespace_going(&error) {
            return Ok(Next::Stop(Outcome::Done));
        }
        let problem = format!(
            "Failed to create new replica set {:?}: {}",
            creation.name,
            words(&error)
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
                let patch = progress::patch(&status, &deployment.metadata.resource_version, None);
                // That there is no set is what matters; that this could not be said comes second.
                let _ = self.write_status(request, deployment, &patch).await;
            }
        }
        self.tell(deployment, EventType::Warning, CREATE_ERROR, problem);
        Err(error.into())
    }

    /// There is a set of the name already: it is the one that was to be made, or another template has the same hash.
    async fn compare(
        &self,
        request: &Request,
        deployment: &Deployment,
        name: &str,
    ) -> Result<Outcome, Error> {
        let place = Place::new(&REPLICA_SETS, &deployment.metadata.namespace, name);
        let there: ReplicaSet = self.writer.get(place).await?;
        let is_own = there.metadata.is_controlled_by(&deployment.metadata.uid);
        let template = deployment.spec.template.meaning().map_err(Error::permanent)?;
        if is_own
            && there
                .spec
                .template
                .meaning()
                .is_ok_and(|theirs| theirs == template)
        {
            return Ok(Outcome::RequeueAfter(SOON));
        }
        let collisions = deployment.status.collision_count.unwrap_or(0) + 1;
        let status = DeploymentStatus {
            collision_count: Some(collisions),
            ..deployment.status.clone()
        };
        let patch = progress::patch(&status, &deployment.metadata.resource_version, None);
        self.write_status(request, deployment, &patch).await?;
        Ok(Outcome::RequeueAfter(SOON))
    }

    async fn change(&self, request: &Request, deployment: &Deployment, change: &Change) -> kube::Result<()> {
        let meta = &change.set.metadata;
        let place = Place::new(&REPLICA_SETS, &meta.namespace, &meta.name);
        let made: Made = self.writer.merge(place, &change.patch).await?;
        request.record_write(&self.sets, &made.metadata.resource_version);
        if let Some(scaled) = change.scaled {
            self.tell_scaled(deployment, &meta.name, scaled);
        }
        Ok(())
    }

    async fn remove(&self, set: &ReplicaSet) -> kube::Result<()> {
        let meta = &set.metadata;
        let place = Place::new(&REPLICA_SETS, &meta.namespace, &meta.name);
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        });
        self.writer.delete(place, &options).await
    }

    // --- telling ---

    async fn write_status(
        &self,
        request: &Request,
        deployment: &Deployment,
        patch: &Value,
    ) -> kube::Result<()> {
        match self
            .writer
            .update::<Made>(place(deployment).part("status"), patch)
            .await
        {
            Ok(made) => {
                request.record_write(&self.deployments, &made.metadata.resource_version);
                self.calm.wrote(&request.key);
                Ok(())
            }
            // It is gone, and has nothing to tell.
            Err(error) if is(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn tell_scaled(&self, deployment: &Deployment, set: &str, (from, to): (i32, i32)) {
        let way = if from < to { "up" } else { "down" };
        let note = format!("Scaled {way} replica set {set} from {from} to {to}");
        self.tell(deployment, EventType::Normal, SCALING, note);
    }

    fn tell(&self, deployment: &Deployment, kind: EventType, reason: &str, note: String) {
        let regarding = deployment.metadata.reference(&DEPLOYMENTS);
        self.recorder.event(&regarding, kind, reason, reason, note);
    }
}

fn place(deployment: &Deployment) -> Place<'_> {
    Place::new(
        &DEPLOYMENTS,
        &deployment.metadata.namespace,
        &deployment.metadata.name,
    )
}
