//! NodeSelector: validation, warnings of deprecated labels, and its text in errors.

use serde_json::Value;

use crate::kinds::field_checks;
use crate::{
    field::{Error, Path},
    go,
    name::{self, NameFormat},
    strategy::{ErrorList, Tree},
};

const INVALID_OPERATOR: &str = "not a valid selector operator";

/// Whether invalid label values are tolerated because the old object has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidSelectorValues {
    /// They are errors.
    Checked,
    /// They are tolerated.
    Taken,
}

/// Deprecated node labels and the warning of each.
// upstream: pkg/api/node/util.go GetNodeLabelDeprecatedMessage
const DEPRECATED_LABELS: [(&str, &str); 8] = [
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
];

// upstream: pkg/apis/core/validation/validation.go ValidateNodeSelector
pub(crate) fn validate_node_selector(
    selector: &Value,
    values: InvalidSelectorValues,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let field_path = at.child("nodeSelectorTerms");
    let terms = selector.items("nodeSelectorTerms");
    if terms.is_empty() {
        let detail = "must have at least one node selector term";
        errors.push(Error::required(&field_path, detail));
    }
    for (index, term) in terms.iter().enumerate() {
        validate_node_selector_term(term, values, &field_path.index(index), errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateNodeSelectorTerm
pub(crate) fn validate_node_selector_term(
    term: &Value,
    values: InvalidSelectorValues,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let field_path = at.child("matchExpressions");
    for (index, requirement) in term.items("matchExpressions").iter().enumerate() {
        validate_label_requirement(requirement, values, &field_path.index(index), errors);
    }
    let field_path = at.child("matchFields");
    for (index, requirement) in term.items("matchFields").iter().enumerate() {
        validate_field_requirement(requirement, &field_path.index(index), errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateNodeSelectorRequirement
fn validate_label_requirement(
    requirement: &Value,
    invalid_values: InvalidSelectorValues,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let values = requirement.items("values");
    let field_path = at.child("values");
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if values.is_empty() {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(Error::required(&field_path, detail));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Error::forbidden(&field_path, detail));
            }
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(Error::required(&field_path, detail));
            }
        }
        other => errors.push(Error::invalid(&at.child("operator"), other, INVALID_OPERATOR)),
    }
    field_checks::validate_qualified_name(requirement.text("key"), &at.child("key"), errors);
    if invalid_values == InvalidSelectorValues::Checked {
        for (index, value) in requirement.texts("values").enumerate() {
            field_checks::push_invalid(
                value,
                name::validate_label_value(value),
                &field_path.index(index),
                errors,
            );
        }
    }
}

/// Only the name of a node can be selected by field.
// upstream: pkg/apis/core/validation/validation.go ValidateNodeFieldSelectorRequirement
fn validate_field_requirement(requirement: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("values");
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if requirement.items("values").len() != 1 {
                let detail =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.push(Error::required(&field_path, detail));
            }
        }
        other => errors.push(Error::invalid(&at.child("operator"), other, INVALID_OPERATOR)),
    }
    let key = requirement.text("key");
    if key != "metadata.name" {
        errors.push(Error::invalid(
            &at.child("key"),
            key,
            "not a valid field selector key",
        ));
        return;
    }
    for (index, value) in requirement.texts("values").enumerate() {
        field_checks::push_invalid(
            value,
            NameFormat::Subdomain.name(value),
            &field_path.index(index),
            errors,
        );
    }
}

/// Whether a selector has invalid label values.
pub(crate) fn has_invalid_values(selector: &Value) -> bool {
    selector
        .items("nodeSelectorTerms")
        .iter()
        .flat_map(|term| term.items("matchExpressions"))
        .flat_map(|requirement| requirement.texts("values"))
        .any(|value| !name::validate_label_value(value).is_empty())
}

/// The warning of a deprecated label.
// upstream: pkg/api/node/util.go GetNodeLabelDeprecatedMessage
pub(crate) fn deprecated_label_message(label: &str) -> Option<&'static str> {
    DEPRECATED_LABELS
        .iter()
        .find(|(name, _)| *name == label)
        .map(|(_, detail)| *detail)
}

/// Warnings about the labels in the requirements of a term.
// upstream: pkg/api/node/util.go GetWarningsForNodeSelectorTerm
pub(crate) fn get_warnings_for_term(term: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    let field_path = at.child("matchExpressions");
    for (index, requirement) in term.items("matchExpressions").iter().enumerate() {
        warnings.extend(get_warning_for_requirement(requirement, &field_path.index(index)));
    }
}

/// A warning about the label of a requirement.
pub(crate) fn get_warning_for_requirement(requirement: &Value, at: &Path<'_>) -> Option<String> {
    let key = requirement.text("key");
    deprecated_label_message(key).map(|detail| format!("{}: {key} is {detail}", at.child("key")))
}

/// A selector as the value of an error: the internal type has no JSON tags.
pub(crate) fn to_go_json(selector: &Value) -> String {
    format!("{{\"NodeSelectorTerms\":{}}}", terms_to_go_json(selector))
}

pub(crate) fn terms_to_go_json(selector: &Value) -> String {
    let terms: Vec<_> = selector
        .items("nodeSelectorTerms")
        .iter()
        .map(|term| {
            format!(
                "{{\"MatchExpressions\":{},\"MatchFields\":{}}}",
                requirements_to_go_json(term.items("matchExpressions")),
                requirements_to_go_json(term.items("matchFields")),
            )
        })
        .collect();
    if terms.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", terms.join(","))
    }
}

fn requirements_to_go_json(requirements: &[Value]) -> String {
    if requirements.is_empty() {
        return "null".to_owned();
    }
    let texts: Vec<_> = requirements
        .iter()
        .map(|requirement| {
            format!(
                "{{\"Key\":{},\"Operator\":{},\"Values\":{}}}",
                go::json_string(requirement.text("key")),
                go::json_string(requirement.text("operator")),
                go::json(requirement.at("values")),
            )
        })
        .collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(term: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        let selector = json!({"nodeSelectorTerms": [term]});
        validate_node_selector(
            &selector,
            InvalidSelectorValues::Checked,
            &Path::new("required"),
            &mut errors,
        );
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn validates_the_number_of_values() {
        let of = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]});
        assert!(errors(&of("In", json!(["a"]))).is_empty());
        let field_path = "required.nodeSelectorTerms[0].matchExpressions[0]";
        assert_eq!(
            errors(&of("NotIn", json!([]))),
            [format!(
                "{field_path}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            )]
        );
        assert_eq!(
            errors(&of("Gt", json!(["1", "2"]))),
            [format!(
                "{field_path}.values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
            )]
        );
        assert_eq!(
            errors(&of("Like", json!([]))),
            [format!(
                "{field_path}.operator: Invalid value: \"Like\": not a valid selector operator"
            )]
        );
    }

    #[test]
    fn rejects_fields_other_than_the_name() {
        let field_path = "required.nodeSelectorTerms[0].matchFields[0]";
        assert_eq!(
            errors(&json!({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]})),
            [format!(
                "{field_path}.key: Invalid value: \"spec.x\": not a valid field selector key"
            )]
        );
    }
}
