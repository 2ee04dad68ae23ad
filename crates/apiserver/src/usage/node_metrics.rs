//! Builds NodeMetrics and PodMetrics objects.

use k3_api::{
    strategy::{Tree, TreeMut},
    time::Time,
};
use serde_json::{Value, json};

use super::{
    path::{GROUP, VERSION},
    summary::{NodeSummary, ResourceStats},
};

/// Over which time processors are looked at.
const WINDOW: &str = "10s";

/// The metrics of a node; `None` if it reports none.
pub(super) fn node(node: &Value, summary: &NodeSummary, now: Time) -> Option<Value> {
    let usage = usage(&summary.node)?;
    let mut shown = object("NodeMetrics", node, &summary.node, now);
    shown.set("usage", usage);
    Some(shown)
}

/// What a pod uses; `None` if that is not known of all its containers.
pub(super) fn pod(pod: &Value, summary: &NodeSummary, now: Time) -> Option<Value> {
    if pod.at("status").text("phase") != "Running" {
        return None;
    }
    let metadata = pod.at("metadata");
    let name = metadata.text("name");
    let namespace = metadata.text("namespace");
    let uid = metadata.text("uid");
    // A mirrored pod is known to its node by another uid.
    let found = summary
        .pods
        .iter()
        .find(|found| found.pod_ref.uid == uid)
        .or_else(|| {
            summary
                .pods
                .iter()
                .find(|found| found.pod_ref.name == name && found.pod_ref.namespace == namespace)
        })?;
    let containers: Option<Vec<Value>> = found
        .containers
        .iter()
        .map(|container| Some(json!({"name": container.name, "usage": usage(&container.used)?})))
        .collect();
    let containers = containers.filter(|containers| !containers.is_empty())?;
    let mut shown = object("PodMetrics", pod, &found.containers.first()?.used, now);
    shown.set("containers", containers);
    Some(shown)
}

fn object(kind: &str, of: &Value, used: &ResourceStats, now: Time) -> Value {
    let metadata = of.at("metadata");
    let mut shown = json!({"name": metadata.text("name")});
    if !metadata.text("namespace").is_empty() {
        shown.set("namespace", metadata.text("namespace"));
    }
    shown.set("creationTimestamp", now.to_string());
    if metadata.has("labels") {
        shown.set("labels", metadata.at("labels").clone());
    }
    let time = match used.cpu.time.as_str() {
        "" => now.to_string(),
        // Objects tell whole seconds.
        time => match time.split_once('.') {
            Some((seconds, _)) => format!("{seconds}Z"),
            None => time.to_owned(),
        },
    };
    json!({
        "kind": kind,
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": shown,
        "timestamp": time,
        "window": WINDOW,
    })
}

fn usage(used: &ResourceStats) -> Option<Value> {
    let cpu = used.cpu.usage_nano_cores?;
    let memory = used.memory.working_set_bytes?;
    let cpu = if cpu == 0 {
        "0".to_owned()
    } else {
        format!("{cpu}n")
    };
    Some(json!({"cpu": cpu, "memory": bytes(memory)}))
}

/// Bytes as quantities have them: with the largest unit that divides them.
fn bytes(mut bytes: u64) -> String {
    let mut unit = "";
    for larger in ["Ki", "Mi", "Gi", "Ti", "Pi"] {
        if bytes == 0 || !bytes.is_multiple_of(1024) {
            break;
        }
        bytes /= 1024;
        unit = larger;
    }
    format!("{bytes}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> NodeSummary {
        serde_json::from_value(json!({
            "node": {
                "nodeName": "n",
                "cpu": {"time": "2026-11-16T12:00:00.5Z", "usageNanoCores": 5, "usageCoreNanoSeconds": 9},
                "memory": {"workingSetBytes": 2048},
            },
            "pods": [
                {"podRef": {"name": "p", "namespace": "d", "uid": "u"}, "containers": [
                    {"name": "a", "cpu": {"usageNanoCores": 0}, "memory": {"workingSetBytes": 1000}},
                ]},
                {"podRef": {"name": "new", "namespace": "d", "uid": "v"}, "containers": [
                    {"name": "a", "cpu": {"usageCoreNanoSeconds": 1}, "memory": {"workingSetBytes": 1}},
                ]},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn node_metrics_from_summary() {
        let shown = node(
            &json!({"metadata": {"name": "n", "labels": {"a": "b"}}}),
            &summary(),
            Time::from_unix(0, 0),
        )
        .unwrap();
        assert_eq!(shown["usage"], json!({"cpu": "5n", "memory": "2Ki"}));
        assert_eq!(shown["timestamp"], "2026-11-16T12:00:00Z");
        assert_eq!(shown["metadata"]["labels"], json!({"a": "b"}));
    }

    #[test]
    fn pod_metrics_need_all_containers() {
        let object = |name: &str, uid: &str, phase: &str| json!({"metadata": {"name": name, "namespace": "d", "uid": uid}, "status": {"phase": phase}});
        let shown = |name, uid, phase| pod(&object(name, uid, phase), &summary(), Time::from_unix(0, 0));
        assert_eq!(
            shown("p", "u", "Running").unwrap()["containers"],
            json!([{"name": "a", "usage": {"cpu": "0", "memory": "1000"}}])
        );
        assert!(shown("p", "other", "Running").is_some(), "it is mirrored");
        assert!(shown("p", "u", "Succeeded").is_none());
        assert!(shown("new", "v", "Running").is_none());
        assert!(shown("absent", "w", "Running").is_none());
    }

    #[test]
    fn formats_bytes_with_largest_exact_unit() {
        for (number, text) in [
            (0, "0"),
            (1000, "1000"),
            (1024, "1Ki"),
            (5 << 20, "5Mi"),
            ((1 << 30) + 1024, "1048577Ki"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
