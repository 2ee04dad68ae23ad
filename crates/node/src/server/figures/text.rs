//! Figures in the text that Prometheus reads.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};

use super::{Figures, summary::started};
use crate::{PodIdentity, runtime::ContainerUsage};

/// One figure with all its series.
struct Family {
    name: &'static str,
    sort: &'static str,
    help: &'static str,
    /// Labels, value, and whether the time is told.
    series: Vec<(String, String)>,
}

/// What `/metrics/resource` shows.
pub(in crate::server) fn resource(figures: &Figures, pods: &[Arc<Pod>]) -> String {
    let now = &figures.now;
    let own: Vec<&ContainerUsage> = now
        .containers
        .iter()
        .filter(|usage| !usage.name.is_empty())
        .collect();
    let labels = |usage: &ContainerUsage| {
        format!(
            "{{container=\"{}\",namespace=\"{}\",pod=\"{}\"}}",
            usage.name, usage.pod.namespace, usage.pod.name
        )
    };
    let of_containers = |value: &dyn Fn(&ContainerUsage) -> Option<String>| -> Vec<(String, String)> {
        own.iter()
            .filter_map(|usage| Some((labels(usage), value(usage)?)))
            .collect()
    };
    let starts = |usage: &ContainerUsage| {
        let pod = pods
            .iter()
            .find(|pod| pod.metadata.uid.as_deref() == Some(&usage.pod.uid))?;
        let began: Timestamp = started(pod, &usage.name)?.parse().ok()?;
        Some(began.as_second().to_string())
    };
    let of_pods = |value: &dyn Fn(&ContainerUsage) -> u64| -> BTreeMap<&PodIdentity, u64> {
        let mut sums = BTreeMap::new();
        for usage in &now.containers {
            *sums.entry(&usage.pod).or_default() += value(usage);
        }
        sums
    };
    let told = |sums: BTreeMap<&PodIdentity, u64>, value: &dyn Fn(u64) -> String| -> Vec<(String, String)> {
        sums.into_iter()
            .map(|(pod, sum)| {
                let labels = format!("{{namespace=\"{}\",pod=\"{}\"}}", pod.namespace, pod.name);
                (labels, value(sum))
            })
            .collect()
    };
    let families = [
        Family {
            name: "container_cpu_usage_seconds_total",
            sort: "counter",
            help: "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
            series: of_containers(&|usage| Some(seconds(usage.cpu_nanoseconds))),
        },
        Family {
            name: "container_memory_working_set_bytes",
            sort: "gauge",
            help: "[STABLE] Current working set of the container in bytes",
            series: of_containers(&|usage| Some(usage.memory_working_set.to_string())),
        },
        Family {
            name: "container_start_time_seconds",
            sort: "gauge",
            help: "[STABLE] Start time of the container since unix epoch in seconds",
            series: of_containers(&starts),
        },
        Family {
            name: "node_cpu_usage_seconds_total",
            sort: "counter",
            help: "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
            series: vec![(String::new(), seconds(now.machine.cpu_nanoseconds))],
        },
        Family {
            name: "node_memory_working_set_bytes",
            sort: "gauge",
            help: "[STABLE] Current working set of the node in bytes",
            series: vec![(String::new(), now.machine.memory_working_set.to_string())],
        },
        Family {
            name: "pod_cpu_usage_seconds_total",
            sort: "counter",
            help: "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
            series: told(of_pods(&|usage| usage.cpu_nanoseconds), &seconds),
        },
        Family {
            name: "pod_memory_working_set_bytes",
            sort: "gauge",
            help: "[STABLE] Current working set of the pod in bytes",
            series: told(of_pods(&|usage| usage.memory_working_set), &|sum| sum.to_string()),
        },
    ];
    let mut text = written(&families, now.time);
    text.push_str(
        "# HELP resource_scrape_error [STABLE] 1 if there was an error while getting container metrics, 0 otherwise\n\
         # TYPE resource_scrape_error gauge\nresource_scrape_error 0\n",
    );
    text
}

/// What `/metrics/cadvisor` shows: of what cadvisor tells, that which runtimes know.
pub(in crate::server) fn cadvisor(figures: &Figures) -> String {
    let now = &figures.now;
    let labels = |usage: &ContainerUsage| {
        format!(
            "{{container=\"{}\",id=\"\",image=\"\",name=\"\",namespace=\"{}\",pod=\"{}\"}}",
            if usage.name.is_empty() { "POD" } else { &usage.name },
            usage.pod.namespace,
            usage.pod.name
        )
    };
    let all = |value: &dyn Fn(&ContainerUsage) -> Option<String>| -> Vec<(String, String)> {
        now.containers
            .iter()
            .filter_map(|usage| Some((labels(usage), value(usage)?)))
            .collect()
    };
    let families = [
        Family {
            name: "container_cpu_usage_seconds_total",
            sort: "counter",
            help: "Cumulative cpu time consumed in seconds.",
            series: all(&|usage| Some(seconds(usage.cpu_nanoseconds))),
        },
        Family {
            name: "container_memory_usage_bytes",
            sort: "gauge",
            help: "Current memory usage in bytes, including all memory regardless of when it was accessed",
            series: all(&|usage| Some(usage.memory.to_string())),
        },
        Family {
            name: "container_memory_working_set_bytes",
            sort: "gauge",
            help: "Current working set in bytes.",
            series: all(&|usage| Some(usage.memory_working_set.to_string())),
        },
        Family {
            name: "container_network_receive_bytes_total",
            sort: "counter",
            help: "Cumulative count of bytes received",
            series: all(&|usage| Some(usage.network?.0.to_string())),
        },
        Family {
            name: "container_network_transmit_bytes_total",
            sort: "counter",
            help: "Cumulative count of bytes transmitted",
            series: all(&|usage| Some(usage.network?.1.to_string())),
        },
        Family {
            name: "container_processes",
            sort: "gauge",
            help: "Number of processes running inside the container.",
            series: all(&|usage| Some(usage.pids.to_string())),
        },
        Family {
            name: "machine_memory_bytes",
            sort: "gauge",
            help: "Amount of memory installed on the machine.",
            series: vec![(String::new(), now.machine.memory_total.to_string())],
        },
    ];
    written(&families, now.time)
}

fn written(families: &[Family], time: Timestamp) -> String {
    let mut text = String::new();
    let time = time.as_millisecond();
    for family in families.iter().filter(|family| !family.series.is_empty()) {
        let Family { name, sort, help, .. } = family;
        // Text can always be written to memory.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {sort}\n");
        for (labels, value) in &family.series {
            let _ = writeln!(text, "{name}{labels} {value} {time}");
        }
    }
    text
}

/// Nanoseconds as seconds, with no more digits than there are.
fn seconds(nanoseconds: u64) -> String {
    let whole = nanoseconds / 1_000_000_000;
    let rest = nanoseconds % 1_000_000_000;
    let text = format!("{whole}.{rest:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
