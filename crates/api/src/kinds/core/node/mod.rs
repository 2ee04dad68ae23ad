//! Node: a machine that runs pods.

mod annotation;
mod config;
mod taint;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::pod::resources::{quantity_or_zero, set_defaults_resource_list, validate_resource_quantity_value};
use crate::{
    apply::managed::ResetFields,
    field::{BadValue, Error, Path},
    go,
    kinds::{field_checks, go_values, reset_fields},
    name::{self, AddressStrictness},
    strategy::{Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree, TreeMut, age},
    time::Time,
};

pub(super) struct Node;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text("Status", "The status of the node"),
    Column::text("Roles", "The roles of the node"),
    Column::age(),
    Column::field("Version", "status.nodeInfo.kubeletVersion"),
    Column::field("Internal-IP", "status.addresses").wide(),
    Column::field("External-IP", "status.addresses").wide(),
    Column::field("OS-Image", "status.nodeInfo.osImage").wide(),
    Column::field("Kernel-Version", "status.nodeInfo.kernelVersion").wide(),
    Column::field("Container-Runtime", "status.nodeInfo.containerRuntimeVersion").wide(),
];

const SELECTABLE: &[SelectableField] = &[SelectableField::rule("spec.unschedulable", |node| {
    Cow::Borrowed(if node.at("spec").flag("unschedulable") {
        "true"
    } else {
        "false"
    })
})];

// upstream: pkg/registry/core/node/strategy.go nodeStrategy
impl RestStrategy for Node {
    fn set_defaults(&self, object: &mut Value) {
        if object.has("spec") {
            synchronize_pod_cidrs(object.ensure_object("spec"));
        }
        if object.has("status") {
            let status = object.ensure_object("status");
            if status.has("capacity") && !status.has("allocatable") {
                let capacity = status.at("capacity").clone();
                status.set("allocatable", capacity);
            }
            for list in ["capacity", "allocatable"] {
                if let Some(list) = status.at_mut(list) {
                    set_defaults_resource_list(list);
                }
            }
        }
    }

    /// A node may be created with a status.
    // upstream: pkg/registry/core/node/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        for (part, field) in [
            ("spec", "configSource"),
            ("spec", "podPreemptionPolicy"),
            ("status", "config"),
        ] {
            if let Some(part) = object.at_mut(part) {
                part.remove(field);
            }
        }
    }

    // upstream: pkg/registry/core/node/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("status", old);
        for field in ["configSource", "podPreemptionPolicy"] {
            if !old.at("spec").has(field)
                && let Some(spec) = new.at_mut("spec")
            {
                spec.remove(field);
            }
        }
    }

    // upstream: pkg/registry/core/node/strategy.go nodeStatusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        if !old.at("status").has("config")
            && let Some(status) = new.at_mut("status")
        {
            status.remove("config");
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateNode
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        annotation::validate_node_annotations(errors, object);
        validate_node_taints(errors, object);
        validate_node_resources(errors, object);
        let swap = object.at_path("status.nodeInfo.swap").at("capacity");
        if let Some(capacity) = swap.as_i64().filter(|capacity| *capacity <= 0) {
            let metadata = Path::new("metadata");
            let field_path = metadata.child("nodeSwapStatus");
            let detail = "must be greater than zero";
            errors.push(Error::invalid(&field_path.child("capacity"), capacity, detail));
        }
        validate_declared_features(errors, object);
        validate_pod_cidrs(errors, object.at("spec"));
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateNodeUpdate
    fn validate_update(&self, new: &Value, old: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate(new, at, errors);
        validate_node_update(errors, new, old);
    }

    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_node_update(errors, new, old);
    }

    // upstream: pkg/registry/core/node/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let spec = new.at("spec");
        let mut warnings = Vec::new();
        if spec.has("configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.text("externalID").is_empty() {
            let warning = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
            warnings.push(warning.to_owned());
        }
        let root = Path::new("spec");
        let field_path = root.child("podCIDRs");
        for (index, text) in spec.texts("podCIDRs").enumerate() {
            warnings.extend(name::cidr_warnings(&field_path.index(index), text));
        }
        warnings
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn selects_by_namespace(&self) -> bool {
        false
    }

    // upstream: pkg/registry/core/node/strategy.go NodeToSelectableFields
    fn selectable_fields(&self) -> &'static [SelectableField] {
        SELECTABLE
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printNode
    fn row(&self, object: &Value, now: Time) -> Row {
        let metadata = object.at("metadata");
        let status = object.at("status");
        let info = status.at("nodeInfo");
        let or_unknown = |name: &str| match info.text(name) {
            "" => "<unknown>".to_owned(),
            text => text.to_owned(),
        };
        let mut kernel = or_unknown("kernelVersion");
        if !info.text("architecture").is_empty() {
            kernel = format!("{kernel} ({})", info.text("architecture"));
        }
        let address = |ty: &str| {
            let address = status
                .items("addresses")
                .iter()
                .find(|address| address.text("type") == ty);
            json!(address.map_or("<none>", |address| address.text("address")))
        };
        Row::new(vec![
            json!(metadata.text("name")),
            json!(format_status(object)),
            json!(find_node_roles(metadata)),
            age(metadata.text("creationTimestamp"), now),
            json!(info.text("kubeletVersion")),
            address("InternalIP"),
            address("ExternalIP"),
            json!(or_unknown("osImage")),
            json!(kernel),
            json!(or_unknown("containerRuntimeVersion")),
        ])
    }
}

