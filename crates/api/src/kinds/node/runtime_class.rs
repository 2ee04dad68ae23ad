//! Classes of runtimes: which handler of a node runs a pod, what that costs, and which nodes can.

use serde_json::{Value, json};

use super::{overhead, toleration};
use crate::{
    field::{Error, Path},
    kinds::faults,
    name,
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, named_row},
    time::Time,
};

/// The rules of runtime classes.
pub(super) struct RuntimeClass;

const COLUMNS: &[Column] = &[Column::name(), Column::text("Handler", ""), Column::age()];

/// Labels of nodes that have other names by now, and what to tell about them.
const OLD_LABELS: [(&str, &str); 8] = [
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
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
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
];

impl Rules for RuntimeClass {
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate_parts(object, errors);
        // What the schema asks for is told last.
        let (at, handler) = (Path::new("handler"), object.text("handler"));
        if handler.is_empty() {
            errors.push(Error::required(&at, ""));
        } else {
            faults::tell(handler, name::dns1123_label(handler), &at, errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let (at, handler) = (Path::new("handler"), new.text("handler"));
        if !handler.is_empty() {
            faults::tell(handler, name::dns1123_label(handler), &at, errors);
        }
        validate_parts(new, errors);
        faults::unchanged(new.at("handler"), old.at("handler"), &at, errors);
        if handler.is_empty() {
            errors.push(Error::required(&at, ""));
        }
    }

    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let selector = new.at("scheduling").entries("nodeSelector");
        OLD_LABELS
            .iter()
            .filter(|(label, _)| selector.contains_key(*label))
            .map(|(_, message)| format!("scheduling.nodeSelector: {message}"))
            .collect()
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.text("handler"))])
    }
}

fn validate_parts(object: &Value, errors: &mut Errors) {
    if object.has("overhead") {
        overhead::validate(object.at("overhead"), &Path::new("overhead"), errors);
    }
    let (at, scheduling) = (Path::new("scheduling"), object.at("scheduling"));
    if !scheduling.is_null() {
        let selector = scheduling.entries("nodeSelector");
        errors.extend(name::labels(&at.child("nodeSelector"), selector));
        toleration::validate_all(scheduling.items("tolerations"), &at.child("tolerations"), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kinds::builtin, rules::User};

    #[test]
    fn the_handler_stays() {
        let at = Circumstances {
            kind: builtin().kind("node.k8s.io", "v1", "RuntimeClass").unwrap(),
            now: Time::from_unix(0, 0),
            user: &User::default(),
        };
        let change = |new: Value| {
            let mut errors = Errors::new();
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
    fn old_labels_of_nodes_are_warned_about() {
        let object = json!({"scheduling": {"nodeSelector": {"beta.kubernetes.io/os": "linux", "a": "b"}}});
        assert_eq!(
            RuntimeClass.warnings(&object, None),
            ["scheduling.nodeSelector: deprecated since v1.14; use \"kubernetes.io/os\" instead"]
        );
    }
}
