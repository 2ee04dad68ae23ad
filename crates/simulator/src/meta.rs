//! The cached part of an object's metadata.

use k8s_openapi::jiff::Timestamp;
use kubecontroller::object::{Metadata, OwnerRef, SlimOwnerReference, StringMap};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

/// The cached part of an object's metadata.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ObjectMetaFields")]
pub(crate) struct ObjectMeta {
    pub(crate) name: Box<str>,
    pub(crate) namespace: Box<str>,
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: Box<str>,
    pub(crate) generation: i64,
    /// Set while the object is terminating.
    pub(crate) deletion: Option<Box<Deletion>>,
    /// Whether finalizers block the deletion.
    pub(crate) has_finalizers: bool,
    /// Dropped from pods once their rule is known, to save memory.
    pub(crate) rule_inputs: Option<Box<RuleInputs>>,
}

/// The deletion of a terminating object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) at: Timestamp,
    /// The grace period in seconds.
    pub(crate) grace: u32,
}

/// The fields that select the rule of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleInputs {
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) labels: StringMap,
    pub(crate) annotations: StringMap,
    pub(crate) owners: Vec<SlimOwnerReference>,
}

/// Metadata in the API's format.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectMetaFields {
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
    generation: i64,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: Option<u32>,
    labels: StringMap,
    annotations: StringMap,
    owner_references: Vec<SlimOwnerReference>,
    #[serde(rename = "finalizers", deserialize_with = "is_not_empty")]
    has_finalizers: bool,
}

impl From<ObjectMetaFields> for ObjectMeta {
    fn from(fields: ObjectMetaFields) -> Self {
        let grace = fields.deletion_grace_period_seconds.unwrap_or_default();
        let deletion = fields
            .deletion_timestamp
            .map(|at| Box::new(Deletion { at, grace }));
        let rule_inputs = RuleInputs {
            created_at: fields.creation_timestamp,
            labels: fields.labels,
            annotations: fields.annotations,
            owners: fields.owner_references,
        };
        ObjectMeta {
            name: fields.name,
            namespace: fields.namespace,
            uid: fields.uid,
            resource_version: fields.resource_version,
            generation: fields.generation,
            deletion,
            has_finalizers: fields.has_finalizers,
            rule_inputs: Some(Box::new(rule_inputs)),
        }
    }
}

impl ObjectMeta {
    /// The creation time, or `None` once it was dropped.
    pub(crate) fn created_at(&self) -> Option<Timestamp> {
        self.rule_inputs.as_ref()?.created_at
    }
}

impl Metadata for ObjectMeta {
    fn name(&self) -> &str {
        &self.name
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn generation(&self) -> Option<i64> {
        Some(self.generation)
    }

    fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rule_inputs
            .iter()
            .flat_map(|rule_inputs| rule_inputs.labels.iter())
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rule_inputs
            .iter()
            .flat_map(|rule_inputs| rule_inputs.annotations.iter())
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        let owners = self
            .rule_inputs
            .iter()
            .flat_map(|rule_inputs| &rule_inputs.owners);
        owners.map(SlimOwnerReference::as_owner)
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.rule_inputs.as_ref()?.labels.get(name)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.rule_inputs.as_ref()?.annotations.get(name)
    }
}

fn is_not_empty<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let finalizers = Option::<Vec<IgnoredAny>>::deserialize(from)?;
    Ok(finalizers.is_some_and(|finalizers| !finalizers.is_empty()))
}
