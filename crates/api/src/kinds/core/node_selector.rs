//! Selectors of nodes: what is wrong with them, which labels they should no longer name, how errors show them.

use serde_json::Value;

use crate::kinds::field_checks;
use crate::{
    field::{Error, Path},
    go,
    name::{self, NameFormat},
    strategy::{ErrorList, Tree},
};

const NO_OPERATOR: &str = "not a valid selector operator";

/// Whether values that can be no label are taken, because the old object has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// They are errors.
    Checked,
    /// They are taken.
    Taken,
}

/// Labels of nodes that have another name by now, and what to say of them.
const DEPRECATED: [(&str, &str); 8] = [
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

/// What is wrong with a selector of nodes.
pub(crate) fn validate(selector: &Value, values: Values, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("nodeSelectorTerms");
    let terms = selector.items("nodeSelectorTerms");
    if terms.is_empty() {
        let detail = "must have at least one node selector term";
        errors.push(Error::required(&field_path, detail));
    }
    for (index, term) in terms.iter().enumerate() {
        validate_term(term, values, &field_path.index(index), errors);
    }
}

/// What is wrong with a term of such a selector.
pub(crate) fn validate_term(term: &Value, values: Values, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("matchExpressions");
    for (index, requirement) in term.items("matchExpressions").iter().enumerate() {
        label_requirement(requirement, values, &field_path.index(index), errors);
    }
    let field_path = at.child("matchFields");
    for (index, requirement) in term.items("matchFields").iter().enumerate() {
        field_requirement(requirement, &field_path.index(index), errors);
    }
}

fn label_requirement(requirement: &Value, taken: Values, at: &Path<'_>, errors: &mut ErrorList) {
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
        other => errors.push(Error::invalid(&at.child("operator"), other, NO_OPERATOR)),
    }
    field_checks::validate_qualified_name(requirement.text("key"), &at.child("key"), errors);
    if taken == Values::Checked {
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

/// Of the fields of a node, only its name can be asked for.
fn field_requirement(requirement: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("values");
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if requirement.items("values").len() != 1 {
                let detail =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.push(Error::required(&field_path, detail));
            }
        }
        other => errors.push(Error::invalid(&at.child("operator"), other, NO_OPERATOR)),
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

/// Whether a selector has values that can be no label.
pub(crate) fn has_invalid_values(selector: &Value) -> bool {
    selector
        .items("nodeSelectorTerms")
        .iter()
        .flat_map(|term| term.items("matchExpressions"))
        .flat_map(|requirement| requirement.texts("values"))
        .any(|value| !name::validate_label_value(value).is_empty())
}

/// What to say of a label that should no longer be used.
pub(crate) fn deprecated(label: &str) -> Option<&'static str> {
    DEPRECATED
        .iter()
        .find(|(name, _)| *name == label)
        .map(|(_, detail)| *detail)
}

/// Warnings about the labels that the requirements of a term name.
pub(crate) fn warnings(term: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    let field_path = at.child("matchExpressions");
    for (index, requirement) in term.items("matchExpressions").iter().enumerate() {
        warnings.extend(warning(requirement, &field_path.index(index)));
    }
}

/// A warning about the label that a requirement names.
pub(crate) fn warning(requirement: &Value, at: &Path<'_>) -> Option<String> {
    let key = requirement.text("key");
    deprecated(key).map(|detail| format!("{}: {key} is {detail}", at.child("key")))
}

/// A selector as errors show it: under the names and in the order that upstream declares.
pub(crate) fn printed(selector: &Value) -> String {
    format!("{{\"NodeSelectorTerms\":{}}}", printed_terms(selector))
}

/// The terms of a selector as errors show them.
pub(crate) fn printed_terms(selector: &Value) -> String {
    let terms: Vec<_> = selector
        .items("nodeSelectorTerms")
        .iter()
        .map(|term| {
            format!(
                "{{\"MatchExpressions\":{},\"MatchFields\":{}}}",
                printed_requirements(term.items("matchExpressions")),
                printed_requirements(term.items("matchFields")),
            )
        })
        .collect();
    if terms.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", terms.join(","))
    }
}

fn printed_requirements(requirements: &[Value]) -> String {
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
        validate(&selector, Values::Checked, &Path::new("required"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn operators_say_how_many_values_there_are() {
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
    fn nodes_are_picked_by_name_and_no_other_field() {
        let field_path = "required.nodeSelectorTerms[0].matchFields[0]";
        assert_eq!(
            errors(&json!({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]})),
            [format!(
                "{field_path}.key: Invalid value: \"spec.x\": not a valid field selector key"
            )]
        );
    }
}
