//! The status of a Deployment: replica counts, the conditions Available, Progressing and ReplicaFailure.

use std::time::Duration;

use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    condition::{self, AVAILABLE, PROGRESSING, REPLICA_FAILURE},
    replica_set::DesiredReplicaSet,
    rollout::{Rollout, max_unavailable},
};
use crate::{
    objects::{Deployment, DeploymentStatus},
    patch_values,
};

pub(super) const CREATED: &str = "NewReplicaSetCreated";
pub(super) const FOUND: &str = "FoundNewReplicaSet";
pub(super) const CREATE_ERROR: &str = "ReplicaSetCreateError";
const UPDATED: &str = "ReplicaSetUpdated";
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// Added to the deadline, so that the timer fires after the deadline has passed, not at it.
const DEADLINE_MARGIN: Duration = Duration::from_millis(20);

/// `progressDeadlineSeconds`; `None` means no deadline.
// upstream: pkg/controller/deployment/util/deployment_util.go HasProgressDeadline
pub(super) fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| SignedDuration::from_secs(i64::from(seconds)))
}

/// Whether all pods have the current template and are available, and no old pods are left.
// upstream: pkg/controller/deployment/util/deployment_util.go DeploymentComplete
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let counts = [
        status.updated_replicas,
        status.replicas,
        status.available_replicas,
    ];
    counts.iter().all(|count| *count == deployment.spec.replicas)
        && status.observed_generation >= deployment.metadata.generation
}

/// Sets the Progressing condition when a Deployment is paused or resumed: time spent paused must not count against the
/// progress deadline.
// upstream: pkg/controller/deployment/sync.go checkPausedConditions
pub(super) fn set_paused_condition(deployment: &Deployment, conditions: &mut Vec<Condition>, now: Timestamp) {
    let known = Condition::find(conditions, PROGRESSING).map_or("", |condition| &condition.reason);
    if deadline(deployment).is_none() || known == TIMED_OUT {
        return;
    }
    let (reason, message) = match (deployment.spec.paused, known == PAUSED) {
        (true, false) => (PAUSED, "Deployment is paused"),
        (false, true) => (RESUMED, "Deployment is resumed"),
        _ => return,
    };
    set_progressing_condition(
        conditions,
        ConditionStatus::Unknown,
        reason,
        message.to_owned(),
        now,
    );
}

/// Sets the Progressing condition.
pub(super) fn set_progressing_condition(
    conditions: &mut Vec<Condition>,
    status: ConditionStatus,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    condition::set(
        conditions,
        condition::new(PROGRESSING, status, reason, message, now),
    );
}

// --- counts ---

