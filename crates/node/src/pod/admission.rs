//! Decides whether this node admits a pod that was bound to it. Pure.
//!
//! A scheduler decides on a possibly stale state, and pods can be bound without a scheduler; the node has the final say.
// upstream: pkg/kubelet/lifecycle/predicate.go predicateAdmitHandler

use std::collections::BTreeMap;

use k3_quantity::Quantity;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kubecontroller::selector::{Selector, node_selector};

use super::spec::pod_resources;
use crate::NodeFacts;

/// Reason and message of a rejection.
pub(super) type Rejection = (String, String);

/// The rejection of each new pod while the node shuts down.
// upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go Admit
pub(super) fn shutdown_rejection() -> Rejection {
    (
        "NodeShutdown".to_owned(),
        "Pod was rejected as the node is shutting down.".to_owned(),
    )
}

/// Returns why this node rejects a pod, given the other pods of the node; `None` if the node admits it.
// upstream: pkg/kubelet/lifecycle/predicate.go Admit, rejectPodAdmissionBasedOnOSSelector, rejectPodAdmissionBasedOnOSField
pub(super) fn rejection(pod: &Pod, others: &[Pod], facts: &NodeFacts) -> Option<Rejection> {
    let reject = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
    let no_spec = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let label = pod
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get("kubernetes.io/os"));
    if label.is_some_and(|os| os != "linux") {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return reject("PodOSSelectorNodeLabelDoesNotMatch", message);
    }
    if spec.os.as_ref().is_some_and(|os| os.name != "linux") {
        return reject(
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        );
    }
    insufficient_resource(pod, others, facts).or_else(|| {
        if !matches_node_selector(spec, facts) {
            let message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
            return reject("NodeAffinity", message);
        }
        if host_ports(spec)
            .iter()
            .any(|port| others.iter().any(|other| uses_host_port(other, port)))
        {
            let message =
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
            return reject("NodePorts", message);
        }
        None
    })
}

/// The first insufficient resource.
// upstream: pkg/kubelet/lifecycle/predicate.go generalFilter, InsufficientResourceError
pub(super) fn insufficient_resource(pod: &Pod, others: &[Pod], facts: &NodeFacts) -> Option<Rejection> {
    let short = |resource: &str, requested: i64, used: i64, capacity: i64| {
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        (format!("OutOf{resource}"), message)
    };
    let capacity = |name: &str| facts.allocatable.get(name);
    if let Some(capacity_value) = capacity("pods").map(Quantity::value) {
        let used = i64::try_from(others.len()).unwrap_or(i64::MAX);
        if used + 1 > capacity_value {
            return Some(short("pods", 1, used, capacity_value));
        }
    }
    let pod_requests = requests(pod);
    let mut used: BTreeMap<String, i64> = BTreeMap::new();
    for other in others {
        for (name, amount) in requests(other) {
            *used.entry(name).or_default() += amount;
        }
    }
    // Upstream's order. Resources that the node does not report are ignored, as removeMissingExtendedResources does.
    let first = ["cpu", "memory", "ephemeral-storage"].map(str::to_owned);
    let rest = pod_requests.keys().filter(|name| !first.contains(name)).cloned();
    for name in first.iter().cloned().chain(rest) {
        let (Some(capacity_value), Some(requested)) = (capacity(&name), pod_requests.get(&name).copied())
        else {
            continue;
        };
        let capacity_value = count(&name, capacity_value);
        let used = used.get(&name).copied().unwrap_or(0);
        if requested > 0 && requested + used > capacity_value {
            return Some(short(&name, requested, used, capacity_value));
        }
    }
    None
}

/// A request that exceeds the node's allocatable resources, so that a resize is infeasible.
pub(super) fn infeasible_request(pod: &Pod, facts: &NodeFacts) -> Option<String> {
    requests(pod).into_iter().find_map(|(name, requested)| {
        let capacity_value = count(&name, facts.allocatable.get(&name)?);
        (requested > capacity_value).then(|| {
            format!(
                "Node didn't have enough capacity: {name}, requested: {requested}, capacity: {capacity_value}"
            )
        })
    })
}

fn requests(pod: &Pod) -> BTreeMap<String, i64> {
    let requests = pod_resources::pod_requests_and_limits(pod)
        .requests
        .unwrap_or_default();
    let read = |(name, text): (String, k8s_openapi::apimachinery::pkg::api::resource::Quantity)| {
        let amount = text.0.parse::<Quantity>().ok()?;
        let amount = count(&name, &amount);
        Some((name, amount))
    };
    requests.into_iter().filter_map(read).collect()
}

/// CPU is counted in millicores.
fn count(name: &str, amount: &Quantity) -> i64 {
    if name == "cpu" {
        amount.milli_value()
    } else {
        amount.value()
    }
}

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go GetRequiredNodeAffinity
fn matches_node_selector(spec: &PodSpec, facts: &NodeFacts) -> bool {
    let labels = spec.node_selector.iter().flatten();
    if !Selector::from_labels(labels).matches(&facts.node_labels) {
        return false;
    }
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    required
        .is_none_or(|required| node_selector(required).matches(Some(&facts.node_name), &facts.node_labels))
}

