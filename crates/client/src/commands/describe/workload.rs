//! Deployments and the other workloads.

use serde_json::Value;

use super::{
    generic::heading,
    pod::{controlled_by, describe_template},
    sheet::{Sheet, shown, text},
};
use crate::{commands::pods::selector_text, failed::Failed, resource::with_query, session::Session};

/// Which revision of a Deployment something is.
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) async fn describe(sheet: &mut Sheet, session: &Session, object: &Value) -> Result<(), Failed> {
    let spec = &object["spec"];
    let status = &object["status"];
    let selector = selector_text(&spec["selector"]);
    heading(sheet, object);
    sheet.some("CreationTimestamp", &object["metadata"]["creationTimestamp"]);
    sheet.line("Selector", if selector.is_empty() { "<none>" } else { &selector });
    controlled_by(sheet, object);
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let wanted = spec["replicas"].as_i64().unwrap_or(1);
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" => {
            sheet.line(
                "Replicas",
                format!(
                    "{wanted} desired | {} updated | {} total | {} available | {} unavailable",
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
            sheet.some("Parallelism", &spec["parallelism"]);
            sheet.some("Completions", &spec["completions"]);
            sheet.some("Start Time", &status["startTime"]);
            sheet.some("Completed At", &status["completionTime"]);
        }
        _ => {
            sheet.line(
                "Replicas",
                format!("{wanted} desired | {} total", number(&status["replicas"])),
            );
            sheet.some("Update Strategy", &spec["updateStrategy"]["type"]);
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

/// How many of its pods are how.
async fn pods_status(session: &Session, object: &Value, selector: String) -> Result<String, Failed> {
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

/// The old replica sets that still have pods, and the new one.
async fn replica_sets(sheet: &mut Sheet, session: &Session, object: &Value) -> Result<(), Failed> {
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
    let is_own = |set: &&Value| {
        let owners = set["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        owners.into_iter().any(|owner| owner["uid"] == *uid)
    };
    let revision = &object["metadata"]["annotations"][REVISION];
    let told = |set: &Value| {
        let count = |value: &Value| value.as_i64().unwrap_or_default();
        let made = count(&set["status"]["replicas"]);
        let wanted = count(&set["spec"]["replicas"]);
        format!(
            "{} ({made}/{wanted} replicas created)",
            text(&set["metadata"]["name"])
        )
    };
    let sets: Vec<&Value> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_own)
        .collect();
    let (new, old): (Vec<&Value>, Vec<&Value>) = sets
        .into_iter()
        .partition(|set| !revision.is_null() && set["metadata"]["annotations"][REVISION] == *revision);
    let old: Vec<String> = old.into_iter().map(told).collect();
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
        new.first().map_or_else(|| "<none>".to_owned(), |set| told(set)),
    );
    Ok(())
}
