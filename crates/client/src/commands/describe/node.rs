//! Nodes, with the pods on them and what those ask for.

use k3_quantity::Quantity;
use serde_json::Value;

use super::{
    generic::heading,
    sheet::{Sheet, shown, text},
};
use crate::{age, failed::Failed, session::Session};

pub(super) async fn describe(sheet: &mut Sheet, session: &Session, node: &Value) -> Result<(), Failed> {
    let metadata = &node["metadata"];
    let spec = &node["spec"];
    let status = &node["status"];
    heading(sheet, node);
    sheet.line("Roles", roles(metadata));
    sheet.some("CreationTimestamp", &metadata["creationTimestamp"]);
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
    sheet.some("PodCIDR", &spec["podCIDR"]);
    sheet.some("PodCIDRs", &spec["podCIDRs"]);
    sheet.some("ProviderID", &spec["providerID"]);
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

/// The pods on a node, and what they ask for in all.
async fn pods(sheet: &mut Sheet, session: &Session, node: &Value) -> Result<(), Failed> {
    let name = text(&node["metadata"]["name"]);
    let fields = format!("spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed");
    let pods = match session.pods(None, None, Some(fields)).await {
        // Whoever may see nodes need not see pods.
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
                let asked = asked(pod, kind, resource);
                *total += asked;
                row.push(amount(resource, asked));
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
            let all = Quantity::from_value(&allocatable[resource]).map_or(0, |all| measure(resource, &all));
            let share = |asked: i64| if all > 0 { asked * 100 / all } else { 0 };
            let told = |asked: i64| format!("{} ({}%)", amount(resource, asked), share(asked));
            vec![resource.to_owned(), told(requests), told(limits)]
        })
        .collect();
    sheet.group("Allocated resources", |inner| {
        inner.rows(&["Resource", "Requests", "Limits"], rows);
    });
    Ok(())
}

/// What the containers of a pod ask for together: thousandths of a core, or bytes.
fn asked(pod: &Value, kind: &str, resource: &str) -> i64 {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers
        .filter_map(|container| Quantity::from_value(&container["resources"][kind][resource]).ok())
        .map(|amount| measure(resource, &amount))
        .sum()
}

fn measure(resource: &str, amount: &Quantity) -> i64 {
    if resource == "cpu" {
        amount.milli_value()
    } else {
        amount.value()
    }
}

fn amount(resource: &str, measured: i64) -> String {
    match (resource, measured) {
        (_, 0) => "0".to_owned(),
        ("cpu", milli) if milli % 1000 == 0 => (milli / 1000).to_string(),
        ("cpu", milli) => format!("{milli}m"),
        (_, bytes) if bytes % (1 << 20) == 0 => format!("{}Mi", bytes >> 20),
        (_, bytes) => format!("{}Ki", bytes >> 10),
    }
}
