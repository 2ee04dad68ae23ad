//! The revisions of a workload: `ReplicaSet`s of a Deployment, `ControllerRevision`s of the others.

use std::io::Write;

use serde_json::Value;

use crate::{
    commands::{describe::template, pods::selector_text},
    failed::Failed,
    pick::Pick,
    resource::with_query,
    session::Session,
};

/// A revision.
pub(super) struct Revision {
    pub(super) number: i64,
    cause: String,
    /// The template of its pods; of a `ControllerRevision` the patch that leads there.
    pub(super) content: Value,
}

/// The revisions of a workload, oldest first.
pub(super) async fn revisions(
    session: &Session,
    pick: &Pick,
    object: &Value,
) -> Result<Vec<Revision>, Failed> {
    let (kind, is_deployment) = match pick.resource.kind.as_str() {
        "Deployment" => ("replicasets.apps", true),
        "DaemonSet" | "StatefulSet" => ("controllerrevisions.apps", false),
        _ => {
            return Err(Failed::new(format!(
                "{} have no rollouts",
                pick.resource.plural_noun()
            )));
        }
    };
    let resource = session
        .discovery
        .lock()
        .await
        .find_one(&session.api, kind)
        .await?;
    let selector = selector_text(&object["spec"]["selector"]);
    let path = with_query(
        &resource.collection(pick.namespace.as_deref()),
        &[("labelSelector", Some(selector))],
    );
    let list = session.api.get(&path).await?;
    let uid = &object["metadata"]["uid"];
    let is_own = |item: &&Value| {
        let owners = item["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        owners
            .into_iter()
            .any(|owner| owner["uid"] == *uid && owner["controller"] == true)
    };
    let read = |item: &Value| {
        let annotation = |name: &str| item["metadata"]["annotations"][name].as_str();
        let cause = annotation("kubernetes.io/change-cause")
            .unwrap_or("<none>")
            .to_owned();
        let (number, content) = if is_deployment {
            let number = annotation("deployment.kubernetes.io/revision")?.parse().ok()?;
            let mut template = item["spec"]["template"].clone();
            if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
                labels.remove("pod-template-hash");
            }
            (number, template)
        } else {
            (item["revision"].as_i64()?, item["data"].clone())
        };
        Some(Revision {
            number,
            cause,
            content,
        })
    };
    let items = list["items"].as_array().into_iter().flatten();
    let mut revisions: Vec<Revision> = items.filter(is_own).filter_map(read).collect();
    revisions.sort_by_key(|revision| revision.number);
    Ok(revisions)
}

/// Prints the revisions, or what is in one.
pub(super) async fn show(session: &Session, pick: &Pick, number: i64) -> Result<(), Failed> {
    let object = session.api.get(&pick.path()).await?;
    let revisions = revisions(session, pick, &object).await?;
    if number == 0 {
        return session.show(|screen| {
            writeln!(screen, "{} ", pick.title())?;
            writeln!(screen, "REVISION  CHANGE-CAUSE")?;
            for revision in &revisions {
                writeln!(screen, "{:<8}  {}", revision.number, revision.cause)?;
            }
            writeln!(screen)
        });
    }
    let revision = revisions.iter().find(|revision| revision.number == number);
    let revision = revision.ok_or_else(|| Failed::new("unable to find the specified revision"))?;
    let shown = match revision.content.get("spec") {
        // A patch has the template within.
        Some(spec) if spec.get("template").is_some() => &spec["template"],
        _ => &revision.content,
    };
    session.show(|screen| {
        writeln!(screen, "{} with revision #{number}", pick.title())?;
        screen.write_all(template(shown).as_bytes())
    })
}
