//! Whether this node takes a pod that was bound to it. Pure.
//!
//! Schedulers decide on what they know; what they did not know in time, and who binds pods by hand, is found here.

use std::collections::BTreeMap;

use k3_quantity::Quantity;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec};

use super::spec::amounts;
use crate::Facts;

/// Why a pod is refused: in a word, and in a sentence.
pub(super) type Refused = (String, String);

/// Why this node does not take a pod, beside the others it has.
pub(super) fn refusal(pod: &Pod, others: &[Pod], facts: &Facts, is_closing: bool) -> Option<Refused> {
    let said = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
    if is_closing {
        return said("NodeShutdown", "Pod was rejected as the node is shutting down.");
    }
    let no_spec = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let label = pod
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get("kubernetes.io/os"));
    if label.is_some_and(|os| os != "linux") {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return said("PodOSSelectorNodeLabelDoesNotMatch", message);
    }
    if spec.os.as_ref().is_some_and(|os| os.name != "linux") {
        return said(
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        );
    }
    does_not_fit(pod, others, facts).or_else(|| {
        if !fits_labels(spec, facts) {
            let message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
            return said("NodeAffinity", message);
        }
        if ports(spec)
            .iter()
            .any(|port| others.iter().any(|other| takes_port(other, port)))
        {
            let message =
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
            return said("NodePorts", message);
        }
        None
    })
}

/// Which resource is short, as the pod's end says it.
pub(super) fn does_not_fit(pod: &Pod, others: &[Pod], facts: &Facts) -> Option<Refused> {
    let short = |resource: &str, requested: i64, used: i64, capacity: i64| {
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        (format!("OutOf{resource}"), message)
    };
    let capacity = |name: &str| facts.allocatable.get(name);
    if let Some(most) = capacity("pods").map(Quantity::value) {
        let used = i64::try_from(others.len()).unwrap_or(i64::MAX);
        if used + 1 > most {
            return Some(short("pods", 1, used, most));
        }
    }
    let asked = requests(pod);
    let mut used: BTreeMap<String, i64> = BTreeMap::new();
    for other in others {
        for (name, amount) in requests(other) {
            *used.entry(name).or_default() += amount;
        }
    }
    // In upstream's order; what the node has not heard of is somebody else's.
    let first = ["cpu", "memory", "ephemeral-storage"].map(str::to_owned);
    let rest = asked.keys().filter(|name| !first.contains(name)).cloned();
    for name in first.iter().cloned().chain(rest) {
        let (Some(most), Some(requested)) = (capacity(&name), asked.get(&name).copied()) else {
            continue;
        };
        let (most, used) = (count(&name, most), used.get(&name).copied().unwrap_or(0));
        if requested > 0 && requested + used > most {
            return Some(short(&name, requested, used, most));
        }
    }
    None
}

/// What a pod asks for that this node will never have.
pub(super) fn never_fits(pod: &Pod, facts: &Facts) -> Option<String> {
    requests(pod).into_iter().find_map(|(name, requested)| {
        let most = count(&name, facts.allocatable.get(&name)?);
        (requested > most).then(|| {
            format!("Node didn't have enough capacity: {name}, requested: {requested}, capacity: {most}")
        })
    })
}

fn requests(pod: &Pod) -> BTreeMap<String, i64> {
    let requests = amounts::effective(pod).requests.unwrap_or_default();
    let read = |(name, text): (String, k8s_openapi::apimachinery::pkg::api::resource::Quantity)| {
        let amount = text.0.parse::<Quantity>().ok()?;
        let amount = count(&name, &amount);
        Some((name, amount))
    };
    requests.into_iter().filter_map(read).collect()
}

/// CPU is counted in thousandths.
fn count(name: &str, amount: &Quantity) -> i64 {
    if name == "cpu" {
        amount.milli_value()
    } else {
        amount.value()
    }
}

