//! Dynamic kubelet configuration of a node. The feature was removed; stored objects stay valid.

use serde_json::Value;

use crate::{
    field::{BadValue, Error, Path},
    kinds::field_checks::push_invalid,
    name,
    strategy::{ErrorList, Tree},
};

/// The holder of a config source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigSourceHolder {
    /// The spec: the version must not be set.
    Spec,
    /// The status: the version must be set.
    Status,
}

// upstream: pkg/apis/core/validation/validation.go validateNodeConfigSourceSpec, validateNodeConfigSourceStatus
pub(super) fn validate_config_source(
    errors: &mut ErrorList,
    at: &Path<'_>,
    source: &Value,
    holder: ConfigSourceHolder,
) {
    let map = source.at("configMap");
    if map.is_null() {
        let source_value = BadValue::Printed("{\"ConfigMap\":null}".to_owned());
        let detail = "exactly one reference subfield must be non-nil";
        errors.push(Error::invalid(at, source_value, detail));
        return;
    }
    let root = at.child("configMap");
    for name in ["uid", "resourceVersion"] {
        match (holder, map.text(name).is_empty()) {
            (ConfigSourceHolder::Spec, false) => {
                let detail = format!("{name} must not be set in spec");
                errors.push(Error::forbidden(&root.child(name), detail));
            }
            (ConfigSourceHolder::Status, true) => errors.push(Error::required(&root.child(name), "")),
            _ => {}
        }
    }
    for field in ["namespace", "name", "kubeletConfigKey"] {
        let field_path = root.child(field);
        let text = map.text(field);
        let msgs = match field {
            _ if text.is_empty() => {
                errors.push(Error::required(&field_path, ""));
                continue;
            }
            "namespace" => name::validate_dns1123_label(text),
            "name" => name::validate_dns1123_subdomain(text),
            _ => name::validate_config_key(text),
        };
        push_invalid(text, msgs, &field_path, errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateNodeConfigStatus
pub(super) fn validate_config_status(errors: &mut ErrorList, config: &Value) {
    let root = Path::new("status");
    let root = root.child("config");
    for name in ["assigned", "active", "lastKnownGood"] {
        if config.has(name) {
            validate_config_source(
                errors,
                &root.child(name),
                config.at(name),
                ConfigSourceHolder::Status,
            );
        }
    }
}
