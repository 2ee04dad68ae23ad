//! CSIStorageCapacity: the capacity of a storage class in one topology segment.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::{core::node_selector, field_checks, label_selector},
    name::NameFormat,
    selector::label::{InvalidValues, UnknownOperators, validate as validate_selector},
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree},
};

pub(super) struct CsiStorageCapacity;

// upstream: pkg/registry/storage/csistoragecapacity/strategy.go csiStorageCapacityStrategy
impl RestStrategy for CsiStorageCapacity {
    // upstream: pkg/apis/storage/validation/validation.go ValidateCSIStorageCapacity
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_csi_storage_capacity(object, InvalidValues::Refused, errors);
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateCSIStorageCapacityUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let mut old_errors = ErrorList::new();
        validate_node_topology(old, InvalidValues::Refused, &mut old_errors);
        let values = if old_errors.is_empty() {
            InvalidValues::Refused
        } else {
            InvalidValues::Taken
        };
        validate_csi_storage_capacity(new, values, errors);
        let topology = "nodeTopology";
        if new.at(topology) != old.at(topology) {
            let selector = label_selector::error_value(new.at(topology));
            errors.push(Error::invalid(
                &Path::new(topology),
                selector,
                field_checks::IMMUTABLE,
            ));
        }
        let class = "storageClassName";
        if new.text(class) != old.text(class) {
            errors.push(Error::invalid(
                &Path::new(class),
                new.text(class),
                field_checks::IMMUTABLE,
            ));
        }
    }

    // upstream: pkg/registry/storage/csistoragecapacity/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let topology = new.at("nodeTopology");
        let at = Path::new("nodeTopology");
        node_selector::warnings(topology, &at, &mut warnings);
        for label in topology.entries("matchLabels").keys() {
            if let Some(detail) = node_selector::deprecated(label) {
                warnings.push(format!("nodeTopology.matchLabels.{label}: {detail}"));
            }
        }
        warnings
    }

    // upstream: pkg/registry/storage/csistoragecapacity/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

// upstream: pkg/apis/storage/validation/validation.go ValidateCSIStorageCapacity
fn validate_node_topology(object: &Value, values: InvalidValues, errors: &mut ErrorList) {
    if object.has("nodeTopology") {
        errors.extend(validate_selector(
            &Path::new("nodeTopology"),
            object.at("nodeTopology"),
            values,
            UnknownOperators::Refused,
        ));
    }
}

// upstream: pkg/apis/storage/validation/validation.go ValidateCSIStorageCapacity
fn validate_csi_storage_capacity(object: &Value, values: InvalidValues, errors: &mut ErrorList) {
    validate_node_topology(object, values, errors);
    let class = object.text("storageClassName");
    let field_path = Path::new("storageClassName");
    field_checks::push_invalid(class, NameFormat::Subdomain.name(class), &field_path, errors);
    let capacity = field_checks::quantity_or_zero(object.at("capacity"));
    if capacity.sign().is_lt() {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(
            &Path::new("capacity"),
            capacity.to_string(),
            detail,
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejects_negative_capacity_and_missing_class() {
        let mut errors = ErrorList::new();
        validate_csi_storage_capacity(
            &json!({"storageClassName": "c", "capacity": "0"}),
            InvalidValues::Refused,
            &mut errors,
        );
        assert!(errors.is_empty());
        validate_csi_storage_capacity(
            &json!({"storageClassName": "c", "capacity": "-1"}),
            InvalidValues::Refused,
            &mut errors,
        );
        assert_eq!(
            errors[0].to_string(),
            "capacity: Invalid value: \"-1\": must be greater than or equal to 0"
        );
    }

    #[test]
    fn warns_of_deprecated_node_labels() {
        let object = json!({"nodeTopology": {"matchLabels": {"beta.kubernetes.io/os": "linux"}}});
        assert_eq!(
            CsiStorageCapacity.warnings(&object, None),
            [
                "nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use \"kubernetes.io/os\" instead"
            ]
        );
    }
}
