//! Computes what to do for a Deployment: ReplicaSets to create, update and delete, and the new status.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    condition::PROGRESSING,
    progress::{self, CREATED, FOUND},
    replica_set::{DesiredReplicaSet, REVISION, ReplicaSetUpdate},
    rollback::{self, Rollback},
    rollout::Rollout,
};
use crate::{
    objects::{Deployment, DeploymentStatus, ReplicaSet, StrategyKind, TEMPLATE_HASH},
    pods::pod_from_template::NewPodMeta,
    resource,
};

/// DNS-1123 subdomain limit.
const MAX_NAME_LENGTH: usize = 253;

/// What to do, in this order.
#[derive(Debug, Default)]
pub(super) struct SyncPlan {
    pub(super) creation: Option<ReplicaSetCreation>,
    pub(super) changes: Vec<ReplicaSetUpdate>,
    pub(super) removals: Vec<Arc<ReplicaSet>>,
    pub(super) rollback: Option<Rollback>,
    /// The new status, if it differs from the stored one.
    pub(super) status: Option<DeploymentStatus>,
    /// The value for the revision annotation of the Deployment.
    pub(super) revision: Option<Box<str>>,
    /// The selector is empty and selects all pods: nothing is done.
    pub(super) selects_all: bool,
    /// When to sync again if no event arrives.
    pub(super) requeue_after: Option<Duration>,
}

/// A ReplicaSet to create.
#[derive(Debug)]
pub(super) struct ReplicaSetCreation {
    pub(super) name: Box<str>,
    pub(super) replicas: i32,
    pub(super) body: Value,
}

/// Plans for a Deployment and the ReplicaSets that it controls. `has_pods` reports whether a ReplicaSet has a pod that has not
/// terminated.
// upstream: pkg/controller/deployment/deployment_controller.go syncDeployment
pub(super) fn plan(
    deployment: &Deployment,
    sets: Vec<Arc<ReplicaSet>>,
    has_pods: impl Fn(&ReplicaSet) -> bool,
    now: Timestamp,
) -> serde_json::Result<SyncPlan> {
    if deployment.spec.selector.selector.is_empty() {
        return Ok(plan_for_empty_selector(deployment));
    }
    let mut planner = SyncPlanner::new(deployment, sets, now)?;
    planner.work(has_pods)?;
    Ok(planner.finish())
}

/// An empty selector is a user error: only `observedGeneration` is recorded.
fn plan_for_empty_selector(deployment: &Deployment) -> SyncPlan {
    let mut status = deployment.status.clone();
    status.observed_generation = deployment.metadata.generation;
    SyncPlan {
        status: (status != deployment.status).then_some(status),
        selects_all: true,
        ..SyncPlan::default()
    }
}

struct SyncPlanner<'d> {
    rollout: Rollout<'d>,
    /// The status under construction, with conditions added on the way.
    status: DeploymentStatus,
    plan: SyncPlan,
    now: Timestamp,
}

impl<'d> SyncPlanner<'d> {
    fn new(
        deployment: &'d Deployment,
        sets: Vec<Arc<ReplicaSet>>,
        now: Timestamp,
    ) -> serde_json::Result<Self> {
        let meaning = deployment.spec.template.canonical_tree()?;
        let mut sets: Vec<_> = sets.into_iter().map(DesiredReplicaSet::from_existing).collect();
        sets.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
        // There should be one; of several, the oldest is used, as upstream does.
        let is_new = |set: &DesiredReplicaSet| {
            let template = set
                .observed
                .as_ref()
                .map(|observed| observed.spec.template.canonical_tree());
            template.is_some_and(|template| template.is_ok_and(|template| template == meaning))
        };
        Ok(SyncPlanner {
            rollout: Rollout {
                deployment,
                new: sets.iter().position(is_new),
                sets,
            },
            status: deployment.status.clone(),
            plan: SyncPlan::default(),
            now,
        })
    }

