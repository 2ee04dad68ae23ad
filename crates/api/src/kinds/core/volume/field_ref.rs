//! References to fields of the pod itself, and to the resources of its containers.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree},
};

/// The fields of a pod that something of it may refer to.
const FIELDS: [&str; 15] = [
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

const RESOURCES: [&str; 6] = [
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

/// What is wrong with a reference to a field of the pod. `supported` are the fields that may be meant here,
/// sorted.
pub(crate) fn object_field(reference: &Value, supported: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    let version = reference.text("apiVersion");
    let path = reference.text("fieldPath");
    for (name, value) in [("apiVersion", version), ("fieldPath", path)] {
        if value.is_empty() {
            errors.push(Error::required(&at.child(name), ""));
            return;
        }
    }
    let field_path = at.child("fieldPath");
    let mut refuse = |why: String| {
        let detail = format!("error converting fieldPath: {why}");
        errors.push(Error::invalid(&field_path, path, detail));
    };
    if version != "v1" {
        return refuse(format!("unsupported pod version: {version}"));
    }
    match subscripted(path) {
        Some(("metadata.annotations", key)) => {
            field_checks::validate_qualified_name(&key.to_lowercase(), at, errors)
        }
        Some(("metadata.labels", key)) => field_checks::validate_qualified_name(key, at, errors),
        Some(_) => refuse(format!("field label does not support subscript: {path}")),
        None if !FIELDS.contains(&path) => refuse(format!("field label not supported: {path}")),
        None => {
            let path = if path == "spec.host" {
                "spec.nodeName"
            } else {
                path
            };
            field_checks::validate_supported(path, supported, &field_path, errors);
        }
    }
}

/// `metadata.labels['key']` as field and key.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    let (field, key) = path.strip_suffix("']")?.split_once("['")?;
    (!field.is_empty()).then_some((field, key))
}

/// Where a reference to a resource stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a container, which may mean itself.
    Container,
    /// In a volume, which must say which container it means.
    Volume,
}

/// What is wrong with a reference to a resource of a container.
pub(crate) fn resource_field(reference: &Value, field_path: Place, at: &Path<'_>, errors: &mut ErrorList) {
    let resource = reference.text("resource");
    let is_huge = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    if field_path == Place::Volume && reference.text("containerName").is_empty() {
        errors.push(Error::required(&at.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(Error::required(&at.child("resource"), ""));
    } else if !is_huge {
        field_checks::validate_supported(resource, &RESOURCES, &at.child("resource"), errors);
    }
    divisor(resource, is_huge, reference.at("divisor"), at, errors);
}

fn divisor(resource: &str, is_huge: bool, divisor: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = resource.split_once('.').map(|(_, kind)| kind);
    let what = match kind {
        _ if is_huge => "hugepages",
        Some("cpu") if RESOURCES.contains(&resource) => "cpu",
        Some("memory") if RESOURCES.contains(&resource) => "memory",
        Some("ephemeral-storage") if RESOURCES.contains(&resource) => "local ephemeral storage",
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
