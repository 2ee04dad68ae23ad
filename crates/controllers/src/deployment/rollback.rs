//! Rollback by the annotation `deprecated.deployment.rollback.to`, as in extensions/v1beta1. Current clients write the earlier
//! template themselves.

use serde_json::{Value, json};

use super::{
    replica_set::{DesiredReplicaSet, ROLLBACK_TO, is_not_copied},
    rollout::Rollout,
};
use crate::objects::{Deployment, TEMPLATE_HASH};

/// A rollback, or the reason why there is none.
#[derive(Debug)]
pub(super) struct Rollback {
    /// JSON patch operations for the Deployment.
    pub(super) steps: Vec<Value>,
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The requested revision; 0 means the previous one.
// upstream: pkg/controller/deployment/rollback.go getRollbackTo
pub(super) fn requested_revision(deployment: &Deployment) -> Option<i64> {
    deployment.metadata.annotation(ROLLBACK_TO)?.parse().ok()
}

/// Rolls back to a revision.
// upstream: pkg/controller/deployment/rollback.go rollback, rollbackToTemplate
pub(super) fn rollback_to_revision(rollout: &Rollout<'_>, revision: i64) -> Rollback {
    let deployment = rollout.deployment;
    let name = &deployment.metadata.name;
    let mut rollback = Rollback {
        steps: vec![
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": deployment.metadata.resource_version}),
            json!({"op": "remove", "path": annotation(ROLLBACK_TO)}),
        ],
        is_warning: true,
        reason: "DeploymentRollbackRevisionNotFound",
        message: "Unable to find the revision to rollback to.".to_owned(),
    };
    let revision = if revision == 0 {
        last_revision(&rollout.sets)
    } else {
        revision
    };
    if revision == 0 {
        "Unable to find last revision.".clone_into(&mut rollback.message);
        return rollback;
    }
    let mut sets = (0..rollout.sets.len()).filter(|set| rollout.sets[*set].revision() == Some(revision));
    let Some(target) = sets.next() else {
        return rollback;
    };
    if rollout.is_new(target) {
        rollback.reason = "DeploymentRollbackTemplateUnchanged";
        rollback.message =
            format!("The rollback revision contains the same template as current deployment {name:?}");
        return rollback;
    }
    rollback.is_warning = false;
    rollback.reason = "DeploymentRollback";
    rollback.message = format!("Rolled back deployment {name:?} to revision {revision}");
    rollback.steps.extend(steps(deployment, &rollout.sets[target]));
    rollback
}

/// Replaces template and annotations of the Deployment by those of the ReplicaSet.
fn steps(deployment: &Deployment, set: &DesiredReplicaSet) -> Vec<Value> {
    let mut steps = Vec::new();
    for (name, _) in deployment
        .metadata
        .annotations
        .iter()
        .filter(|(name, _)| !is_not_copied(name))
    {
        if !set.annotations.contains_key(name) {
            steps.push(json!({"op": "remove", "path": annotation(name)}));
        }
    }
    for (name, value) in set.annotations.iter().filter(|(name, _)| !is_not_copied(name)) {
        steps.push(json!({"op": "add", "path": annotation(name), "value": value}));
    }
    let template = set
        .observed
        .as_ref()
        .and_then(|observed| observed.spec.template.tree().ok());
    if let Some(mut template) = template {
        if let Some(labels) = template
            .pointer_mut("/metadata/labels")
            .and_then(Value::as_object_mut)
        {
            labels.remove(TEMPLATE_HASH);
        }
        steps.push(json!({"op": "replace", "path": "/spec/template", "value": template}));
    }
    steps
}

/// The second highest revision; 0 if there is none.
// upstream: pkg/controller/deployment/util/deployment_util.go LastRevision
fn last_revision(sets: &[DesiredReplicaSet]) -> i64 {
    let mut revisions: Vec<_> = sets.iter().filter_map(DesiredReplicaSet::revision).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or(0).max(0)
}

fn annotation(name: &str) -> String {
    format!(
        "/metadata/annotations/{}",
        name.replace('~', "~0").replace('/', "~1")
    )
}
