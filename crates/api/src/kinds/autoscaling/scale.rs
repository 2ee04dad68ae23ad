//! Scale: the `scale` subresource of workloads, with desired and current replicas and the selector.

use serde_json::{Value, json};

use crate::{
    field::Path,
    kinds::{Kind, counts},
    selector::label,
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row,
    },
    time::Time,
};

pub(super) struct Scale;

/// Metadata that a Scale copies from its object.
const METADATA: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

const COLUMNS: &[Column] = &[
    Column::field("Name", "metadata.name"),
    Column::new("Desired", "integer", ColumnDescription::Field("spec.replicas")),
    Column::new(
        "Available",
        "integer",
        ColumnDescription::Field("status.replicas"),
    ),
    Column::age(),
];

/// The Scale of an object; `None` if the kind has no scale subresource.
// upstream: pkg/registry/apps/deployment/storage/storage.go scaleFromDeployment
pub fn of(kind: &Kind, object: &Value) -> Option<Value> {
    kind.subresource("scale")?;
    let spec = object.at("spec");
    let status = object.at("status");
    // ReplicationControllers have a plain map of labels, newer kinds a LabelSelector.
    let selector = if kind.group.is_empty() {
        label::from_labels(spec.get("selector"))
    } else {
        label::from_object(spec.get("selector")).ok()?
    };
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {},
        "spec": {},
        "status": {"replicas": status.int_or_zero("replicas")},
    });
    let metadata = scale.ensure_object("metadata");
    for name in METADATA {
        metadata.copy_from(name, object.at("metadata"));
    }
    if let Some(replicas) = spec.int("replicas").filter(|replicas| *replicas != 0) {
        scale.ensure_object("spec").set("replicas", replicas);
    }
    let selector = selector.to_string();
    if !selector.is_empty() {
        scale.ensure_object("status").set("selector", selector);
    }
    Some(scale)
}

/// Sets the replicas of an object from a Scale, and the resourceVersion if the Scale has one.
// upstream: pkg/registry/apps/deployment/storage/storage.go UpdatedObject
pub fn set(object: &mut Value, scale: &Value) {
    let replicas = scale.at("spec").int_or_zero("replicas");
    object.ensure_object("spec").set("replicas", replicas);
    let metadata = scale.at("metadata");
    object
        .ensure_object("metadata")
        .copy_from("resourceVersion", metadata);
}

impl RestStrategy for Scale {
    fn set_defaults(&self, object: &mut Value) {
        object.ensure_object("spec");
    }

    /// Metadata of a Scale is ignored on update, so it is not validated.
    // upstream: pkg/apis/autoscaling/validation/validation.go ValidateScale
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        counts::validate_nonnegative_fields(object.at("spec"), &["replicas"], &Path::new("spec"), errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printScale
    fn row(&self, object: &Value, now: Time) -> Row {
        let replicas = |field: &str| json!(object.at(field).int_or_zero("replicas"));
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
    fn scale_has_desired_and_current_replicas() {
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
    fn applying_a_scale_sets_only_replicas() {
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
