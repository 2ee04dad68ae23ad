//! What a deployment says of itself, and whether it gets anywhere.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    condition::{self, AVAILABLE, PROGRESSING, REPLICA_FAILURE},
    rollout::{Rollout, max_unavailable},
    set::Set,
};
use crate::{
    objects::{Condition, ConditionStatus, Deployment, DeploymentStatus},
    written,
};

pub(super) const CREATED: &str = "NewReplicaSetCreated";
pub(super) const FOUND: &str = "FoundNewReplicaSet";
pub(super) const CREATE_ERROR: &str = "ReplicaSetCreateError";
const UPDATED: &str = "ReplicaSetUpdated";
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// After a moment has passed, not in it: clocks and timers are not that fine.
const AFTERWARDS: Duration = Duration::from_millis(20);

/// How long a deployment may show no progress; `None` if for ever.
pub(super) fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| SignedDuration::from_secs(i64::from(seconds)))
}

/// Whether all pods are of the template of now and available, and no others are there.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let counts = [
        status.updated_replicas,
        status.replicas,
        status.available_replicas,
    ];
    counts.iter().all(|count| *count == deployment.spec.replicas)
        && status.observed_generation >= deployment.metadata.generation
}

/// Says that a deployment is paused, or is no longer: what it does not do while it is must not count against it later.
pub(super) fn note_pause(deployment: &Deployment, conditions: &mut Vec<Condition>, now: Timestamp) {
    let known = Condition::find(conditions, PROGRESSING).map_or("", |condition| &condition.reason);
    if deadline(deployment).is_none() || known == TIMED_OUT {
        return;
    }
    let (reason, message) = match (deployment.spec.paused, known == PAUSED) {
        (true, false) => (PAUSED, "Deployment is paused"),
        (false, true) => (RESUMED, "Deployment is resumed"),
        _ => return,
    };
    note(
        conditions,
        ConditionStatus::Unknown,
        reason,
        message.to_owned(),
        now,
    );
}

/// Says how far a rollout is.
pub(super) fn note(
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

/// The counts of all sets, and whether enough pods are available. `before` is what is known so far.
pub(super) fn counted(rollout: &Rollout<'_>, before: &DeploymentStatus, now: Timestamp) -> DeploymentStatus {
    let deployment = rollout.deployment;
    let sum = |of: fn(&Set) -> i32| rollout.sets.iter().map(of).sum::<i32>();
    let available = sum(|set| set.status.available_replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: rollout.new.map_or(0, |new| rollout.sets[new].status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (rollout.total() - available).max(0),
        terminating_replicas: going(&rollout.sets),
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

/// How many pods are going; unknown if a set that was looked at does not tell.
fn going(sets: &[Set]) -> Option<i32> {
    let told = sets
        .iter()
        .filter(|set| set.status.observed_generation != 0 || set.status.terminating_replicas.is_some());
    told.map(|set| set.status.terminating_replicas).sum()
}

// --- progress ---

/// The counts, and how the rollout goes.
pub(super) fn estimated(
    rollout: &Rollout<'_>,
    before: &DeploymentStatus,
    now: Timestamp,
) -> DeploymentStatus {
    let deployment = rollout.deployment;
    let mut status = counted(rollout, before, now);
    let known = Condition::find(&before.conditions, PROGRESSING);
    let reason = known.map_or("", |condition| &*condition.reason);
    let was_complete = status.replicas == status.updated_replicas && reason == COMPLETE;
    let subject = match rollout.new {
        Some(new) => format!("ReplicaSet {:?}", rollout.sets[new].name),
        None => format!("Deployment {:?}", deployment.metadata.name),
    };
    match deadline(deployment) {
        None => condition::remove(&mut status.conditions, PROGRESSING),
        Some(_) if was_complete => {}
        Some(deadline) => {
            let (complete, progressed) = (is_complete(deployment, &status), has_progressed(before, &status));
            let conditions = &mut status.conditions;
            if complete {
                let message = format!("{subject} has successfully progressed.");
                note(conditions, ConditionStatus::True, COMPLETE, message, now);
            } else if progressed {
                // Written anew even if it says the same: the deadline counts from now.
                let message = format!("{subject} is progressing.");
                let mut progress = condition::new(PROGRESSING, ConditionStatus::True, UPDATED, message, now);
                if let Some(known) = known.filter(|known| known.status == ConditionStatus::True) {
                    progress.last_transition_time = known.last_transition_time;
                }
                condition::remove(conditions, PROGRESSING);
                conditions.push(progress);
            } else if has_timed_out(conditions, deadline, now) {
                let message = format!("{subject} has timed out progressing.");
                note(conditions, ConditionStatus::False, TIMED_OUT, message, now);
            }
        }
    }
    match failure(rollout) {
        Some(failure) => condition::set(&mut status.conditions, failure),
        None => condition::remove(&mut status.conditions, REPLICA_FAILURE),
    }
    status
}

/// When to look again whether the deadline has passed; `None` if nobody waits for it.
pub(super) fn next_look(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let known = Condition::find(&status.conditions, PROGRESSING)?;
    if is_complete(deployment, status) || &*known.reason == TIMED_OUT {
        return None;
    }
    let left = deadline(deployment)? - now.duration_since(condition::updated(known)?);
    Some(Duration::try_from(left).unwrap_or_default() + AFTERWARDS)
}

fn has_progressed(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

fn has_timed_out(conditions: &[Condition], deadline: SignedDuration, now: Timestamp) -> bool {
    let Some(known) = Condition::find(conditions, PROGRESSING) else {
        return false;
    };
    match &*known.reason {
        // The rollout that follows is not known of yet.
        COMPLETE => false,
        TIMED_OUT => true,
        _ => condition::updated(known).is_some_and(|since| now.duration_since(since) > deadline),
    }
}

/// What keeps a set from having its pods; that of the new one matters most.
fn failure(rollout: &Rollout<'_>) -> Option<Condition> {
    let new = rollout.new.map(|new| &rollout.sets[new]);
    let mut sets = new.into_iter().chain(&rollout.sets);
    let failure = sets.find_map(|set| Condition::find(&set.status.conditions, REPLICA_FAILURE));
    failure.map(condition::of_set)
}

// --- writing ---

/// How a status is written over the one of a version; the revision of the deployment goes with it.
pub(super) fn patch(status: &DeploymentStatus, version: &str, revision: Option<&str>) -> Value {
    let mut patch = json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "observedGeneration": status.observed_generation,
            "replicas": written::count(status.replicas),
            "updatedReplicas": written::count(status.updated_replicas),
            "readyReplicas": written::count(status.ready_replicas),
            "availableReplicas": written::count(status.available_replicas),
            "unavailableReplicas": written::count(status.unavailable_replicas),
            "terminatingReplicas": status.terminating_replicas,
            "collisionCount": status.collision_count,
            "conditions": written::list(&status.conditions),
        },
    });
    if let Some(revision) = revision {
        patch["metadata"]["annotations"] = json!({super::set::REVISION: revision});
    }
    patch
}
