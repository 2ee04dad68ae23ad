//! Requests and limits for `resourceFieldRef`, in environment variables and downward API volumes.

use k3_quantity::Quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, ResourceFieldSelector},
    apimachinery::pkg::api::resource::Quantity as ApiQuantity,
};

use crate::NodeFacts;

/// Resources whose limit defaults to the limit of the pod or the allocatable of the node. Huge pages have no default: a pod without
/// a limit cannot use them.
const DEFAULTED_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Why a `resourceFieldRef` has no value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceFieldError {
    /// The pod has no container of this name.
    #[error("container {0} not found")]
    ContainerNotFound(String),
    /// Not a request or limit of a resource, or a divisor that is zero in its units.
    #[error("unsupported container resource : {0}")]
    Unsupported(String),
}

/// Value of a `resourceFieldRef` in an environment variable.
// upstream: pkg/kubelet/kubelet_pods.go containerResourceRuntimeValue
// upstream: pkg/kubelet/kubelet_resources.go defaultPodLimitsForDownwardAPI
pub(super) fn container_resource_runtime_value(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    container: &Container,
    facts: &NodeFacts,
) -> Result<String, ResourceFieldError> {
    let pod_limits = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.resources.as_ref()?.limits.as_ref());
    let default_limit = |resource: &str| {
        let pod_limit = pod_limits.and_then(|limits| parse_quantity(limits.get(resource)));
        let allocatable = facts.allocatable.get(resource);
        pod_limit
            .filter(|limit| !limit.is_zero() && allocatable.is_some())
            .or_else(|| allocatable.cloned())
    };
    match selector.container_name.as_deref().unwrap_or_default() {
        "" => extract_container_resource_value(selector, container, default_limit),
        name => match find_container_in_pod(pod, name)? {
            PodContainer::Regular(container) => {
                extract_container_resource_value(selector, container, default_limit)
            }
            // Upstream sets default limits only for regular containers of the pod.
            PodContainer::Init(container) => extract_container_resource_value(selector, container, |_| None),
        },
    }
}

/// Value of a `resourceFieldRef` in a downward API volume.
// upstream: pkg/api/v1/resource/helpers.go ExtractResourceValueByContainerNameAndNodeAllocatable
pub(crate) fn extract_resource_value_by_container_name(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    facts: &NodeFacts,
) -> Result<String, ResourceFieldError> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let (PodContainer::Regular(container) | PodContainer::Init(container)) =
        find_container_in_pod(pod, name)?;
    extract_container_resource_value(selector, container, |resource| {
        facts.allocatable.get(resource).cloned()
    })
}

enum PodContainer<'a> {
    Regular(&'a Container),
    Init(&'a Container),
}

// upstream: pkg/api/v1/resource/helpers.go findContainerInPod
fn find_container_in_pod<'a>(pod: &'a Pod, name: &str) -> Result<PodContainer<'a>, ResourceFieldError> {
    let spec = pod.spec.as_ref();
    let regular = spec
        .into_iter()
        .flat_map(|spec| &spec.containers)
        .map(PodContainer::Regular);
    let init = spec.and_then(|spec| spec.init_containers.as_ref());
    let init = init.into_iter().flatten().map(PodContainer::Init);
    let mut all = regular.chain(init);
    all.find(|(PodContainer::Regular(container) | PodContainer::Init(container))| container.name == name)
        .ok_or_else(|| ResourceFieldError::ContainerNotFound(name.to_owned()))
}

/// The quantity divided by the divisor, rounded up.
// upstream: pkg/api/v1/resource/helpers.go ExtractContainerResourceValue
fn extract_container_resource_value(
    selector: &ResourceFieldSelector,
    container: &Container,
    default_limit: impl Fn(&str) -> Option<Quantity>,
) -> Result<String, ResourceFieldError> {
    let unsupported = || ResourceFieldError::Unsupported(selector.resource.clone());
    let resources = container.resources.as_ref();
    let (list, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    if !DEFAULTED_RESOURCES.contains(&name) && !name.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let quantity = match list {
        "limits" => {
            let limit = resources.and_then(|resources| parse_quantity(resources.limits.as_ref()?.get(name)));
            match limit.filter(|limit| !limit.is_zero()) {
                None if DEFAULTED_RESOURCES.contains(&name) => default_limit(name),
                limit => limit,
            }
        }
        "requests" => resources.and_then(|resources| parse_quantity(resources.requests.as_ref()?.get(name))),
        _ => return Err(unsupported()),
    };
    let quantity = quantity.unwrap_or_else(Quantity::zero);
    let divisor = parse_quantity(selector.divisor.as_ref()).filter(|divisor| !divisor.is_zero());
    let divisor = divisor.unwrap_or_else(|| Quantity::new(1, k3_quantity::Format::DecimalSi));
    let in_units = |quantity: &Quantity| match name {
        "cpu" => quantity.milli_value(),
        _ => quantity.value(),
    };
    let dividend = i128::from(in_units(&quantity));
    let divisor = i128::from(in_units(&divisor));
    // The API server rejects divisors that are zero in these units.
    let quotient = dividend.checked_div(divisor).ok_or_else(unsupported)?;
    let round_up = i128::from(dividend % divisor != 0 && (dividend > 0) == (divisor > 0));
    Ok((quotient + round_up).to_string())
}

fn parse_quantity(quantity: Option<&ApiQuantity>) -> Option<Quantity> {
    quantity?.0.parse().ok()
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

    /// Resolves a `resourceFieldRef` in the container `of`.
    fn resolve(
        pod: &Pod,
        of: &str,
        container: &str,
        resource: &str,
        divisor: &str,
    ) -> Result<String, ResourceFieldError> {
        let selector: ResourceFieldSelector = serde_json::from_value(
            json!({"containerName": container, "resource": resource, "divisor": divisor}),
        )
        .unwrap();
        let facts = NodeFacts {
            allocatable: [("cpu", "4"), ("memory", "8Gi")]
                .map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()))
                .into(),
            ..NodeFacts::default()
        };
        let (PodContainer::Regular(own) | PodContainer::Init(own)) = find_container_in_pod(pod, of).unwrap();
        container_resource_runtime_value(&selector, pod, own, &facts)
    }

    #[test]
    fn divides_by_divisor_and_rounds_up() {
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
                resolve(&pod, of, container, resource, divisor).as_deref(),
                Ok(expected),
                "{of} {container} {resource} {divisor}"
            );
        }
    }

    #[test]
    fn default_limit_is_pod_limit_before_node_allocatable() {
        let pod = pod(&json!({"memory": "1Gi"}));
        assert_eq!(
            resolve(&pod, "b", "", "limits.memory", "1Mi").as_deref(),
            Ok("1024")
        );
        assert_eq!(resolve(&pod, "b", "", "limits.cpu", "1").as_deref(), Ok("4"));
    }

    #[test]
    fn rejects_unknown_containers_and_resources() {
        let pod = pod(&json!({}));
        assert_eq!(
            resolve(&pod, "a", "c", "limits.cpu", "1")
                .unwrap_err()
                .to_string(),
            "container c not found"
        );
        assert_eq!(
            resolve(&pod, "a", "", "limits.gpu", "1").unwrap_err().to_string(),
            "unsupported container resource : limits.gpu"
        );
    }
}