    fn work(&mut self, has_pods: impl Fn(&ReplicaSet) -> bool) -> serde_json::Result<()> {
        let deployment = self.rollout.deployment;
        if deployment.metadata.is_terminating() {
            self.set_new_replica_set_annotations();
            self.calculate_status();
            return Ok(());
        }
        progress::set_paused_condition(deployment, &mut self.status.conditions, self.now);
        let rollback = rollback::requested_revision(deployment);
        if deployment.spec.paused {
            self.set_new_replica_set_annotations();
            self.rollout.scale();
            if rollback.is_none() {
                self.clean_up_old_replica_sets();
            }
            self.calculate_status();
            return Ok(());
        }
        if let Some(revision) = rollback {
            self.ensure_new_replica_set()?;
            self.plan.rollback = Some(rollback::rollback_to_revision(&self.rollout, revision));
            return Ok(());
        }
        self.set_new_replica_set_annotations();
        if self.rollout.is_scaling_event() {
            self.rollout.scale();
            self.calculate_status();
            return Ok(());
        }
        match deployment.spec.strategy.kind {
            StrategyKind::RollingUpdate => {
                self.ensure_new_replica_set()?;
                self.rollout.roll();
            }
            StrategyKind::Recreate => {
                let rollout = &mut self.rollout;
                if rollout.scale_old_to_zero()
                    || rollout
                        .old()
                        .any(|old| has_running_pods(&rollout.sets[old], &has_pods))
                {
                    self.calculate_rollout_status();
                    return Ok(());
                }
                self.ensure_new_replica_set()?;
                self.rollout.scale_up_new();
            }
        }
        if progress::is_complete(deployment, &deployment.status) {
            self.clean_up_old_replica_sets();
        }
        self.calculate_rollout_status();
        Ok(())
    }

    fn finish(mut self) -> SyncPlan {
        let deployment = self.rollout.deployment;
        let mut order: Vec<_> = self.rollout.new.into_iter().chain(self.rollout.old()).collect();
        // Order of writes: the new ReplicaSet scales up before the old ones scale down, so that no step of the
        // rollout drops below the minimum availability.
        order.retain(|set| self.rollout.sets[*set].observed.is_some());
        self.plan.changes = order
            .into_iter()
            .filter_map(|set| self.rollout.sets[set].update_replica_set())
            .collect();
        if let Some(creation) = &mut self.plan.creation {
            let new = self.rollout.new.map(|new| &self.rollout.sets[new]);
            creation.replicas = new.map_or(0, |new| new.replicas);
            creation.body["spec"]["replicas"] = creation.replicas.into();
        }
        self.plan.requeue_after = progress::requeue_stuck_after(deployment, &self.status, self.now);
        self.plan.status = (self.status != deployment.status).then_some(self.status);
        self.plan
    }

    // upstream: pkg/controller/deployment/sync.go calculateStatus
    fn calculate_status(&mut self) {
        self.status = progress::calculate_status(&self.rollout, &self.status, self.now);
    }

    // upstream: pkg/controller/deployment/progress.go syncRolloutStatus
    fn calculate_rollout_status(&mut self) {
        self.status = progress::rollout_status(&self.rollout, &self.status, self.now);
    }

    // --- new ReplicaSet ---

    fn next_revision(&self) -> i64 {
        let sets = &self.rollout.sets;
        let old = self.rollout.old().filter_map(|old| sets[old].revision());
        old.max().unwrap_or(0).max(0) + 1
    }

    /// Copies the Deployment's annotations and the newest revision to the new ReplicaSet, and its revision to the Deployment.
    // upstream: pkg/controller/deployment/util/deployment_util.go SetNewReplicaSetAnnotations
    fn set_new_replica_set_annotations(&mut self) {
        let deployment = self.rollout.deployment;
        let revision = self.next_revision();
        let Some(new) = self.rollout.new else { return };
        let set = &mut self.rollout.sets[new];
        set.set_new_replica_set_annotations(deployment, revision);
        set.min_ready_seconds = deployment.spec.min_ready_seconds;
        let revision = set.annotations.get(REVISION).cloned();
        let message = format!("Found new replica set {:?}", set.name);
        self.set_revision(revision.unwrap_or_default());
        let is_known = Condition::find(&self.status.conditions, PROGRESSING).is_some();
        if progress::deadline(deployment).is_some() && !is_known {
            self.set_progressing(FOUND, message);
        }
    }

    fn set_revision(&mut self, revision: Box<str>) {
        if self.rollout.deployment.metadata.annotation(REVISION) != Some(&revision) {
            self.plan.revision = Some(revision);
        }
    }

    fn set_progressing(&mut self, reason: &str, message: String) {
        progress::set_progressing_condition(
            &mut self.status.conditions,
            ConditionStatus::True,
            reason,
            message,
            self.now,
        );
    }

