//! Description of nodes, with their pods and the sum of the pods' requests and limits.

use k3_quantity::Quantity;
use serde_json::Value;

use super::{
    generic::describe_metadata,
    sheet::{DescriptionSheet, shown, text},
};
use crate::{age, error::ClientError, session::CommandSession};

pub(super) async fn describe(
    sheet: &mut DescriptionSheet,
    session: &CommandSession,
    node: &Value,
) -> Result<(), ClientError> {
    let metadata = &node["metadata"];
    let spec = &node["spec"];
    let status = &node["status"];
    describe_metadata(sheet, node);
    sheet.line("Roles", roles(metadata));
    sheet.line_if_set("CreationTimestamp", &metadata["creationTimestamp"]);
    let taints = spec["taints"].as_array().into_iter().flatten();
    let taints: Vec<String> = taints
        .map(|taint| {
            let value = taint["value"]
                .as_str()
                .map(|value| format!("={value}"))
                .unwrap_or_default();
            format!("{}{value}:{}", text(&taint["key"]), text(&taint["effect"]))
        })
        .collect();
    let none = vec!["<none>".to_owned()];
    sheet.lines("Taints", if taints.is_empty() { none } else { taints });
    sheet.line("Unschedulable", (spec["unschedulable"] == true).to_string());
    let rows = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|condition| {
            vec![
                text(&condition["type"]),
                text(&condition["status"]),
                text(&condition["lastHeartbeatTime"]),
                text(&condition["lastTransitionTime"]),
                text(&condition["reason"]),
                text(&condition["message"]),
            ]
        });
    let header = [
        "Type",
        "Status",
        "LastHeartbeatTime",
        "LastTransitionTime",
        "Reason",
        "Message",
    ];
    let rows = rows.collect();
    sheet.group("Conditions", |inner| inner.rows(&header, rows));
    sheet.group("Addresses", |inner| {
        for address in status["addresses"].as_array().into_iter().flatten() {
            inner.line(&text(&address["type"]), text(&address["address"]));
        }
    });
    for (label, field) in [("Capacity", "capacity"), ("Allocatable", "allocatable")] {
        sheet.group(label, |inner| {
            for (name, amount) in status[field].as_object().into_iter().flatten() {
                inner.line(name, shown(amount));
            }
        });
    }
    sheet.group("System Info", |inner| {
        for (name, value) in status["nodeInfo"].as_object().into_iter().flatten() {
            inner.line(&super::generic::label(name), shown(value));
        }
    });
    sheet.line_if_set("PodCIDR", &spec["podCIDR"]);
    sheet.line_if_set("PodCIDRs", &spec["podCIDRs"]);
    sheet.line_if_set("ProviderID", &spec["providerID"]);
    pods(sheet, session, node).await
}

fn roles(metadata: &Value) -> String {
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let roles: Vec<&str> = labels
        .filter_map(|(name, _)| name.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

// upstream: staging/src/k8s.io/kubectl/pkg/describe/describe.go describeNodeResource
/// Adds the pods of a node and their total requests and limits.
async fn pods(
    sheet: &mut DescriptionSheet,
    session: &CommandSession,
    node: &Value,
) -> Result<(), ClientError> {
    let name = text(&node["metadata"]["name"]);
    let fields = format!("spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed");
    let pods = match session.pods(None, None, Some(fields)).await {
        // A user who may get nodes may lack permission to list pods.
        Err(failed) if failed.http_code() == Some(403) => return Ok(()),
        pods => pods?,
    };
    let mut totals = [("cpu", 0_i64, 0_i64), ("memory", 0, 0)];
    let mut rows = Vec::new();
    for pod in &pods {
        let mut row = vec![
            text(&pod["metadata"]["namespace"]),
            text(&pod["metadata"]["name"]),
        ];
        for (resource, requests, limits) in &mut totals {
            for (kind, total) in [("requests", requests), ("limits", limits)] {
                let value = container_total(pod, kind, resource);
                *total += value;
                row.push(format_amount(resource, value));
            }
        }
        row.push(age::since(&pod["metadata"]["creationTimestamp"]));
        rows.push(row);
    }
    let count = rows.len();
    let header = [
        "Namespace",
        "Name",
        "CPU Requests",
        "CPU Limits",
        "Memory Requests",
        "Memory Limits",
        "Age",
    ];
    sheet.group(&format!("Non-terminated Pods ({count} in total)"), |inner| {
        inner.rows(&header, rows);
    });
    let allocatable = &node["status"]["allocatable"];
    let rows = totals
        .iter()
        .map(|&(resource, requests, limits)| {
            let all =
                Quantity::from_value(&allocatable[resource]).map_or(0, |all| base_units(resource, &all));
            let percent = |value: i64| if all > 0 { value * 100 / all } else { 0 };
            let cell = |value: i64| format!("{} ({}%)", format_amount(resource, value), percent(value));
            vec![resource.to_owned(), cell(requests), cell(limits)]
        })
        .collect();
    sheet.group("Allocated resources", |inner| {
        inner.rows(&["Resource", "Requests", "Limits"], rows);
    });
    Ok(())
}

/// Sums the requests or limits of a pod's containers, in millicores or bytes.
fn container_total(pod: &Value, kind: &str, resource: &str) -> i64 {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers
        .filter_map(|container| Quantity::from_value(&container["resources"][kind][resource]).ok())
        .map(|amount| base_units(resource, &amount))
        .sum()
}

fn base_units(resource: &str, amount: &Quantity) -> i64 {
    if resource == "cpu" {
        amount.milli_value()
    } else {
        amount.value()
    }
}

fn format_amount(resource: &str, value: i64) -> String {
    match (resource, value) {
        (_, 0) => "0".to_owned(),
        ("cpu", milli) if milli % 1000 == 0 => (milli / 1000).to_string(),
        ("cpu", milli) => format!("{milli}m"),
        (_, bytes) if bytes % (1 << 20) == 0 => format!("{}Mi", bytes >> 20),
        (_, bytes) => format!("{}Ki", bytes >> 10),
    }
}
