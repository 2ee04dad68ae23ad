//! Description of workloads: Deployments, Jobs and the others of the `apps` group.

use serde_json::Value;

use super::{
    generic::describe_metadata,
    pod::{controlled_by, describe_template},
    sheet::{DescriptionSheet, shown, text},
};
use crate::{
    api_resource::with_query, commands::pods::selector_text, error::ClientError, session::CommandSession,
};

/// The revision of a Deployment and of its `ReplicaSet`s.
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) async fn describe(
    sheet: &mut DescriptionSheet,
    session: &CommandSession,
    object: &Value,
) -> Result<(), ClientError> {
    let spec = &object["spec"];
    let status = &object["status"];
    let selector = selector_text(&spec["selector"]);
    describe_metadata(sheet, object);
    sheet.line_if_set("CreationTimestamp", &object["metadata"]["creationTimestamp"]);
    sheet.line("Selector", if selector.is_empty() { "<none>" } else { &selector });
    controlled_by(sheet, object);
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let desired = spec["replicas"].as_i64().unwrap_or(1);
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" => {
            sheet.line(
                "Replicas",
                format!(
                    "{desired} desired | {} updated | {} total | {} available | {} unavailable",
                    number(&status["updatedReplicas"]),
                    number(&status["replicas"]),
                    number(&status["availableReplicas"]),
                    number(&status["unavailableReplicas"])
                ),
            );
            sheet.line("StrategyType", text(&spec["strategy"]["type"]));
            sheet.line("MinReadySeconds", number(&spec["minReadySeconds"]).to_string());
            if let Some(rolling) = spec["strategy"]["rollingUpdate"].as_object() {
                let part = |name: &str| rolling.get(name).map(shown).unwrap_or_default();
                sheet.line(
                    "RollingUpdateStrategy",
                    format!(
                        "{} max unavailable, {} max surge",
                        part("maxUnavailable"),
                        part("maxSurge")
                    ),
                );
            }
        }
        "DaemonSet" => {
            for (label, field) in [
                ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
                ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
                (
                    "Number of Nodes Scheduled with Up-to-date Pods",
                    "updatedNumberScheduled",
                ),
                ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
                ("Number of Nodes Misscheduled", "numberMisscheduled"),
            ] {
                sheet.line(label, number(&status[field]).to_string());
            }
        }
        "Job" => {
            sheet.line_if_set("Parallelism", &spec["parallelism"]);
            sheet.line_if_set("Completions", &spec["completions"]);
            sheet.line_if_set("Start Time", &status["startTime"]);
            sheet.line_if_set("Completed At", &status["completionTime"]);
        }
        _ => {
            sheet.line(
                "Replicas",
                format!("{desired} desired | {} total", number(&status["replicas"])),
            );
            sheet.line_if_set("Update Strategy", &spec["updateStrategy"]["type"]);
        }
    }
    if !selector.is_empty() {
        sheet.line("Pods Status", pods_status(session, object, selector).await?);
    }
    describe_template(sheet, &spec["template"]);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let rows: Vec<Vec<String>> = conditions
        .map(|condition| {
            vec![
                text(&condition["type"]),
                text(&condition["status"]),
                text(&condition["reason"]),
            ]
        })
        .collect();
    if !rows.is_empty() {
        sheet.group("Conditions", |inner| {
            inner.rows(&["Type", "Status", "Reason"], rows);
        });
    }
    if object["kind"] == "Deployment" {
        replica_sets(sheet, session, object).await?;
    }
    Ok(())
}

/// Counts the pods of a workload by phase.
async fn pods_status(
    session: &CommandSession,
    object: &Value,
    selector: String,
) -> Result<String, ClientError> {
    let namespace = object["metadata"]["namespace"].as_str();
    let pods = session.pods(namespace, Some(selector), None).await?;
    let count = |phase: &str| pods.iter().filter(|pod| pod["status"]["phase"] == phase).count();
    Ok(format!(
        "{} Running / {} Waiting / {} Succeeded / {} Failed",
        count("Running"),
        count("Pending"),
        count("Succeeded"),
        count("Failed")
    ))
}

/// Adds the new `ReplicaSet` of a Deployment, and its old ones that still have pods.
async fn replica_sets(
    sheet: &mut DescriptionSheet,
    session: &CommandSession,
    object: &Value,
) -> Result<(), ClientError> {
    let resource = session
        .discovery
        .lock()
        .await
        .find_one(&session.api, "replicasets.apps")
        .await?;
    let selector = selector_text(&object["spec"]["selector"]);
    let collection = resource.collection(object["metadata"]["namespace"].as_str());
    let list = session
        .api
        .get(&with_query(&collection, &[("labelSelector", Some(selector))]))
        .await?;
    let uid = &object["metadata"]["uid"];
    let is_owned = |set: &&Value| {
        let owners = set["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        owners.into_iter().any(|owner| owner["uid"] == *uid)
    };
    let revision = &object["metadata"]["annotations"][REVISION];
    let summary = |set: &Value| {
        let count = |value: &Value| value.as_i64().unwrap_or_default();
        let current = count(&set["status"]["replicas"]);
        let desired = count(&set["spec"]["replicas"]);
        format!(
            "{} ({current}/{desired} replicas created)",
            text(&set["metadata"]["name"])
        )
    };
    let sets: Vec<&Value> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_owned)
        .collect();
    let (new, old): (Vec<&Value>, Vec<&Value>) = sets
        .into_iter()
        .partition(|set| !revision.is_null() && set["metadata"]["annotations"][REVISION] == *revision);
    let old: Vec<String> = old.into_iter().map(summary).collect();
    sheet.line(
        "OldReplicaSets",
        if old.is_empty() {
            "<none>".to_owned()
        } else {
            old.join(", ")
        },
    );
    sheet.line(
        "NewReplicaSet",
        new.first()
            .map_or_else(|| "<none>".to_owned(), |set| summary(set)),
    );
    Ok(())
}
