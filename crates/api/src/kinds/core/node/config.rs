//! Where a node's agent was once told to find its configuration. The feature is gone; what is stored stays valid.

use serde_json::Value;

use crate::{
    field::{BadValue, Error, Path},
    kinds::field_checks::push_invalid,
    name,
    strategy::{ErrorList, Tree},
};

/// Who names the configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The user: which version of it is not said.
    Spec,
    /// The node: which version of it is known.
    Status,
}

/// What is wrong with the source of a configuration.
pub(super) fn source(errors: &mut ErrorList, at: &Path<'_>, source: &Value, field_path: Place) {
    let map = source.at("configMap");
    if map.is_null() {
        let shown = BadValue::Printed("{\"ConfigMap\":null}".to_owned());
        let detail = "exactly one reference subfield must be non-nil";
        errors.push(Error::invalid(at, shown, detail));
        return;
    }
    let root = at.child("configMap");
    for name in ["uid", "resourceVersion"] {
        match (field_path, map.text(name).is_empty()) {
            (Place::Spec, false) => {
                let detail = format!("{name} must not be set in spec");
                errors.push(Error::forbidden(&root.child(name), detail));
            }
            (Place::Status, true) => errors.push(Error::required(&root.child(name), "")),
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

/// What is wrong with the configurations a node uses.
pub(super) fn status(errors: &mut ErrorList, config: &Value) {
    let root = Path::new("status");
    let root = root.child("config");
    for name in ["assigned", "active", "lastKnownGood"] {
        if config.has(name) {
            source(errors, &root.child(name), config.at(name), Place::Status);
        }
    }
}
