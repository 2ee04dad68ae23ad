//! `/stats/summary`.
// upstream: pkg/kubelet/server/stats/summary.go Get

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::StatsSnapshot;
use crate::{PodIdentity, runtime::ContainerStats};

/// The summary. Start times come from the pod statuses.
pub(in crate::server) fn summary(stats: &StatsSnapshot, pods: &[Arc<Pod>]) -> Value {
    let now = &stats.now;
    let node_usage = &now.node_usage;
    let time = now.time.to_string();
    let disk = &node_usage.disk;
    let filesystem = |used: u64| {
        json!({
            "time": time,
            "availableBytes": disk.available,
            "capacityBytes": disk.capacity,
            "usedBytes": used,
            "inodesFree": disk.inodes_free,
            "inodes": disk.inodes,
            "inodesUsed": disk.inodes.saturating_sub(disk.inodes_free),
        })
    };
    let mut by_pod: BTreeMap<&PodIdentity, Vec<&ContainerStats>> = BTreeMap::new();
    for usage in &now.containers {
        by_pod.entry(&usage.pod).or_default().push(usage);
    }
    let pods: Vec<Value> = by_pod
        .into_iter()
        .map(|(identity, containers)| {
            let pod = pods
                .iter()
                .find(|pod| pod.metadata.uid.as_deref() == Some(&identity.uid));
            pod_summary(stats, identity, &containers, pod.map(AsRef::as_ref), &time)
        })
        .collect();
    let mut node = json!({
        "nodeName": stats.node,
        "cpu": {
            "time": time,
            "usageNanoCores": stats.node_cpu_rate,
            "usageCoreNanoSeconds": node_usage.cpu_nanoseconds,
        },
        "memory": {
            "time": time,
            "availableBytes": node_usage.memory_total.saturating_sub(node_usage.memory_working_set),
            "usageBytes": node_usage.memory_used,
            "workingSetBytes": node_usage.memory_working_set,
        },
        "fs": filesystem(disk.capacity.saturating_sub(disk.available)),
    });
    if let Some(started) = node_usage.started {
        node["startTime"] = started.to_string().into();
    }
    if let Some(image_fs_used) = now.image_fs_used {
        node["runtime"] = json!({"imageFs": filesystem(image_fs_used)});
    }
    json!({"node": node, "pods": pods})
}

fn pod_summary(
    stats: &StatsSnapshot,
    identity: &PodIdentity,
    containers: &[&ContainerStats],
    pod: Option<&Pod>,
    time: &str,
) -> Value {
    let sum =
        |value: &dyn Fn(&ContainerStats) -> u64| -> u64 { containers.iter().map(|usage| value(usage)).sum() };
    // The usage without a container name is that of the sandbox.
    let named = containers.iter().filter(|usage| !usage.name.is_empty());
    let container_stats: Vec<Value> = named
        .map(|usage| {
            let mut container = json!({
                "name": usage.name,
                "cpu": cpu(time, stats.cpu_rate(usage), usage.cpu_nanoseconds),
                "memory": memory(time, usage.memory, usage.memory_working_set),
                "rootfs": {"time": time, "usedBytes": usage.writable_layer},
            });
            if let Some(started) = pod.and_then(|pod| container_start_time(pod, &usage.name)) {
                container["startTime"] = started.into();
            }
            container
        })
        .collect();
    let mut summary = json!({
        "podRef": {"name": identity.name, "namespace": identity.namespace, "uid": identity.uid},
        "containers": container_stats,
        "cpu": cpu(
            time,
            Some(containers.iter().filter_map(|usage| stats.cpu_rate(usage)).sum()),
            sum(&|usage| usage.cpu_nanoseconds),
        ),
        "memory": memory(time, sum(&|usage| usage.memory), sum(&|usage| usage.memory_working_set)),
        "ephemeral-storage": {"time": time, "usedBytes": sum(&|usage| usage.writable_layer)},
        "process_stats": {"process_count": sum(&|usage| usage.pids)},
    });
    if let Some((received, sent)) = containers.iter().find_map(|usage| usage.network) {
        summary["network"] = json!({"time": time, "name": "eth0", "rxBytes": received, "txBytes": sent});
    }
    let start_time = pod.and_then(|pod| pod.status.as_ref()?.start_time.as_ref());
    if let Some(start_time) = start_time {
        summary["startTime"] = json!(start_time);
    }
    summary
}

fn cpu(time: &str, rate: Option<u64>, used: u64) -> Value {
    let mut cpu = json!({"time": time, "usageCoreNanoSeconds": used});
    if let Some(rate) = rate {
        cpu["usageNanoCores"] = rate.into();
    }
    cpu
}

fn memory(time: &str, used: u64, working_set: u64) -> Value {
    json!({"time": time, "usageBytes": used, "workingSetBytes": working_set})
}

/// Start time of a running container, in RFC 3339.
pub(super) fn container_start_time(pod: &Pod, name: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let status = all
        .into_iter()
        .flatten()
        .flatten()
        .find(|status| status.name == name)?;
    let running = status.state.as_ref()?.running.as_ref()?;
    Some(running.started_at.as_ref()?.0.to_string())
}
