//! The revisions of a workload: `ReplicaSet`s of a Deployment, `ControllerRevision`s of the others.

use std::io::Write;

use serde_json::Value;

use crate::{
    api_resource::with_query,
    commands::{describe::format_pod_template, pods::selector_text},
    error::ClientError,
    resource_builder::ResourceInfo,
    session::CommandSession,
};

/// A revision in the history of a workload.
pub(super) struct RolloutRevision {
    pub(super) number: i64,
    cause: String,
    /// The pod template; for a `ControllerRevision` the patch that restores it.
    pub(super) content: Value,
}

/// Returns the revisions of a workload, oldest first.
pub(super) async fn revisions(
    session: &CommandSession,
    info: &ResourceInfo,
    object: &Value,
) -> Result<Vec<RolloutRevision>, ClientError> {
    let (kind, is_deployment) = match info.resource.kind.as_str() {
        "Deployment" => ("replicasets.apps", true),
        "DaemonSet" | "StatefulSet" => ("controllerrevisions.apps", false),
        _ => {
            return Err(ClientError::new(format!(
                "rollouts are not supported for {}",
                info.resource.plural_noun()
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
        &resource.collection(info.namespace.as_deref()),
        &[("labelSelector", Some(selector))],
    );
    let list = session.api.get(&path).await?;
    let uid = &object["metadata"]["uid"];
    let is_owned = |item: &&Value| {
        let owners = item["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        owners
            .into_iter()
            .any(|owner| owner["uid"] == *uid && owner["controller"] == true)
    };
    let parse = |item: &Value| {
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
        Some(RolloutRevision {
            number,
            cause,
            content,
        })
    };
    let items = list["items"].as_array().into_iter().flatten();
    let mut revisions: Vec<RolloutRevision> = items.filter(is_owned).filter_map(parse).collect();
    revisions.sort_by_key(|revision| revision.number);
    Ok(revisions)
}

/// Prints the revisions, or the pod template of one revision.
pub(super) async fn show(
    session: &CommandSession,
    info: &ResourceInfo,
    number: i64,
) -> Result<(), ClientError> {
    let object = session.api.get(&info.path()).await?;
    let revisions = revisions(session, info, &object).await?;
    if number == 0 {
        return session.show(|screen| {
            writeln!(screen, "{} ", info.title())?;
            writeln!(screen, "REVISION  CHANGE-CAUSE")?;
            for revision in &revisions {
                writeln!(screen, "{:<8}  {}", revision.number, revision.cause)?;
            }
            writeln!(screen)
        });
    }
    let revision = revisions.iter().find(|revision| revision.number == number);
    let revision = revision.ok_or_else(|| ClientError::new("unable to find the specified revision"))?;
    let shown = match revision.content.get("spec") {
        // The patch of a ControllerRevision contains the template.
        Some(spec) if spec.get("template").is_some() => &spec["template"],
        _ => &revision.content,
    };
    session.show(|screen| {
        writeln!(screen, "{} with revision #{number}", info.title())?;
        screen.write_all(format_pod_template(shown).as_bytes())
    })
}