/// Synchronizes podCIDR and podCIDRs. podCIDR wins, because older clients know only it.
// upstream: pkg/apis/core/v1/conversion.go Convert_v1_NodeSpec_To_core_NodeSpec
fn synchronize_pod_cidrs(spec: &mut Value) {
    let pod_cidr = spec.text("podCIDR").to_owned();
    let first = spec.texts("podCIDRs").next().map(str::to_owned);
    match (pod_cidr.as_str(), first) {
        ("", Some(first)) => spec.set("podCIDR", first),
        ("", None) => {}
        (pod_cidr, Some(first)) if pod_cidr == first => {}
        (pod_cidr, _) => spec.set("podCIDRs", json!([pod_cidr])),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateNodeTaints
fn validate_node_taints(errors: &mut ErrorList, node: &Value) {
    // upstream: pkg/apis/core/validation/validation.go ValidateNode; the path is metadata.taints, although taints are in the spec
    let metadata = Path::new("metadata");
    taint::validate_taints(errors, &metadata.child("taints"), node.at("spec").items("taints"));
}

// upstream: pkg/apis/core/validation/validation.go ValidateNodeResources
fn validate_node_resources(errors: &mut ErrorList, node: &Value) {
    let status = node.at("status");
    let root = Path::new("status");
    for list in ["capacity", "allocatable"] {
        let field_path = root.child(list);
        for (name, value) in status.entries(list) {
            validate_resource_quantity_value(name, &quantity_or_zero(value), &field_path.child(name), errors);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateNode
fn validate_pod_cidrs(errors: &mut ErrorList, spec: &Value) {
    let root = Path::new("spec");
    let field_path = root.child("podCIDRs");
    let networks: Vec<_> = spec.texts("podCIDRs").collect();
    for (index, text) in networks.iter().enumerate() {
        errors.extend(name::validate_legacy_cidr(
            &field_path.index(index),
            text,
            AddressStrictness::Strict,
            &[],
        ));
    }
    if networks.len() < 2 {
        return;
    }
    let mut families = Vec::new();
    for (index, text) in networks.iter().enumerate() {
        let Some(subnet) = name::parse_cidr_sloppy(text) else {
            let detail = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid \
                 CIDR address: {text})"
            );
            errors.push(Error::internal(&field_path, detail));
            families.clear();
            break;
        };
        families.push(subnet.network.is_ipv6());
    }
    let both = families.contains(&true) && families.contains(&false);
    if !both || networks.len() > 2 {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(Error::invalid(&field_path, spec.at("podCIDRs").clone(), detail));
    }
}

/// Validates declaredFeatures (KEP-5328): a sorted list of feature names in CamelCase, with parts after slashes.
// upstream: pkg/apis/core/validation/validation.go validateNodeDeclaredFeatures
fn validate_declared_features(errors: &mut ErrorList, node: &Value) {
    let status = Path::new("status");
    let field_path = status.child("declaredFeatures");
    let names: Vec<_> = node.at("status").texts("declaredFeatures").collect();
    for (index, name) in names.iter().enumerate() {
        if let Some(msg) = invalid_feature_message(name) {
            let detail = format!("invalid feature name {}: {msg}", go::quote(name));
            errors.push(Error::invalid(&field_path.index(index), *name, detail));
        }
        let Some(next) = names.get(index + 1) else {
            continue;
        };
        let field_path = field_path.index(index + 1);
        if name == next {
            errors.push(Error::duplicate(&field_path, *next));
        } else if name > next {
            errors.push(Error::invalid(
                &field_path,
                *next,
                "list must be sorted alphabetically",
            ));
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateNodeDeclaredFeatureName
fn invalid_feature_message(name: &str) -> Option<&'static str> {
    if name.len() > 253 {
        return Some("must be no more than 253 characters");
    }
    let word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let fits = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(word);
    (!fits).then_some(
        "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or \
         MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
    )
}

// upstream: pkg/apis/core/validation/validation.go ValidateNodeUpdate
fn validate_node_update(errors: &mut ErrorList, new: &Value, old: &Value) {
    annotation::validate_node_annotations(errors, new);
    validate_node_resources(errors, new);
    validate_declared_features(errors, new);
    validate_addresses(errors, new);
    let root = Path::new("spec");
    let spec = new.at("spec");
    let before = old.at("spec");
    let networks = spec.items("podCIDRs");
    let old_cidrs = before.items("podCIDRs");
    if !old_cidrs.is_empty() && networks != old_cidrs {
        let field_path = root.child("podCIDRs");
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(Error::forbidden(&field_path, detail));
    }
    let provider = spec.text("providerID");
    let old_provider = before.text("providerID");
    if !old_provider.is_empty() && provider != old_provider {
        let detail = if provider.is_empty() {
            "field cannot be cleared once set"
        } else {
            "field cannot be modified once set"
        };
        errors.push(Error::invalid(&root.child("providerID"), Value::Null, detail));
    }
    if spec.has("configSource") {
        let field_path = root.child("configSource");
        config::validate_config_source(
            errors,
            &field_path,
            spec.at("configSource"),
            config::ConfigSourceHolder::Spec,
        );
    }
    config::validate_config_status(errors, new.at("status").at("config"));
    validate_node_taints(errors, new);
    if spec.text("externalID") != before.text("externalID") {
        errors.push(Error::forbidden(&root.child("externalID"), "may not be updated"));
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateNodeUpdate
fn validate_addresses(errors: &mut ErrorList, node: &Value) {
    let status = Path::new("status");
    let field_path = status.child("addresses");
    let addresses = node.at("status").items("addresses");
    let key = |address: &'_ Value| ["type", "address"].map(|name| address.text(name).to_owned());
    let repeated = field_checks::duplicate_flags(addresses.iter().map(key));
    for (index, address) in addresses.iter().enumerate() {
        if repeated[index] {
            let address_value = BadValue::Printed(go_values::internal_json("core", "NodeAddress", address));
            errors.push(Error::duplicate(&field_path.index(index), address_value));
        }
    }
}

/// The status column, such as `Ready,SchedulingDisabled`.
// upstream: pkg/printers/internalversion/printers.go printNode
fn format_status(node: &Value) -> String {
    let conditions = node.at("status").items("conditions");
    let ready = conditions
        .iter()
        .rev()
        .find(|condition| condition.text("type") == "Ready");
    let status = match ready.map(|condition| condition.text("status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    if node.at("spec").flag("unschedulable") {
        format!("{status},SchedulingDisabled")
    } else {
        status.to_owned()
    }
}

/// The roles from the labels of a node.
// upstream: pkg/printers/internalversion/printers.go findNodeRoles
fn find_node_roles(metadata: &Value) -> String {
    let mut roles: Vec<_> = metadata
        .entries("labels")
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == ROLE_LABEL => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

#[cfg(test)]
mod tests;