fn fits_labels(spec: &PodSpec, facts: &Facts) -> bool {
    let mut wanted = spec.node_selector.iter().flatten();
    if !wanted.all(|(name, value)| facts.node_labels.get(name) == Some(value)) {
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
    required.is_none_or(|required| {
        required
            .node_selector_terms
            .iter()
            .any(|term| fits_term(term, facts))
    })
}

/// A term without rules fits nothing.
fn fits_term(term: &NodeSelectorTerm, facts: &Facts) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = |rule: &NodeSelectorRequirement| (rule.key == "metadata.name").then_some(&facts.node_name);
    !(labels.is_empty() && fields.is_empty())
        && labels
            .iter()
            .all(|rule| fits_rule(rule, facts.node_labels.get(&rule.key)))
        && fields.iter().all(|rule| fits_rule(rule, name(rule)))
}

fn fits_rule(rule: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let values = rule.values.as_deref().unwrap_or_default();
    let number = |text: Option<&String>| text.and_then(|text| text.parse::<i64>().ok());
    let compared = number(value).zip(number(values.first()));
    match rule.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared.is_some_and(|(value, wanted)| value > wanted),
        "Lt" => compared.is_some_and(|(value, wanted)| value < wanted),
        _ => false,
    }
}

/// Ports of the machine: protocol, address, number.
fn ports(spec: &PodSpec) -> Vec<(String, String, i32)> {
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|one| super::status::restart::is_sidecar(one));
    let ports = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten());
    let asked = ports.filter_map(|port| {
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
    asked.collect()
}

fn takes_port(other: &Pod, port: &(String, String, i32)) -> bool {
    let all = "0.0.0.0";
    let taken = other.spec.as_ref().map(ports).unwrap_or_default();
    taken.iter().any(|taken| {
        taken.0 == port.0 && taken.2 == port.2 && (taken.1 == port.1 || taken.1 == all || port.1 == all)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "every caller has just made it")]
    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
    }

    fn asks(cpu: &str) -> Pod {
        pod(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}))
    }

    fn node() -> Facts {
        let allocatable = [("cpu", "1"), ("pods", "3")];
        Facts {
            node_name: "n1".to_owned(),
            allocatable: allocatable
                .map(|(name, text)| (name.to_owned(), text.parse().unwrap()))
                .into(),
            node_labels: [("zone".to_owned(), "a".to_owned())].into(),
            ..Facts::default()
        }
    }

    fn said(pod: &Pod, others: &[Pod]) -> Option<String> {
        refusal(pod, others, &node(), false).map(|(reason, message)| format!("{reason}: {message}"))
    }

    #[test]
    fn what_does_not_fit_is_refused_in_upstreams_words() {
        assert_eq!(said(&asks("500m"), &[asks("400m")]), None);
        assert_eq!(
            said(&asks("600m"), &[asks("300m"), asks("200m")]).as_deref(),
            Some(
                "OutOfcpu: Node didn't have enough resource: cpu, requested: 600, used: 500, capacity: 1000"
            )
        );
        let three = [asks("0"), asks("0"), asks("0")];
        assert_eq!(
            said(&asks("0"), &three).as_deref(),
            Some("OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3")
        );
        assert!(never_fits(&asks("2"), &node()).is_some() && never_fits(&asks("1"), &node()).is_none());
    }

    #[test]
    fn selectors_affinity_and_ports_have_to_fit() {
        let selected = |zone: &str| pod(json!({"containers": [], "nodeSelector": {"zone": zone}}));
        assert_eq!(said(&selected("a"), &[]), None);
        let words =
            "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        assert_eq!(said(&selected("b"), &[]).as_deref(), Some(words));
        let affine = |operator: &str| {
            pod(
                json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["n1"]}]}]}}}}),
            )
        };
        assert_eq!(said(&affine("In"), &[]), None);
        assert_eq!(said(&affine("NotIn"), &[]).as_deref(), Some(words));
        let port =
            || pod(json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}));
        assert!(said(&port(), &[port()]).unwrap().starts_with("NodePorts: "));
        assert!(refusal(&port(), &[], &node(), true).unwrap().0 == "NodeShutdown");
        let windows = pod(json!({"containers": [], "os": {"name": "windows"}}));
        assert!(said(&windows, &[]).unwrap().starts_with("PodOSNotSupported: "));
    }
}
