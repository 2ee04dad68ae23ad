//! Going back to an earlier revision.

use serde_json::{Value, json};

use super::history::{Revision, revisions};
use crate::{api::STRATEGIC, failed::Failed, pick::Pick, session::Session};

const JSON_PATCH: &str = "application/json-patch+json";

/// Makes a workload what it was at a revision; 0 is the one before the last.
pub(super) async fn undo(session: &Session, pick: &Pick, number: i64) -> Result<(), Failed> {
    let object = session.api.get(&pick.path()).await?;
    if object["spec"]["paused"] == true {
        return Err(Failed::new(
            "you cannot rollback a paused deployment; resume it first with `k3 rollout resume` and try again",
        ));
    }
    let revisions = revisions(session, pick, &object).await?;
    let chosen = choose(&revisions, number)
        .map_err(|text| Failed::new(format!("{text} for {} {:?}", pick.resource.noun(), pick.name())))?;
    let is_deployment = pick.resource.kind == "Deployment";
    if is_deployment && chosen.content == object["spec"]["template"] {
        let number = chosen.number;
        return session.say(format_args!(
            "{} skipped rollback (current template already matches revision {number})",
            pick.title()
        ));
    }
    let (form, patch) = if is_deployment {
        let patch = json!([{"op": "replace", "path": "/spec/template", "value": chosen.content}]);
        (JSON_PATCH, patch)
    } else {
        (STRATEGIC, chosen.content.clone())
    };
    let changed = session.api.patch(&pick.path(), form, &patch).await?;
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    if generation(&changed) == generation(&object) {
        return session.say(format_args!(
            "{} skipped rollback (current template already matches revision {})",
            pick.title(),
            chosen.number
        ));
    }
    session.say(format_args!("{} rolled back", pick.title()))
}

/// The revision that is meant.
fn choose(revisions: &[Revision], number: i64) -> Result<&Revision, String> {
    if number == 0 {
        let [.., before, _] = revisions else {
            return Err("no rollout history found".to_owned());
        };
        return Ok(before);
    }
    let found = revisions.iter().find(|revision| revision.number == number);
    found.ok_or_else(|| format!("unable to find specified revision {number} in history"))
}