/// Host ports: protocol, IP, number.
fn host_ports(spec: &PodSpec) -> Vec<(String, String, i32)> {
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|one| super::status::restart::is_restartable_init_container(one));
    let ports = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten());
    let requested_ports = ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let text = |field: &Option<String>, default: &str| {
            field
                .clone()
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| default.to_owned())
        };
        Some((
            text(&port.protocol, "TCP"),
            text(&port.host_ip, "0.0.0.0"),
            number,
        ))
    });
    requested_ports.collect()
}

fn uses_host_port(other: &Pod, port: &(String, String, i32)) -> bool {
    let all = "0.0.0.0";
    let taken = other.spec.as_ref().map(host_ports).unwrap_or_default();
    taken.iter().any(|taken| {
        taken.0 == port.0 && taken.2 == port.2 && (taken.1 == port.1 || taken.1 == all || port.1 == all)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "callers pass JSON literals")]
    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
    }

    fn pod_requesting(cpu: &str) -> Pod {
        pod(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}))
    }

    fn node() -> NodeFacts {
        let allocatable = [("cpu", "1"), ("pods", "3")];
        NodeFacts {
            node_name: "n1".to_owned(),
            allocatable: allocatable
                .map(|(name, text)| (name.to_owned(), text.parse().unwrap()))
                .into(),
            node_labels: [("zone".to_owned(), "a".to_owned())].into(),
            ..NodeFacts::default()
        }
    }

    fn reject(pod: &Pod, others: &[Pod]) -> Option<String> {
        rejection(pod, others, &node()).map(|(reason, message)| format!("{reason}: {message}"))
    }

    #[test]
    fn rejects_pods_that_do_not_fit_with_upstreams_message() {
        assert_eq!(reject(&pod_requesting("500m"), &[pod_requesting("400m")]), None);
        assert_eq!(
            reject(
                &pod_requesting("600m"),
                &[pod_requesting("300m"), pod_requesting("200m")]
            )
            .as_deref(),
            Some(
                "OutOfcpu: Node didn't have enough resource: cpu, requested: 600, used: 500, capacity: 1000"
            )
        );
        let three = [pod_requesting("0"), pod_requesting("0"), pod_requesting("0")];
        assert_eq!(
            reject(&pod_requesting("0"), &three).as_deref(),
            Some("OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3")
        );
        assert!(
            infeasible_request(&pod_requesting("2"), &node()).is_some()
                && infeasible_request(&pod_requesting("1"), &node()).is_none()
        );
    }

    #[test]
    fn evaluates_each_operator_of_node_affinity() {
        let affine = |operator: &str, values: &[&str]| {
            pod(
                json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": "cores", "operator": operator, "values": values}]}]}}}}),
            )
        };
        for (operator, values, on_eight_cores, on_unlabelled) in [
            ("In", &["4", "8"][..], true, false),
            ("In", &["4"], false, false),
            ("NotIn", &["4"], true, true),
            ("NotIn", &["8"], false, true),
            // Upstream refuses the term, which then matches no node.
            ("NotIn", &[], false, false),
            ("Exists", &[], true, false),
            ("DoesNotExist", &[], false, true),
            ("Gt", &["4"], true, false),
            ("Gt", &["8"], false, false),
            ("Gt", &["4", "5"], false, false),
            ("Lt", &["9"], true, false),
            ("Lt", &["many"], false, false),
        ] {
            let pod = affine(operator, values);
            for (labels, fits) in [(Some(("cores", "8")), on_eight_cores), (None, on_unlabelled)] {
                let facts = NodeFacts {
                    node_labels: labels
                        .map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .into_iter()
                        .collect(),
                    ..node()
                };
                let is_rejected = rejection(&pod, &[], &facts).is_some();
                assert_eq!(!is_rejected, fits, "{operator} {values:?} on {labels:?}");
            }
        }
    }

    #[test]
    fn checks_node_selector_affinity_host_ports_and_os() {
        let selected = |zone: &str| pod(json!({"containers": [], "nodeSelector": {"zone": zone}}));
        assert_eq!(reject(&selected("a"), &[]), None);
        let message =
            "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        assert_eq!(reject(&selected("b"), &[]).as_deref(), Some(message));
        let affine = |operator: &str| {
            pod(
                json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["n1"]}]}]}}}}),
            )
        };
        assert_eq!(reject(&affine("In"), &[]), None);
        assert_eq!(reject(&affine("NotIn"), &[]).as_deref(), Some(message));
        let port =
            || pod(json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}));
        assert!(reject(&port(), &[port()]).unwrap().starts_with("NodePorts: "));
        let windows = pod(json!({"containers": [], "os": {"name": "windows"}}));
        assert!(reject(&windows, &[]).unwrap().starts_with("PodOSNotSupported: "));
    }
}
