//! The scale of a kind that keeps a number of pods: how many are asked for, how many there are, which they are.

use serde_json::{Value, json};

use crate::{
    field::Path,
    kinds::{Kind, counts},
    rules::{Circumstances, Column, Description, Errors, Row, Rules, Tree, TreeMut, named_row},
    selector::label::Selector,
    time::Time,
};

/// The rules of scales: they are never stored, but tables show them.
pub(super) struct Scale;

/// What of the metadata of an object its scale carries.
const METADATA: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

const COLUMNS: &[Column] = &[
    Column::field("Name", "metadata.name"),
    Column::new("Desired", "integer", Description::Field("spec.replicas")),
    Column::new("Available", "integer", Description::Field("status.replicas")),
    Column::age(),
];

/// The scale of an object; `None` if objects of this kind have none.
pub fn of(kind: &Kind, object: &Value) -> Option<Value> {
    kind.subresource("scale")?;
    let spec = object.at("spec");
    let status = object.at("status");
    // A plain map of labels here, an object with expressions in all newer kinds.
    let selector = if kind.group.is_empty() {
        Selector::from_labels(spec.get("selector"))
    } else {
        Selector::from_object(spec.get("selector")).ok()?
    };
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {},
        "spec": {},
        "status": {"replicas": status.int("replicas").unwrap_or_default()},
    });
    let metadata = scale.make("metadata");
    for name in METADATA {
        metadata.copy_from(name, object.at("metadata"));
    }
    if let Some(replicas) = spec.int("replicas").filter(|replicas| *replicas != 0) {
        scale.make("spec").set("replicas", replicas);
    }
    let selector = selector.to_string();
    if !selector.is_empty() {
        scale.make("status").set("selector", selector);
    }
    Some(scale)
}

/// Gives an object the number of replicas a scale asks for, and the resourceVersion it was read at, if it names one.
pub fn set(object: &mut Value, scale: &Value) {
    let replicas = scale.at("spec").int("replicas").unwrap_or_default();
    object.make("spec").set("replicas", replicas);
    let metadata = scale.at("metadata");
    object.make("metadata").copy_from("resourceVersion", metadata);
}

impl Rules for Scale {
    fn default(&self, object: &mut Value) {
        object.make("spec");
    }

    /// Of the metadata nothing is taken over, so nothing is judged.
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        counts::validate_nonnegative_fields(object.at("spec"), &["replicas"], &Path::new("spec"), errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let replicas = |part: &str| json!(object.at(part).int("replicas").unwrap_or_default());
        named_row(object, now, [replicas("spec"), replicas("status")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin;

    fn kind(group: &str, name: &str) -> &'static Kind {
        builtin().kind(group, "v1", name).unwrap()
    }

    #[test]
    fn a_scale_shows_what_is_asked_for_and_what_is_there() {
        let deployment = json!({
            "metadata": {"name": "x", "uid": "u", "labels": {"a": "b"}, "resourceVersion": "7"},
            "spec": {
                "replicas": 3,
                "selector": {
                    "matchLabels": {"app": "a"},
                    "matchExpressions": [{"key": "z", "operator": "DoesNotExist"}],
                },
            },
            "status": {"replicas": 2},
        });
        assert_eq!(
            of(kind("apps", "Deployment"), &deployment).unwrap(),
            json!({
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": {"name": "x", "uid": "u", "resourceVersion": "7"},
                "spec": {"replicas": 3},
                "status": {"replicas": 2, "selector": "app=a,!z"},
            })
        );
        let controller = json!({"spec": {"replicas": 0, "selector": {"app": "a"}}});
        let scale = of(kind("", "ReplicationController"), &controller).unwrap();
        assert_eq!(
            (scale.at("spec"), scale.at("status")),
            (&json!({}), &json!({"replicas": 0, "selector": "app=a"}))
        );
        assert_eq!(of(kind("apps", "DaemonSet"), &json!({})), None);
    }

    #[test]
    fn a_scale_sets_the_replicas_and_nothing_else() {
        let mut set_to = json!({"metadata": {"name": "x", "resourceVersion": "7"}, "spec": {"replicas": 3}});
        set(
            &mut set_to,
            &json!({"metadata": {"name": "y", "resourceVersion": "6"}, "spec": {}}),
        );
        assert_eq!(
            set_to,
            json!({"metadata": {"name": "x", "resourceVersion": "6"}, "spec": {"replicas": 0}})
        );
    }
}
