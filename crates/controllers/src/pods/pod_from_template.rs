//! Pods created from templates.

use std::collections::BTreeMap;

use k3_workloads::OwnerReference;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::objects::Template;

/// A pod to create. Controllers add what their pods have beyond the template.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFromTemplate<'t> {
    api_version: &'static str,
    kind: &'static str,
    /// The metadata.
    pub metadata: NewPodMeta,
    /// The spec, as the template has it.
    pub spec: &'t RawValue,
}

/// Metadata of an object to create.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewPodMeta {
    /// The name, if the controller chooses it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// How the name begins, if the server makes it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub generate_name: Box<str>,
    /// The labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Finalizers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<Box<str>>,
    /// The owners.
    pub owner_references: Vec<OwnerReference>,
}

/// Why no pod can be created from a template.
#[derive(Debug, thiserror::Error)]
pub enum PodTemplateError {
    /// Its selector could never find the pod again.
    #[error("unable to create pods, no labels")]
    NoLabels,
    /// The template is not one.
    #[error("unable to create pods: {0}")]
    Template(#[from] serde_json::Error),
}

// --- NewPod ---

impl<'t> PodFromTemplate<'t> {
    /// A pod of a template, controlled by an owner and named after it.
    // upstream: pkg/controller/controller_utils.go GetPodFromTemplate, getPodsPrefix
    pub fn new(template: &'t Template, owner: OwnerReference) -> Result<Self, PodTemplateError> {
        let parts = template.parts()?;
        if parts.metadata.labels.is_empty() {
            return Err(PodTemplateError::NoLabels);
        }
        Ok(PodFromTemplate {
            api_version: "v1",
            kind: "Pod",
            metadata: NewPodMeta {
                name: Box::default(),
                generate_name: format!("{}-", owner.name).into(),
                labels: parts.metadata.labels,
                annotations: parts.metadata.annotations,
                finalizers: parts.metadata.finalizers,
                owner_references: vec![owner],
            },
            spec: parts.spec.unwrap_or(RawValue::NULL),
        })
    }

    /// The pod as JSON. It is the same for all pods with generated names, so it is serialized once for all of them.
    pub fn to_raw(&self) -> Result<Box<RawValue>, PodTemplateError> {
        Ok(serde_json::value::to_raw_value(self)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use k3_workloads::ObjectMeta;

    use crate::resource;

    fn owner() -> OwnerReference {
        let meta = ObjectMeta {
            name: "web".into(),
            uid: "u1".into(),
            ..ObjectMeta::default()
        };
        resource::REPLICA_SETS.controller_reference(&meta)
    }

    #[test]
    fn builds_a_pod_from_a_template() {
        let template = Template::new(&json!({
            "metadata": {"labels": {"app": "a"}, "annotations": {"n": "1"}, "finalizers": ["f/x"], "name": "ignored"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }));
        let template = template.unwrap();
        let text = PodFromTemplate::new(&template, owner())
            .unwrap()
            .to_raw()
            .unwrap();
        let pod: Value = serde_json::from_str(text.get()).unwrap();
        assert_eq!(
            pod,
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "generateName": "web-",
                    "labels": {"app": "a"},
                    "annotations": {"n": "1"},
                    "finalizers": ["f/x"],
                    "ownerReferences": [{
                        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1",
                        "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            })
        );
    }

    #[test]
    fn rejects_a_template_without_labels() {
        let template = Template::new(&json!({"spec": {}})).unwrap();
        let refused = PodFromTemplate::new(&template, owner()).unwrap_err();
        assert_eq!(refused.to_string(), "unable to create pods, no labels");
    }
}
