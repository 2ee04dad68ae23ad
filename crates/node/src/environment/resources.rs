//! Resources of containers that they may know.

use k3_quantity::Quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, ResourceFieldSelector},
    apimachinery::pkg::api::resource::Quantity as Text,
};

use crate::Facts;

/// Limits that are told as the node's if the container has none. Huge pages are never given to more than one.
const DEFAULTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What a variable of a container says that refers to resources of it, or of another container of its pod.
pub(super) fn of_variable(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    container: &Container,
    facts: &Facts,
) -> Result<String, String> {
    let pod_limits = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.resources.as_ref()?.limits.as_ref());
    let default = |resource: &str| {
        let of_pod = pod_limits.and_then(|limits| amount(limits.get(resource)));
        let of_node = facts.allocatable.get(resource);
        of_pod
            .filter(|limit| !limit.is_zero() && of_node.is_some())
            .or_else(|| of_node.cloned())
    };
    match selector.container_name.as_deref().unwrap_or_default() {
        "" => value(selector, container, default),
        name => match find(pod, name)? {
            Found::Regular(container) => value(selector, container, default),
            // Only limits of regular containers are filled in.
            Found::Init(container) => value(selector, container, |_| None),
        },
    }
}

/// What a file says that refers to resources of a container.
pub(crate) fn of_file(selector: &ResourceFieldSelector, pod: &Pod, facts: &Facts) -> Result<String, String> {
    let (Found::Regular(container) | Found::Init(container)) =
        find(pod, selector.container_name.as_deref().unwrap_or_default())?;
    value(selector, container, |resource| {
        facts.allocatable.get(resource).cloned()
    })
}

enum Found<'a> {
    Regular(&'a Container),
    Init(&'a Container),
}

fn find<'a>(pod: &'a Pod, name: &str) -> Result<Found<'a>, String> {
    let spec = pod.spec.as_ref();
    let regular = spec
        .into_iter()
        .flat_map(|spec| &spec.containers)
        .map(Found::Regular);
    let init = spec.and_then(|spec| spec.init_containers.as_ref());
    let init = init.into_iter().flatten().map(Found::Init);
    let mut all = regular.chain(init);
    all.find(|(Found::Regular(container) | Found::Init(container))| container.name == name)
        .ok_or_else(|| format!("container {name} not found"))
}

/// The amount, in units of the divisor, rounded up.
fn value(
    selector: &ResourceFieldSelector,
    container: &Container,
    default: impl Fn(&str) -> Option<Quantity>,
) -> Result<String, String> {
    let unsupported = || format!("unsupported container resource : {}", selector.resource);
    let resources = container.resources.as_ref();
    let (list, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    if !DEFAULTED.contains(&name) && !name.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let known = match list {
        "limits" => {
            let limit = resources.and_then(|resources| amount(resources.limits.as_ref()?.get(name)));
            match limit.filter(|limit| !limit.is_zero()) {
                None if DEFAULTED.contains(&name) => default(name),
                limit => limit,
            }
        }
        "requests" => resources.and_then(|resources| amount(resources.requests.as_ref()?.get(name))),
        _ => return Err(unsupported()),
    };
    let known = known.unwrap_or_else(Quantity::zero);
    let divisor = amount(selector.divisor.as_ref()).filter(|divisor| !divisor.is_zero());
    let divisor = divisor.unwrap_or_else(|| Quantity::new(1, k3_quantity::Format::DecimalSi));
    let in_units = |quantity: &Quantity| match name {
        "cpu" => quantity.milli_value(),
        _ => quantity.value(),
    };
    let known = i128::from(in_units(&known));
    let divisor = i128::from(in_units(&divisor));
    // A divisor that is nothing in these units was refused by the API.
    let rounded = known.checked_div(divisor).ok_or_else(unsupported)?;
    let more = i128::from(known % divisor != 0 && (known > 0) == (divisor > 0));
    Ok((rounded + more).to_string())
}

fn amount(text: Option<&Text>) -> Option<Quantity> {
    text?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(pod_limits: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({"spec": {
            "resources": {"limits": pod_limits},
            "initContainers": [{"name": "first"}],
            "containers": [
                {"name": "a", "resources": {"limits": {"cpu": "1500m", "memory": "100Mi", "hugepages-2Mi": "4Mi"}, "requests": {"cpu": "250m"}}},
                {"name": "b"}]}}))
        .unwrap()
    }

    fn ask(pod: &Pod, of: &str, container: &str, resource: &str, divisor: &str) -> Result<String, String> {
        let selector: ResourceFieldSelector = serde_json::from_value(
            json!({"containerName": container, "resource": resource, "divisor": divisor}),
        )
        .unwrap();
        let facts = Facts {
            allocatable: [("cpu", "4"), ("memory", "8Gi")]
                .map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()))
                .into(),
            ..Facts::default()
        };
        let (Found::Regular(own) | Found::Init(own)) = find(pod, of).unwrap();
        of_variable(&selector, pod, own, &facts)
    }

    #[test]
    fn amounts_are_told_in_units_and_rounded_up() {
        let pod = pod(&json!({}));
        for (of, container, resource, divisor, expected) in [
            ("a", "", "limits.cpu", "0", "2"),
            ("a", "", "limits.cpu", "1m", "1500"),
            ("a", "", "requests.cpu", "1", "1"),
            ("a", "", "requests.cpu", "1m", "250"),
            ("a", "", "requests.memory", "1", "0"),
            ("a", "", "limits.memory", "1Mi", "100"),
            ("a", "", "limits.memory", "1Gi", "1"),
            ("a", "", "limits.memory", "0", "104857600"),
            ("a", "", "limits.hugepages-2Mi", "1Mi", "4"),
            ("b", "", "limits.hugepages-2Mi", "1Mi", "0"),
            ("b", "", "limits.cpu", "1", "4"),
            ("b", "", "limits.memory", "1Gi", "8"),
            ("b", "", "limits.ephemeral-storage", "1", "0"),
            ("b", "a", "limits.cpu", "1m", "1500"),
            ("b", "first", "limits.cpu", "1m", "0"),
            ("first", "", "limits.cpu", "1", "4"),
        ] {
            assert_eq!(
                ask(&pod, of, container, resource, divisor).as_deref(),
                Ok(expected),
                "{of} {container} {resource} {divisor}"
            );
        }
    }

    #[test]
    fn limits_of_the_pod_come_before_those_of_the_node() {
        let pod = pod(&json!({"memory": "1Gi"}));
        assert_eq!(ask(&pod, "b", "", "limits.memory", "1Mi").as_deref(), Ok("1024"));
        assert_eq!(ask(&pod, "b", "", "limits.cpu", "1").as_deref(), Ok("4"));
    }

    #[test]
    fn what_is_not_there_is_told() {
        let pod = pod(&json!({}));
        assert_eq!(
            ask(&pod, "a", "c", "limits.cpu", "1").unwrap_err(),
            "container c not found"
        );
        assert_eq!(
            ask(&pod, "a", "", "limits.gpu", "1").unwrap_err(),
            "unsupported container resource : limits.gpu"
        );
    }
}
