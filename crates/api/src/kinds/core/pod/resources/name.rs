//! The names of resources.

use super::super::report::Report;
use crate::{field::Path, name, rules::Errors};

const HUGEPAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";

/// What containers use.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What quotas know of, beside pages, pieces of objects and what containers use.
const QUOTA: [&str; 16] = [
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
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

/// What is counted in whole pieces.
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

/// Whether it is pages of some size.
pub(in super::super) fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES)
}

/// Whether it is pages of some size, or a quota of them.
fn is_quota_of_hugepages(name: &str) -> bool {
    is_hugepages(name) || name.strip_prefix(REQUESTS).is_some_and(is_hugepages)
}

/// Whether a container can ask for it by a name without a slash.
fn is_standard_container(name: &str) -> bool {
    COMPUTE.contains(&name) || is_hugepages(name)
}

/// Whether a quota can bound it by a name without a slash.
pub(crate) fn is_standard_quota(name: &str) -> bool {
    COMPUTE.contains(&name) || QUOTA.contains(&name) || is_quota_of_hugepages(name)
}

/// Whether the system knows it by a name without a slash.
fn is_standard(name: &str) -> bool {
    name == "storage" || is_standard_quota(name)
}

/// Whether the name is the project's own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the name is one of an extended resource.
pub fn is_extended(resource: &str) -> bool {
    // A quota of it needs a name too.
    !is_native(resource)
        && !resource.starts_with(REQUESTS)
        && name::label_key(&format!("{REQUESTS}{resource}")).is_empty()
}

/// Whether more of it can be promised than there is.
pub(crate) fn overcommits(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

/// Whether it comes in whole pieces.
pub(super) fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Whether a pod as a whole can ask for it.
pub(in super::super) fn suits_pod(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_hugepages(name)
}

/// What is wrong with the name of a resource. Tells whether anything is.
pub(crate) fn validate_name(resource: &str, at: &Path<'_>, errors: &mut Errors) -> bool {
    let msgs = name::label_key(resource);
    if !msgs.is_empty() {
        errors.push_invalid(at, resource, msgs);
        return true;
    }
    let unknown = !resource.contains('/') && !is_standard(resource);
    if unknown {
        errors.invalid(
            at,
            resource,
            "must be a standard resource type or fully qualified",
        );
    }
    unknown
}

/// What is wrong with the name of a resource a container asks for.
pub(crate) fn validate_container_name(resource: &str, at: &Path<'_>, errors: &mut Errors) {
    validate_name(resource, at, errors);
    if !resource.contains('/') {
        if !is_standard_container(resource) {
            errors.invalid(at, resource, "must be a standard resource for containers");
        }
    } else if !is_native(resource) && !is_extended(resource) {
        errors.invalid(at, resource, "doesn't follow extended resource name standard");
    }
}

/// What is wrong with the name of a resource in a quota.
pub(crate) fn validate_quota_name(resource: &str, at: &Path<'_>, errors: &mut Errors) {
    validate_name(resource, at, errors);
    if !resource.contains('/') && !is_standard_quota(resource) {
        errors.invalid(at, resource, "must be a standard resource for quota");
    }
}

/// What is wrong with the name of a resource a pod as a whole asks for.
pub(super) fn validate_pod_name(resource: &str, at: &Path<'_>, errors: &mut Errors) {
    if !validate_name(resource, at, errors) && !suits_pod(resource) {
        errors.unsupported(at, resource, &["cpu", HUGEPAGES, "memory"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_extended_resources() {
        assert!(is_extended("example.com/gpu") && is_integer("example.com/gpu"));
        for name in [
            "cpu",
            "kubernetes.io/x",
            "requests.example.com/gpu",
            "example.com/-",
        ] {
            assert!(!is_extended(name), "{name}");
        }
        assert!(overcommits("memory") && !overcommits("hugepages-2Mi") && !overcommits("example.com/gpu"));
    }

    #[test]
    fn quotas_know_more_than_containers() {
        assert!(is_standard_quota("requests.hugepages-2Mi") && !is_standard_container("pods"));
        assert!(is_standard("storage") && !is_standard_quota("storage"));
    }
}
