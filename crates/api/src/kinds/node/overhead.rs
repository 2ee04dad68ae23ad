//! What running a pod costs beside its containers: amounts of resources that containers can ask for.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::faults,
    name,
    quantity::Quantity,
    rules::{Errors, Tree},
};

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";

/// What else is known without a domain: what quotas count.
const OF_QUOTAS: [&str; 17] = [
    "configmaps",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

/// What of that comes in whole numbers only.
const WHOLE: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// What is wrong with an overhead. The place of an amount is told as that of a container's limit.
pub(super) fn validate(overhead: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.child("limits");
    let amounts = overhead.entries("podFixed");
    for (resource, amount) in amounts {
        let at = list.key(resource);
        validate_name(resource, &at, errors);
        let amount = Quantity::from_value(amount).unwrap_or_else(|_| Quantity::zero());
        validate_amount(resource, &amount, &at, errors);
    }
    let sized = ["cpu", "memory"].iter().any(|name| amounts.contains_key(*name));
    if !sized && amounts.keys().any(|name| name.starts_with(HUGE_PAGES)) {
        errors.push(Error::forbidden(at, "HugePages require cpu or memory"));
    }
}

fn validate_name(resource: &str, at: &Path<'_>, errors: &mut Errors) {
    let found = name::label_key(resource);
    let malformed = !found.is_empty();
    faults::tell(resource, found, at, errors);
    let of_containers = OF_CONTAINERS.contains(&resource) || resource.starts_with(HUGE_PAGES);
    if resource.contains('/') {
        if !is_native(resource) && !is_extended(resource) {
            let detail = "doesn't follow extended resource name standard";
            errors.push(Error::invalid(at, resource, detail));
        }
        return;
    }
    let of_quotas = OF_QUOTAS.contains(&resource)
        || resource.starts_with("requests.hugepages-")
        || OF_CONTAINERS.contains(&resource)
        || resource.starts_with(HUGE_PAGES);
    if !malformed && !of_quotas {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(Error::invalid(at, resource, detail));
    }
    if !of_containers {
        let detail = "must be a standard resource for containers";
        errors.push(Error::invalid(at, resource, detail));
    }
}

fn validate_amount(resource: &str, amount: &Quantity, at: &Path<'_>, errors: &mut Errors) {
    if amount.sign().is_lt() {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(at, amount.to_string(), detail));
    }
    if (WHOLE.contains(&resource) || is_extended(resource)) && amount.milli_value() % 1000 != 0 {
        errors.push(Error::invalid(at, amount.to_string(), "must be an integer"));
    }
    if let Some(size) = resource.strip_prefix(HUGE_PAGES)
        && !divides(size, amount)
    {
        let detail = format!("{amount} is not positive integer multiple of {resource}");
        errors.push(Error::invalid(at, amount.to_string(), detail));
    }
}

/// Whether an amount is a number of pages of this size.
fn divides(size: &str, amount: &Quantity) -> bool {
    let Ok(size) = size.parse::<Quantity>() else {
        return false;
    };
    size.sign().is_gt()
        && size.milli_value() % 1000 == 0
        && size.value() != 0
        && amount.value() % size.value() == 0
}

fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

fn is_extended(resource: &str) -> bool {
    let quota = || name::label_key(&format!("requests.{resource}")).is_empty();
    !is_native(resource) && !resource.starts_with("requests.") && quota()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(amounts: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate(&json!({"podFixed": amounts}), &Path::new("o"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_containers_use_can_be_overhead() {
        let good = json!({"cpu": "250m", "memory": "64Mi", "e.com/x": "1", "hugepages-2Mi": "4Mi"});
        assert_eq!(errors(&good), [""; 0]);
        assert_eq!(
            errors(&json!({"pods": "1"})),
            ["o.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers"]
        );
        assert_eq!(
            errors(&json!({"requests.e.com/x": "1"})),
            [
                "o.limits[requests.e.com/x]: Invalid value: \"requests.e.com/x\": doesn't follow extended resource name \
              standard"
            ]
        );
    }

    #[test]
    fn amounts_are_positive_and_whole_where_they_must() {
        assert_eq!(
            errors(&json!({"cpu": "-1", "e.com/x": "1500m", "hugepages-2Mi": "3Mi"})),
            [
                "o.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "o.limits[e.com/x]: Invalid value: \"1500m\": must be an integer",
                "o.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            ]
        );
        assert_eq!(
            errors(&json!({"hugepages-2Mi": "2Mi"})),
            ["o: Forbidden: HugePages require cpu or memory"]
        );
    }
}
