//! fieldRef and resourceFieldRef: references to fields of the pod and resources of its containers.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree},
};

/// Pod fields that can be referred to.
// upstream: pkg/apis/core/pods/helpers.go ConvertDownwardAPIFieldLabel
const POD_FIELDS: [&str; 15] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.host",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

const CONTAINER_RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];

const BYTE_DIVISORS: [&str; 13] = [
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Validates a fieldRef. `supported` are the fields that are allowed here, sorted.
// upstream: pkg/apis/core/validation/validation.go validateObjectFieldSelector
pub(crate) fn validate_object_field_selector(
    reference: &Value,
    supported: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let version = reference.text("apiVersion");
    let path = reference.text("fieldPath");
    for (name, value) in [("apiVersion", version), ("fieldPath", path)] {
        if value.is_empty() {
            errors.push(Error::required(&at.child(name), ""));
            return;
        }
    }
    let holder = at.child("fieldPath");
    let mut reject = |why: String| {
        let detail = format!("error converting fieldPath: {why}");
        errors.push(Error::invalid(&holder, path, detail));
    };
    if version != "v1" {
        return reject(format!("unsupported pod version: {version}"));
    }
    match split_maybe_subscripted_path(path) {
        Some(("metadata.annotations", key)) => {
            field_checks::validate_qualified_name(&key.to_lowercase(), at, errors);
        }
        Some(("metadata.labels", key)) => field_checks::validate_qualified_name(key, at, errors),
        Some(_) => reject(format!("field label does not support subscript: {path}")),
        None if !POD_FIELDS.contains(&path) => reject(format!("field label not supported: {path}")),
        None => {
            let path = if path == "spec.host" {
                "spec.nodeName"
            } else {
                path
            };
            field_checks::validate_supported(path, supported, &holder, errors);
        }
    }
}

/// Splits `metadata.labels['key']` into field and key.
// upstream: pkg/fieldpath/fieldpath.go SplitMaybeSubscriptedPath
fn split_maybe_subscripted_path(path: &str) -> Option<(&str, &str)> {
    let (field, key) = path.strip_suffix("']")?.split_once("['")?;
    (!field.is_empty()).then_some((field, key))
}

/// The holder of a resourceFieldRef.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceRefHolder {
    /// A container, which may refer to itself.
    Container,
    /// A volume, which must name a container.
    Volume,
}

// upstream: pkg/apis/core/validation/validation.go validateContainerResourceFieldSelector
pub(crate) fn validate_resource_field_selector(
    reference: &Value,
    holder: ResourceRefHolder,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let resource = reference.text("resource");
    if holder == ResourceRefHolder::Volume && reference.text("containerName").is_empty() {
        errors.push(Error::required(&at.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(Error::required(&at.child("resource"), ""));
    } else if !is_huge_pages(resource) {
        field_checks::validate_supported(resource, &CONTAINER_RESOURCES, &at.child("resource"), errors);
    }
    validate_divisor(resource, reference.at("divisor"), at, errors);
}

fn is_huge_pages(resource: &str) -> bool {
    HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix))
}

// upstream: pkg/apis/core/validation/validation.go validateContainerResourceDivisor
fn validate_divisor(resource: &str, divisor: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = resource.split_once('.').map(|(_, kind)| kind);
    let what = match kind {
        _ if is_huge_pages(resource) => "hugepages",
        Some("cpu") if CONTAINER_RESOURCES.contains(&resource) => "cpu",
        Some("memory") if CONTAINER_RESOURCES.contains(&resource) => "memory",
        Some("ephemeral-storage") if CONTAINER_RESOURCES.contains(&resource) => "local ephemeral storage",
        _ => return,
    };
    let (supported, list): (&[&str], _) = if what == "cpu" {
        (&["1m", "1"], "1m and 1".to_owned())
    } else {
        (&BYTE_DIVISORS, BYTE_DIVISORS.join(", "))
    };
    let amount = field_checks::quantity_or_zero(divisor);
    if !amount.is_zero() && !supported.contains(&amount.to_string().as_str()) {
        let detail = format!("only divisor's values {list} are supported with the {what} resource");
        errors.push(Error::invalid(&at.child("divisor"), resource, detail));
    }
}
