//! CSI storage capacities: how much a class can still give to some nodes.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::{core::node_selector, field_checks, label_selector},
    name::Rule,
    rules::{Circumstances, Errors, Rules, Tree},
    selector::label::{InvalidValues, UnknownOperators, validate as validate_selector},
};

/// The rules of CSI storage capacities.
pub(super) struct CsiStorageCapacity;

impl Rules for CsiStorageCapacity {
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(object, InvalidValues::Refused, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let mut msgs = Errors::new();
        topology(old, InvalidValues::Refused, &mut msgs);
        let values = if msgs.is_empty() {
            InvalidValues::Refused
        } else {
            InvalidValues::Taken
        };
        validate(new, values, errors);
        let topology = "nodeTopology";
        if new.at(topology) != old.at(topology) {
            let shown = label_selector::error_value(new.at(topology));
            errors.push(Error::invalid(
                &Path::new(topology),
                shown,
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

    fn updates_unconditionally(&self) -> bool {
        false
    }
}

fn topology(object: &Value, values: InvalidValues, errors: &mut Errors) {
    if object.has("nodeTopology") {
        errors.extend(validate_selector(
            &Path::new("nodeTopology"),
            object.at("nodeTopology"),
            values,
            UnknownOperators::Refused,
        ));
    }
}

fn validate(object: &Value, values: InvalidValues, errors: &mut Errors) {
    topology(object, values, errors);
    let class = object.text("storageClassName");
    let field_path = Path::new("storageClassName");
    field_checks::push_invalid(class, Rule::Subdomain.name(class), &field_path, errors);
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
    fn a_capacity_names_a_class_and_is_not_negative() {
        let mut errors = Errors::new();
        validate(
            &json!({"storageClassName": "c", "capacity": "0"}),
            InvalidValues::Refused,
            &mut errors,
        );
        assert!(errors.is_empty());
        validate(
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
    fn old_names_of_labels_are_warned_of() {
        let object = json!({"nodeTopology": {"matchLabels": {"beta.kubernetes.io/os": "linux"}}});
        assert_eq!(
            CsiStorageCapacity.warnings(&object, None),
            [
                "nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use \"kubernetes.io/os\" instead"
            ]
        );
    }
}