/// Replica counts summed over all ReplicaSets, and the Available condition. `before` is the stored status.
// upstream: pkg/controller/deployment/sync.go calculateStatus
pub(super) fn calculate_status(
    rollout: &Rollout<'_>,
    before: &DeploymentStatus,
    now: Timestamp,
) -> DeploymentStatus {
    let deployment = rollout.deployment;
    let sum = |of: fn(&DesiredReplicaSet) -> i32| rollout.sets.iter().map(of).sum::<i32>();
    let available = sum(|set| set.status.available_replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: rollout.new.map_or(0, |new| rollout.sets[new].status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (rollout.total() - available).max(0),
        terminating_replicas: terminating_replica_count(&rollout.sets),
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
    };
    let is_enough = available >= deployment.spec.replicas - max_unavailable(deployment);
    let (reason, message) = if is_enough {
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        (
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    let enough = condition::new(AVAILABLE, is_enough.into(), reason, message.to_owned(), now);
    condition::set(&mut status.conditions, enough);
    status
}

/// Number of terminating pods; unknown if an observed ReplicaSet does not report it.
// upstream: pkg/controller/deployment/util/deployment_util.go GetTerminatingReplicaCountForReplicaSets
fn terminating_replica_count(sets: &[DesiredReplicaSet]) -> Option<i32> {
    let reporting = sets
        .iter()
        .filter(|set| set.status.observed_generation != 0 || set.status.terminating_replicas.is_some());
    reporting.map(|set| set.status.terminating_replicas).sum()
}

// --- progress ---

/// The counts, and the Progressing and ReplicaFailure conditions.
// upstream: pkg/controller/deployment/progress.go syncRolloutStatus
pub(super) fn rollout_status(
    rollout: &Rollout<'_>,
    before: &DeploymentStatus,
    now: Timestamp,
) -> DeploymentStatus {
    let deployment = rollout.deployment;
    let mut status = calculate_status(rollout, before, now);
    let known = Condition::find(&before.conditions, PROGRESSING);
    let reason = known.map_or("", |condition| &*condition.reason);
    let was_complete = status.replicas == status.updated_replicas && reason == COMPLETE;
    let subject = match rollout.new {
        Some(new) => format!("ReplicaSet {:?}", rollout.sets[new].name),
        None => format!("Deployment {:?}", deployment.metadata.name),
    };
    match deadline(deployment) {
        None => condition::remove_condition(&mut status.conditions, PROGRESSING),
        Some(_) if was_complete => {}
        Some(deadline) => {
            let complete = is_complete(deployment, &status);
            let progressed = has_progressed(before, &status);
            let conditions = &mut status.conditions;
            if complete {
                let message = format!("{subject} has successfully progressed.");
                set_progressing_condition(conditions, ConditionStatus::True, COMPLETE, message, now);
            } else if progressed {
                // Replaced even if nothing but lastUpdateTime differs: the deadline restarts now.
                let message = format!("{subject} is progressing.");
                let mut progress = condition::new(PROGRESSING, ConditionStatus::True, UPDATED, message, now);
                if let Some(known) = known.filter(|known| known.status == ConditionStatus::True) {
                    progress.last_transition_time = known.last_transition_time;
                }
                condition::remove_condition(conditions, PROGRESSING);
                conditions.push(progress);
            } else if has_timed_out(conditions, deadline, now) {
                let message = format!("{subject} has timed out progressing.");
                set_progressing_condition(conditions, ConditionStatus::False, TIMED_OUT, message, now);
            }
        }
    }
    match replica_failure(rollout) {
        Some(failure) => condition::set(&mut status.conditions, failure),
        None => condition::remove_condition(&mut status.conditions, REPLICA_FAILURE),
    }
    status
}

/// When to check the progress deadline again; `None` if no deadline is pending.
// upstream: pkg/controller/deployment/progress.go requeueStuckDeployment
pub(super) fn requeue_stuck_after(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let known = Condition::find(&status.conditions, PROGRESSING)?;
    if is_complete(deployment, status) || &*known.reason == TIMED_OUT {
        return None;
    }
    let left = deadline(deployment)? - now.duration_since(condition::last_update_time(known)?);
    Some(Duration::try_from(left).unwrap_or_default() + DEADLINE_MARGIN)
}

// upstream: pkg/controller/deployment/util/deployment_util.go DeploymentProgressing
fn has_progressed(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

// upstream: pkg/controller/deployment/util/deployment_util.go DeploymentTimedOut
fn has_timed_out(conditions: &[Condition], deadline: SignedDuration, now: Timestamp) -> bool {
    let Some(known) = Condition::find(conditions, PROGRESSING) else {
        return false;
    };
    match &*known.reason {
        // The controller has not yet observed the rollout that follows.
        COMPLETE => false,
        TIMED_OUT => true,
        _ => condition::last_update_time(known).is_some_and(|since| now.duration_since(since) > deadline),
    }
}

/// The ReplicaFailure condition of a ReplicaSet, of the new one first.
// upstream: pkg/controller/deployment/progress.go getReplicaFailures
fn replica_failure(rollout: &Rollout<'_>) -> Option<Condition> {
    let new = rollout.new.map(|new| &rollout.sets[new]);
    let mut sets = new.into_iter().chain(&rollout.sets);
    let failure = sets.find_map(|set| Condition::find(&set.status.conditions, REPLICA_FAILURE));
    failure.map(condition::from_replica_set)
}

// --- writing ---

/// The patch that replaces the status at a resourceVersion, and sets the revision annotation.
pub(super) fn status_patch(status: &DeploymentStatus, version: &str, revision: Option<&str>) -> Value {
    let mut patch = json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "observedGeneration": status.observed_generation,
            "replicas": patch_values::count(status.replicas),
            "updatedReplicas": patch_values::count(status.updated_replicas),
            "readyReplicas": patch_values::count(status.ready_replicas),
            "availableReplicas": patch_values::count(status.available_replicas),
            "unavailableReplicas": patch_values::count(status.unavailable_replicas),
            "terminatingReplicas": status.terminating_replicas,
            "collisionCount": status.collision_count,
            "conditions": patch_values::list(&status.conditions),
        },
    });
    if let Some(revision) = revision {
        patch["metadata"]["annotations"] = json!({super::replica_set::REVISION: revision});
    }
    patch
}
