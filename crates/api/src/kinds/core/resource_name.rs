//! Names of what can be counted and shared out (`cpu`, `pods`, `hugepages-2Mi`, `example.com/gpu`), and amounts of it.

use std::cmp::Ordering;

use serde_json::Value;

use super::{faults::tell_shown, printed::word};
use crate::{
    field::{Error, Path},
    name,
    quantity::{MILLI, Quantity},
    rules::Errors,
};

const HUGE_PAGES: &str = "hugepages-";
const REQUESTED_HUGE_PAGES: &str = "requests.hugepages-";
const REQUESTS: &str = "requests.";

/// What of a node containers use.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Objects that are counted.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// What quotas limit, beside counted objects and what containers use.
const OF_QUOTAS: [&str; 7] = [
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Whether a name means memory in pages of a size.
pub(in crate::kinds) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether a name is one of Kubernetes's own: without a domain, or with its domain.
pub(in crate::kinds) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a name is that of a resource someone else brought.
pub(in crate::kinds) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS)
        && name::label_key(&format!("{REQUESTS}{name}")).is_empty()
}

/// Whether a resource can be promised more than once.
pub(in crate::kinds) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Whether quotas know a name.
pub(in crate::kinds) fn is_standard_for_quota(name: &str) -> bool {
    OF_CONTAINERS.contains(&name)
        || COUNTED.contains(&name)
        || OF_QUOTAS.contains(&name)
        || is_huge_page(name)
        || name.starts_with(REQUESTED_HUGE_PAGES)
}

fn is_standard(name: &str) -> bool {
    name == "storage" || is_standard_for_quota(name)
}

fn is_whole(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// What is wrong with the name of a resource.
pub(in crate::kinds) fn resource(errors: &mut Errors, at: &Path<'_>, name: &str) {
    let faults = name::label_key(name);
    if !faults.is_empty() {
        tell_shown(errors, at, || word(name), faults);
    } else if !name.contains('/') && !is_standard(name) {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(Error::invalid(at, word(name), detail));
    }
}

/// What is wrong with the name of a resource containers use.
pub(in crate::kinds) fn container_resource(errors: &mut Errors, at: &Path<'_>, name: &str) {
    resource(errors, at, name);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge_page(name) {
            let detail = "must be a standard resource for containers";
            errors.push(Error::invalid(at, word(name), detail));
        }
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(Error::invalid(at, word(name), detail));
    }
}

/// What is wrong with the name of a resource quotas limit.
pub(in crate::kinds) fn quota_resource(errors: &mut Errors, at: &Path<'_>, name: &str) {
    resource(errors, at, name);
    if !name.contains('/') && !is_standard_for_quota(name) {
        let detail = "must be a standard resource for quota";
        errors.push(Error::invalid(at, word(name), detail));
    }
}

/// Rounds the amounts of a list up to thousandths, the finest that are kept.
pub(in crate::kinds) fn round(list: Option<&mut Value>) {
    let amounts = list.and_then(Value::as_object_mut);
    for value in amounts.into_iter().flat_map(serde_json::Map::values_mut) {
        // Most are seen to be coarser without being read.
        let coarse = |text: &str| !text.contains(['.', 'n', 'u', 'e', 'E']);
        if !value.as_str().is_some_and(coarse)
            && let Ok(mut amount) = Quantity::from_value(value)
        {
            amount.round_up(MILLI);
            *value = Value::String(amount.to_string());
        }
    }
}

/// What is wrong with an amount of a resource.
pub(in crate::kinds) fn amount(errors: &mut Errors, at: &Path<'_>, name: &str, value: &Value) {
    let Ok(amount) = Quantity::from_value(value) else {
        return;
    };
    if amount.sign() == Ordering::Less {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(at, amount.to_string(), detail));
    }
    if amount.milli_value() % 1000 != 0 && is_whole(name) {
        errors.push(Error::invalid(at, amount.to_string(), "must be an integer"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn details(judge: impl Fn(&mut Errors, &Path<'_>)) -> Vec<String> {
        let mut errors = Errors::new();
        judge(&mut errors, &Path::new("r"));
        errors.into_iter().map(|error| error.detail).collect()
    }

    #[test]
    fn names_belong_to_those_who_use_them() {
        for (name, container, quota) in [
            ("cpu", 0, 0),
            ("hugepages-2Mi", 0, 0),
            ("pods", 1, 0),
            ("storage", 1, 1),
            ("nothing", 2, 2),
            ("example.com/gpu", 0, 0),
            ("requests.example.com/gpu", 1, 0),
            ("kubernetes.io/any", 0, 0),
        ] {
            assert_eq!(
                details(|e, at| container_resource(e, at, name)).len(),
                container,
                "{name}"
            );
            assert_eq!(
                details(|e, at| quota_resource(e, at, name)).len(),
                quota,
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_counted_is_whole() {
        assert_eq!(
            details(|e, at| amount(e, at, "example.com/gpu", &json!("-1500m"))),
            ["must be greater than or equal to 0", "must be an integer"]
        );
        assert!(details(|e, at| amount(e, at, "cpu", &json!("1500m"))).is_empty());
    }
}
