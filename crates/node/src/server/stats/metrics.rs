//! `/metrics/resource` and `/metrics/cadvisor` in the Prometheus text format.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};

use super::{StatsSnapshot, summary::container_start_time};
use crate::{PodIdentity, runtime::ContainerStats};

/// A metric of the Prometheus text format.
struct PrometheusMetric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// Labels and value of each series.
    series: Vec<(String, String)>,
}

/// The metrics of `/metrics/resource`.
// upstream: pkg/kubelet/metrics/collectors/resource_metrics.go CollectWithStability
pub(in crate::server) fn resource_metrics(stats: &StatsSnapshot, pods: &[Arc<Pod>]) -> String {
    let now = &stats.now;
    let containers: Vec<&ContainerStats> = now
        .containers
        .iter()
        .filter(|usage| !usage.name.is_empty())
        .collect();
    let labels = |usage: &ContainerStats| {
        format!(
            "{{container=\"{}\",namespace=\"{}\",pod=\"{}\"}}",
            usage.name, usage.pod.namespace, usage.pod.name
        )
    };
    let container_series = |value: &dyn Fn(&ContainerStats) -> Option<String>| -> Vec<(String, String)> {
        containers
            .iter()
            .filter_map(|usage| Some((labels(usage), value(usage)?)))
            .collect()
    };
    let start_time = |usage: &ContainerStats| {
        let pod = pods
            .iter()
            .find(|pod| pod.metadata.uid.as_deref() == Some(&usage.pod.uid))?;
        let started: Timestamp = container_start_time(pod, &usage.name)?.parse().ok()?;
        Some(started.as_second().to_string())
    };
    let sum_by_pod = |value: &dyn Fn(&ContainerStats) -> u64| -> BTreeMap<&PodIdentity, u64> {
        let mut sums = BTreeMap::new();
        for usage in &now.containers {
            *sums.entry(&usage.pod).or_default() += value(usage);
        }
        sums
    };
    let pod_series =
        |sums: BTreeMap<&PodIdentity, u64>, value: &dyn Fn(u64) -> String| -> Vec<(String, String)> {
            sums.into_iter()
                .map(|(pod, sum)| {
                    let labels = format!("{{namespace=\"{}\",pod=\"{}\"}}", pod.namespace, pod.name);
                    (labels, value(sum))
                })
                .collect()
        };
    let metrics = [
        PrometheusMetric {
            name: "container_cpu_usage_seconds_total",
            kind: "counter",
            help: "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
            series: container_series(&|usage| Some(format_seconds(usage.cpu_nanoseconds))),
        },
        PrometheusMetric {
            name: "container_memory_working_set_bytes",
            kind: "gauge",
            help: "[STABLE] Current working set of the container in bytes",
            series: container_series(&|usage| Some(usage.memory_working_set.to_string())),
        },
        PrometheusMetric {
            name: "container_start_time_seconds",
            kind: "gauge",
            help: "[STABLE] Start time of the container since unix epoch in seconds",
            series: container_series(&start_time),
        },
        PrometheusMetric {
            name: "node_cpu_usage_seconds_total",
            kind: "counter",
            help: "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
            series: vec![(String::new(), format_seconds(now.node_usage.cpu_nanoseconds))],
        },
        PrometheusMetric {
            name: "node_memory_working_set_bytes",
            kind: "gauge",
            help: "[STABLE] Current working set of the node in bytes",
            series: vec![(String::new(), now.node_usage.memory_working_set.to_string())],
        },
        PrometheusMetric {
            name: "pod_cpu_usage_seconds_total",
            kind: "counter",
            help: "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
            series: pod_series(sum_by_pod(&|usage| usage.cpu_nanoseconds), &format_seconds),
        },
        PrometheusMetric {
            name: "pod_memory_working_set_bytes",
            kind: "gauge",
            help: "[STABLE] Current working set of the pod in bytes",
            series: pod_series(sum_by_pod(&|usage| usage.memory_working_set), &|sum| {
                sum.to_string()
            }),
        },
    ];
    let mut text = format_metrics(&metrics, now.time);
    text.push_str(
        "# HELP resource_scrape_error [STABLE] 1 if there was an error while getting container metrics, 0 otherwise\n\
         # TYPE resource_scrape_error gauge\nresource_scrape_error 0\n",
    );
    text
}

/// The metrics of `/metrics/cadvisor`: those of cadvisor that container runtimes provide.
pub(in crate::server) fn cadvisor_metrics(stats: &StatsSnapshot) -> String {
    let now = &stats.now;
    let labels = |usage: &ContainerStats| {
        format!(
            "{{container=\"{}\",id=\"\",image=\"\",name=\"\",namespace=\"{}\",pod=\"{}\"}}",
            if usage.name.is_empty() { "POD" } else { &usage.name },
            usage.pod.namespace,
            usage.pod.name
        )
    };
    let all = |value: &dyn Fn(&ContainerStats) -> Option<String>| -> Vec<(String, String)> {
        now.containers
            .iter()
            .filter_map(|usage| Some((labels(usage), value(usage)?)))
            .collect()
    };
    let metrics = [
        PrometheusMetric {
            name: "container_cpu_usage_seconds_total",
            kind: "counter",
            help: "Cumulative cpu time consumed in seconds.",
            series: all(&|usage| Some(format_seconds(usage.cpu_nanoseconds))),
        },
        PrometheusMetric {
            name: "container_memory_usage_bytes",
            kind: "gauge",
            help: "Current memory usage in bytes, including all memory regardless of when it was accessed",
            series: all(&|usage| Some(usage.memory.to_string())),
        },
        PrometheusMetric {
            name: "container_memory_working_set_bytes",
            kind: "gauge",
            help: "Current working set in bytes.",
            series: all(&|usage| Some(usage.memory_working_set.to_string())),
        },
        PrometheusMetric {
            name: "container_network_receive_bytes_total",
            kind: "counter",
            help: "Cumulative count of bytes received",
            series: all(&|usage| Some(usage.network?.0.to_string())),
        },
        PrometheusMetric {
            name: "container_network_transmit_bytes_total",
            kind: "counter",
            help: "Cumulative count of bytes transmitted",
            series: all(&|usage| Some(usage.network?.1.to_string())),
        },
        PrometheusMetric {
            name: "container_processes",
            kind: "gauge",
            help: "Number of processes running inside the container.",
            series: all(&|usage| Some(usage.pids.to_string())),
        },
        PrometheusMetric {
            name: "machine_memory_bytes",
            kind: "gauge",
            help: "Amount of memory installed on the machine.",
            series: vec![(String::new(), now.node_usage.memory_total.to_string())],
        },
    ];
    format_metrics(&metrics, now.time)
}

fn format_metrics(metrics: &[PrometheusMetric], time: Timestamp) -> String {
    let mut text = String::new();
    let time = time.as_millisecond();
    for metric in metrics.iter().filter(|metric| !metric.series.is_empty()) {
        let PrometheusMetric { name, kind, help, .. } = metric;
        // Writing to a String does not fail, here and below.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in &metric.series {
            let _ = writeln!(text, "{name}{labels} {value} {time}");
        }
    }
    text
}

/// Formats nanoseconds as seconds, without trailing zeros.
fn format_seconds(nanoseconds: u64) -> String {
    let whole = nanoseconds / 1_000_000_000;
    let rest = nanoseconds % 1_000_000_000;
    let text = format!("{whole}.{rest:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
