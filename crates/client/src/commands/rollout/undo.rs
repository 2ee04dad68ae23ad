//! `k3 rollout undo`: rolls back to an earlier revision.

use serde_json::{Value, json};

use super::history::{RolloutRevision, revisions};
use crate::{api::STRATEGIC, error::ClientError, resource_builder::ResourceInfo, session::CommandSession};

const JSON_PATCH: &str = "application/json-patch+json";

/// Rolls a workload back to a revision; 0 is the previous one.
// upstream: staging/src/k8s.io/kubectl/pkg/polymorphichelpers/rollback.go DeploymentRollbacker, DaemonSetRollbacker, Rollback
pub(super) async fn undo(
    session: &CommandSession,
    info: &ResourceInfo,
    number: i64,
) -> Result<(), ClientError> {
    let object = session.api.get(&info.path()).await?;
    if object["spec"]["paused"] == true {
        return Err(ClientError::new(
            "you cannot rollback a paused deployment; resume it first with `k3 rollout resume` and try again",
        ));
    }
    let revisions = revisions(session, info, &object).await?;
    let revision = select_revision(&revisions, number).map_err(|error| {
        ClientError::new(format!("{error} for {} {:?}", info.resource.noun(), info.name()))
    })?;
    let is_deployment = info.resource.kind == "Deployment";
    if is_deployment && revision.content == object["spec"]["template"] {
        let number = revision.number;
        return session.print_line(format_args!(
            "{} skipped rollback (current template already matches revision {number})",
            info.title()
        ));
    }
    let (content_type, patch) = if is_deployment {
        let patch = json!([{"op": "replace", "path": "/spec/template", "value": revision.content}]);
        (JSON_PATCH, patch)
    } else {
        (STRATEGIC, revision.content.clone())
    };
    let changed = session.api.patch(&info.path(), content_type, &patch).await?;
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    if generation(&changed) == generation(&object) {
        return session.print_line(format_args!(
            "{} skipped rollback (current template already matches revision {})",
            info.title(),
            revision.number
        ));
    }
    session.print_line(format_args!("{} rolled back", info.title()))
}

/// Why there is no revision to roll back to.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum RevisionError {
    #[error("no rollout history found")]
    NoHistory,
    #[error("unable to find specified revision {0} in history")]
    NotFound(i64),
}

fn select_revision(revisions: &[RolloutRevision], number: i64) -> Result<&RolloutRevision, RevisionError> {
    if number == 0 {
        let [.., before, _] = revisions else {
            return Err(RevisionError::NoHistory);
        };
        return Ok(before);
    }
    let found = revisions.iter().find(|revision| revision.number == number);
    found.ok_or(RevisionError::NotFound(number))
}
