//! All figures as `/stats/summary` has them.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::Figures;
use crate::{PodIdentity, runtime::ContainerUsage};

/// The summary. When pods and containers began is told by the statuses of pods.
pub(in crate::server) fn summary(figures: &Figures, pods: &[Arc<Pod>]) -> Value {
    let now = &figures.now;
    let machine = &now.machine;
    let time = now.time.to_string();
    let disk = &machine.disk;
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
    let mut by_pod: BTreeMap<&PodIdentity, Vec<&ContainerUsage>> = BTreeMap::new();
    for usage in &now.containers {
        by_pod.entry(&usage.pod).or_default().push(usage);
    }
    let pods: Vec<Value> = by_pod
        .into_iter()
        .map(|(identity, containers)| {
            let pod = pods
                .iter()
                .find(|pod| pod.metadata.uid.as_deref() == Some(&identity.uid));
            pod_summary(figures, identity, &containers, pod.map(AsRef::as_ref), &time)
        })
        .collect();
    let mut node = json!({
        "nodeName": figures.node,
        "cpu": {
            "time": time,
            "usageNanoCores": figures.machine_rate,
            "usageCoreNanoSeconds": machine.cpu_nanoseconds,
        },
        "memory": {
            "time": time,
            "availableBytes": machine.memory_total.saturating_sub(machine.memory_working_set),
            "usageBytes": machine.memory_used,
            "workingSetBytes": machine.memory_working_set,
        },
        "fs": filesystem(disk.capacity.saturating_sub(disk.available)),
    });
    if let Some(started) = machine.started {
        node["startTime"] = started.to_string().into();
    }
    if let Some(images) = now.images {
        node["runtime"] = json!({"imageFs": filesystem(images)});
    }
    json!({"node": node, "pods": pods})
}

fn pod_summary(
    figures: &Figures,
    identity: &PodIdentity,
    containers: &[&ContainerUsage],
    pod: Option<&Pod>,
    time: &str,
) -> Value {
    let sum = |of: &dyn Fn(&ContainerUsage) -> u64| -> u64 { containers.iter().map(|usage| of(usage)).sum() };
    let own = containers.iter().filter(|usage| !usage.name.is_empty());
    let own: Vec<Value> = own
        .map(|usage| {
            let mut container = json!({
                "name": usage.name,
                "cpu": cpu(time, figures.rate(usage), usage.cpu_nanoseconds),
                "memory": memory(time, usage.memory, usage.memory_working_set),
                "rootfs": {"time": time, "usedBytes": usage.writable_layer},
            });
            if let Some(started) = pod.and_then(|pod| started(pod, &usage.name)) {
                container["startTime"] = started.into();
            }
            container
        })
        .collect();
    let mut summary = json!({
        "podRef": {"name": identity.name, "namespace": identity.namespace, "uid": identity.uid},
        "containers": own,
        "cpu": cpu(
            time,
            Some(containers.iter().filter_map(|usage| figures.rate(usage)).sum()),
            sum(&|usage| usage.cpu_nanoseconds),
        ),
        "memory": memory(time, sum(&|usage| usage.memory), sum(&|usage| usage.memory_working_set)),
        "ephemeral-storage": {"time": time, "usedBytes": sum(&|usage| usage.writable_layer)},
        "process_stats": {"process_count": sum(&|usage| usage.pids)},
    });
    if let Some((received, sent)) = containers.iter().find_map(|usage| usage.network) {
        summary["network"] = json!({"time": time, "name": "eth0", "rxBytes": received, "txBytes": sent});
    }
    let began = pod.and_then(|pod| pod.status.as_ref()?.start_time.as_ref());
    if let Some(began) = began {
        summary["startTime"] = json!(began);
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

/// When a container of a pod began, in seconds since 1970 and as text.
pub(super) fn started(pod: &Pod, name: &str) -> Option<String> {
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
