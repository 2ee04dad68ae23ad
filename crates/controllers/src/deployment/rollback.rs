//! Going back to an earlier template, as the first version of the API asked for it: by an annotation. Clients of today write
//! the earlier template themselves.

use serde_json::{Value, json};

use super::{
    rollout::Rollout,
    set::{ROLLBACK_TO, Set, is_own},
};
use crate::objects::{Deployment, TEMPLATE_HASH};

/// A rollback, or why there is none.
#[derive(Debug)]
pub(super) struct Rollback {
    /// The steps of a patch of the deployment.
    pub(super) steps: Vec<Value>,
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The revision that is asked for; 0 means the one before.
pub(super) fn asked_for(deployment: &Deployment) -> Option<i64> {
    deployment.metadata.annotation(ROLLBACK_TO)?.parse().ok()
}

/// Goes back to a revision.
pub(super) fn to(rollout: &Rollout<'_>, revision: i64) -> Rollback {
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
        before_last(&rollout.sets)
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

/// The deployment gets the template and the annotations of the set.
fn steps(deployment: &Deployment, set: &Set) -> Vec<Value> {
    let mut steps = Vec::new();
    for (name, _) in deployment
        .metadata
        .annotations
        .iter()
        .filter(|(name, _)| !is_own(name))
    {
        if !set.annotations.contains_key(name) {
            steps.push(json!({"op": "remove", "path": annotation(name)}));
        }
    }
    for (name, value) in set.annotations.iter().filter(|(name, _)| !is_own(name)) {
        steps.push(json!({"op": "add", "path": annotation(name), "value": value}));
    }
    let template = set.seen.as_ref().and_then(|seen| seen.spec.template.tree().ok());
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

/// The revision before the last one; 0 if there is none.
fn before_last(sets: &[Set]) -> i64 {
    let mut revisions: Vec<_> = sets.iter().filter_map(Set::revision).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or(0).max(0)
}

fn annotation(name: &str) -> String {
    format!(
        "/metadata/annotations/{}",
        name.replace('~', "~0").replace('/', "~1")
    )
}
