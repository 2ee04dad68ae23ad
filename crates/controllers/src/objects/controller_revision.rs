//! ControllerRevisions: identify the template of a pod, and allow rollbacks.

use k3_workloads::{ObjectMeta, projected_object};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::Template;

/// A template that a set had, or has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// A patch that sets the template of a set, as stored.
    pub data: Box<RawValue>,
    /// Counts the templates of the set: the greatest is the newest.
    pub revision: i64,
}

projected_object!(ControllerRevision);

// --- ControllerRevision ---

impl ControllerRevision {
    /// The patch that gives a set a template.
    // upstream: pkg/controller/statefulset/stateful_set_utils.go getPatch
    pub fn patch(template: &Template) -> serde_json::Result<Value> {
        let mut tree = template.tree()?;
        tree["$patch"] = "replace".into();
        Ok(serde_json::json!({"spec": {"template": tree}}))
    }

    /// The template. An empty one if there is none: no set has that.
    // upstream: pkg/controller/statefulset/stateful_set_utils.go ApplyRevision
    pub fn template(&self) -> serde_json::Result<Template> {
        let mut tree: Value = serde_json::from_str(self.data.get())?;
        let mut template = tree
            .pointer_mut("/spec/template")
            .map(Value::take)
            .unwrap_or_default();
        if let Some(fields) = template.as_object_mut() {
            fields.remove("$patch");
        }
        Template::new(&template)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn revision_restores_its_template() {
        let tree = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}});
        let template = Template::new(&tree).unwrap();
        let patch = ControllerRevision::patch(&template).unwrap();
        assert_eq!(patch["spec"]["template"]["$patch"], "replace");
        let revision: ControllerRevision =
            serde_json::from_value(json!({"metadata": {"name": "r"}, "data": patch, "revision": 3})).unwrap();
        assert_eq!(revision.template().unwrap().tree().unwrap(), tree);
        let empty = ControllerRevision::default();
        assert_eq!(empty.template().unwrap().tree().unwrap(), Value::Null);
    }
}