    /// Creates the ReplicaSet of the Deployment's template if it does not exist.
    // upstream: pkg/controller/deployment/sync.go getNewReplicaSet
    fn ensure_new_replica_set(&mut self) -> serde_json::Result<()> {
        if self.rollout.new.is_some() {
            return Ok(());
        }
        let deployment = self.rollout.deployment;
        let revision = self.next_revision();
        let hash = deployment.spec.template.hash(deployment.status.collision_count)?;
        let name = replica_set_name(&deployment.metadata.name, &hash);
        let mut set = DesiredReplicaSet::new(&name, deployment);
        set.replicas = self.rollout.new_replicas(0);
        set.set_new_replica_set_annotations(deployment, revision);
        set.set_replicas_annotations(deployment.spec.replicas, self.rollout.max_replicas());
        self.plan.creation = Some(ReplicaSetCreation {
            body: replica_set_body(deployment, &set, &hash)?,
            name: set.name.clone(),
            replicas: set.replicas,
        });
        self.rollout.sets.push(set);
        self.rollout.new = Some(self.rollout.sets.len() - 1);
        self.set_revision(revision.to_string().into());
        if progress::deadline(deployment).is_some() {
            self.set_progressing(CREATED, format!("Created new replica set {name:?}"));
        }
        Ok(())
    }

    // --- old ReplicaSets ---

    /// Deletes old ReplicaSets beyond `revisionHistoryLimit`, lowest revisions first. Those with pods are kept.
    // upstream: pkg/controller/deployment/sync.go cleanupDeployment
    fn clean_up_old_replica_sets(&mut self) {
        let limit = self.rollout.deployment.spec.revision_history_limit;
        let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else {
            return;
        };
        let sets = &self.rollout.sets;
        let mut old: Vec<_> = self
            .rollout
            .old()
            .filter_map(|old| Some((sets[old].revision(), &sets[old], sets[old].observed.as_ref()?)))
            .filter(|(_, _, observed)| !observed.metadata.is_terminating())
            .collect();
        old.sort_by_key(|(revision, set, _)| (revision.unwrap_or(0), set.created, &set.name));
        let spare = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        let is_empty = |set: &DesiredReplicaSet, observed: &ReplicaSet| {
            set.replicas == 0
                && observed.spec.replicas == 0
                && observed.status.replicas == 0
                && observed.metadata.generation <= observed.status.observed_generation
        };
        let removals = old[..spare]
            .iter()
            .filter(|(_, set, observed)| is_empty(set, observed));
        self.plan.removals = removals.map(|(_, _, observed)| Arc::clone(observed)).collect();
    }
}

/// Whether a ReplicaSet has pods, according to its status or to the pod informer.
// upstream: pkg/controller/deployment/recreate.go oldPodsRunning
fn has_running_pods(set: &DesiredReplicaSet, has_pods: impl Fn(&ReplicaSet) -> bool) -> bool {
    set.status.replicas > 0 || set.observed.as_ref().is_some_and(|observed| has_pods(observed))
}

/// `<deployment>-<hash>`, with the Deployment's name truncated if necessary.
// upstream: pkg/controller/deployment/sync.go generateReplicaSetName
fn replica_set_name(deployment: &str, hash: &str) -> String {
    let kept = deployment.floor_char_boundary(MAX_NAME_LENGTH - 1 - hash.len());
    format!("{}-{hash}", &deployment[..kept])
}

/// The ReplicaSet to create. Labels and selector contain the template hash, so that it never selects pods of another one.
/// taken for its own.
fn replica_set_body(
    deployment: &Deployment,
    set: &DesiredReplicaSet,
    hash: &str,
) -> serde_json::Result<Value> {
    let mut template = deployment.spec.template.tree()?;
    template["metadata"]["labels"][TEMPLATE_HASH] = hash.into();
    let mut selector: Value = serde_json::from_str(deployment.spec.selector.text.get())?;
    selector["matchLabels"][TEMPLATE_HASH] = hash.into();
    let labels: BTreeMap<Box<str>, Box<str>> =
        kubecontroller::decode::from_value(&template["metadata"]["labels"])?;
    let metadata = NewPodMeta {
        name: set.name.clone(),
        labels,
        annotations: set.annotations.clone(),
        owner_references: vec![resource::DEPLOYMENTS.controller_reference(&deployment.metadata)],
        ..NewPodMeta::default()
    };
    Ok(json!({
        "apiVersion": resource::REPLICA_SETS.api_version(),
        "kind": resource::REPLICA_SETS.kind,
        "metadata": metadata,
        "spec": {
            "replicas": set.replicas,
            "minReadySeconds": set.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    }))
}
