//! Names of resources.

use super::super::error_list::ErrorListExt;
use crate::{field::Path, name, strategy::ErrorList};

const HUGEPAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";

// upstream: pkg/apis/core/helper/helpers.go IsStandardContainerResourceName
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

// upstream: pkg/apis/core/helper/helpers.go IsStandardQuotaResourceName
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

// upstream: pkg/apis/core/helper/helpers.go IsIntegerResourceName
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

// upstream: pkg/apis/core/helper/helpers.go IsHugePageResourceName
pub(in super::super) fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES)
}

// upstream: pkg/apis/core/helper/helpers.go IsQuotaHugePageResourceName
fn is_quota_of_hugepages(name: &str) -> bool {
    is_hugepages(name) || name.strip_prefix(REQUESTS).is_some_and(is_hugepages)
}

// upstream: pkg/apis/core/helper/helpers.go IsStandardContainerResourceName
fn is_standard_container(name: &str) -> bool {
    COMPUTE.contains(&name) || is_hugepages(name)
}

// upstream: pkg/apis/core/helper/helpers.go IsStandardQuotaResourceName
pub(crate) fn is_standard_quota(name: &str) -> bool {
    COMPUTE.contains(&name) || QUOTA.contains(&name) || is_quota_of_hugepages(name)
}

// upstream: pkg/apis/core/helper/helpers.go IsStandardResourceName
fn is_standard(name: &str) -> bool {
    name == "storage" || is_standard_quota(name)
}

// upstream: pkg/apis/core/helper/helpers.go IsNativeResource
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the name is one of an extended resource.
// upstream: pkg/apis/core/helper/helpers.go IsExtendedResourceName
pub fn is_extended(resource: &str) -> bool {
    // Its quota name must be valid too.
    !is_native(resource)
        && !resource.starts_with(REQUESTS)
        && name::validate_label_key(&format!("{REQUESTS}{resource}")).is_empty()
}

/// Whether limits may exceed requests.
// upstream: pkg/apis/core/helper/helpers.go IsOvercommitAllowed
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

// upstream: pkg/apis/core/helper/helpers.go IsIntegerResourceName
pub(super) fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Whether it is allowed in pod-level resources.
pub(in super::super) fn is_supported_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_hugepages(name)
}

/// Validates the name of a resource. Returns whether it is valid.
// upstream: pkg/apis/core/validation/validation.go validateResourceName
pub(crate) fn validate_resource_name(resource: &str, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let msgs = name::validate_label_key(resource);
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

// upstream: pkg/apis/core/validation/validation.go ValidateContainerResourceName
pub(crate) fn validate_container_resource_name(resource: &str, at: &Path<'_>, errors: &mut ErrorList) {
    validate_resource_name(resource, at, errors);
    if !resource.contains('/') {
        if !is_standard_container(resource) {
            errors.invalid(at, resource, "must be a standard resource for containers");
        }
    } else if !is_native(resource) && !is_extended(resource) {
        errors.invalid(at, resource, "doesn't follow extended resource name standard");
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateResourceQuotaResourceName
pub(crate) fn validate_quota_resource_name(resource: &str, at: &Path<'_>, errors: &mut ErrorList) {
    validate_resource_name(resource, at, errors);
    if !resource.contains('/') && !is_standard_quota(resource) {
        errors.invalid(at, resource, "must be a standard resource for quota");
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodResourceName
pub(super) fn validate_pod_resource_name(resource: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if !validate_resource_name(resource, at, errors) && !is_supported_pod_level_resource(resource) {
        errors.unsupported(at, resource, &["cpu", HUGEPAGES, "memory"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_domain_are_extended_resources() {
        assert!(is_extended("example.com/gpu") && is_integer("example.com/gpu"));
        for name in [
            "cpu",
            "kubernetes.io/x",
            "requests.example.com/gpu",
            "example.com/-",
        ] {
            assert!(!is_extended(name), "{name}");
        }
        assert!(
            is_overcommit_allowed("memory")
                && !is_overcommit_allowed("hugepages-2Mi")
                && !is_overcommit_allowed("example.com/gpu")
        );
    }

    #[test]
    fn quota_names_include_object_counts() {
        assert!(is_standard_quota("requests.hugepages-2Mi") && !is_standard_container("pods"));
        assert!(is_standard("storage") && !is_standard_quota("storage"));
    }
}
