//! RuntimeClass: the handler of a node that runs a pod, its overhead, and the nodes that support it.

use serde_json::{Value, json};

use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{
        core::{node_selector, pod},
        field_checks,
    },
    name,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, named_row},
    time::Time,
};

pub(super) struct RuntimeClass;

const COLUMNS: &[Column] = &[Column::name(), Column::text("Handler", ""), Column::age()];

/// The fields that identify a toleration.
const TOLERATION_KEY: [&str; 4] = ["key", "operator", "value", "effect"];

// upstream: pkg/registry/node/runtimeclass/strategy.go strategy
impl RestStrategy for RuntimeClass {
    // upstream: pkg/apis/node/validation/validation.go ValidateRuntimeClass
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_overhead_and_scheduling(object, errors);
        // Declarative validation runs after the hand-written one, so its errors are last.
        let at = Path::new("handler");
        let handler = object.text("handler");
        if handler.is_empty() {
            errors.push(Error::required(&at, ""));
        } else {
            field_checks::push_invalid(handler, name::validate_dns1123_label(handler), &at, errors);
        }
    }

    // upstream: pkg/apis/node/validation/validation.go ValidateRuntimeClassUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let at = Path::new("handler");
        let handler = new.text("handler");
        if !handler.is_empty() {
            field_checks::push_invalid(handler, name::validate_dns1123_label(handler), &at, errors);
        }
        validate_overhead_and_scheduling(new, errors);
        field_checks::validate_immutable_hiding_value(new.at("handler"), old.at("handler"), &at, errors);
        if handler.is_empty() {
            errors.push(Error::required(&at, ""));
        }
    }

    // upstream: pkg/registry/node/runtimeclass/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let selector = new.at("scheduling").entries("nodeSelector");
        selector
            .keys()
            .filter_map(|label| node_selector::deprecated(label))
            .map(|message| format!("scheduling.nodeSelector: {message}"))
            .collect()
    }

    // upstream: pkg/registry/node/runtimeclass/strategy.go AllowCreateOnUpdate
    fn allow_create_on_update(&self) -> bool {
        true
    }

    // upstream: pkg/registry/node/runtimeclass/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printRuntimeClass
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.text("handler"))])
    }
}

// upstream: pkg/apis/node/validation/validation.go ValidateRuntimeClass, validateOverhead, validateScheduling
fn validate_overhead_and_scheduling(object: &Value, errors: &mut ErrorList) {
    if object.has("overhead") {
        let amounts = object.at("overhead").at("podFixed");
        pod::validate_overhead(amounts, &Path::new("overhead"), errors);
    }
    let at = Path::new("scheduling");
    let scheduling = object.at("scheduling");
    if !scheduling.is_null() {
        let selector = scheduling.entries("nodeSelector");
        errors.extend(name::validate_labels(&at.child("nodeSelector"), selector));
        validate_tolerations(scheduling.items("tolerations"), &at.child("tolerations"), errors);
    }
}

/// Validates tolerations and rejects duplicates.
// upstream: pkg/apis/node/validation/validation.go validateTolerations
fn validate_tolerations(tolerations: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    pod::validate_runtime_class_tolerations(tolerations, at, errors);
    let key = |toleration: &Value| TOLERATION_KEY.map(|field| toleration.text(field).to_owned());
    let duplicates = field_checks::duplicate_flags(tolerations.iter().map(key));
    for (index, toleration) in tolerations.iter().enumerate() {
        if duplicates[index] {
            errors.push(Error::duplicate(&at.index(index), toleration_value(toleration)));
        }
    }
}

/// A toleration as the value of an error: the internal type has no JSON tags.
fn toleration_value(toleration: &Value) -> BadValue {
    let [key, operator, value, effect] = TOLERATION_KEY.map(|field| go::json_string(toleration.text(field)));
    let seconds = toleration.at("tolerationSeconds");
    BadValue::Printed(format!(
        "{{\"Key\":{key},\"Operator\":{operator},\"Value\":{value},\"Effect\":{effect},\"TolerationSeconds\":{seconds}}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kinds::builtin, strategy::User};

    #[test]
    fn rejects_a_change_of_the_handler() {
        let at = StrategyContext {
            kind: builtin().kind("node.k8s.io", "v1", "RuntimeClass").unwrap(),
            now: Time::from_unix(0, 0),
            user: &User::default(),
        };
        let change = |new: Value| {
            let mut errors = ErrorList::new();
            RuntimeClass.validate_update(&new, &json!({"handler": "a"}), &at, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(change(json!({"handler": "a"})), [""; 0]);
        assert_eq!(
            change(json!({"handler": "b"})),
            ["handler: Invalid value: null: field is immutable"]
        );
    }

    #[test]
    fn warns_of_deprecated_node_labels() {
        let object = json!({"scheduling": {"nodeSelector": {"beta.kubernetes.io/os": "linux", "a": "b"}}});
        assert_eq!(
            RuntimeClass.warnings(&object, None),
            ["scheduling.nodeSelector: deprecated since v1.14; use \"kubernetes.io/os\" instead"]
        );
    }

    #[test]
    fn rejects_duplicate_and_numeric_tolerations() {
        let errors = |tolerations: &[Value]| {
            let mut errors = ErrorList::new();
            validate_tolerations(tolerations, &Path::new("t"), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let one = json!({"key": "a", "effect": "NoExecute", "tolerationSeconds": 1});
        let other = json!({"key": "a", "effect": "NoExecute"});
        assert_eq!(
            errors(&[one, other]),
            [
                "t[1]: Duplicate value: {\"Key\":\"a\",\"Operator\":\"\",\"Value\":\"\",\"Effect\":\"NoExecute\",\
              \"TolerationSeconds\":null}"
            ]
        );
        assert_eq!(
            errors(&[json!({"key": "a", "operator": "Lt", "value": "1"})]),
            [
                "t[0].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\""
            ]
        );
    }

    #[test]
    fn reports_overhead_errors_at_limits() {
        let object = json!({"overhead": {"podFixed": {"cpu": "-1", "hugepages-2Mi": "2Mi", "pods": "1"}}});
        let mut errors = ErrorList::new();
        validate_overhead_and_scheduling(&object, &mut errors);
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "overhead.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers",
            ]
        );
    }
}
