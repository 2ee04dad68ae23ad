//! What is kept of the metadata of an object.

use k8s_openapi::jiff::Timestamp;
use kubecontroller::object::{Metadata, OwnerRef, SlimOwnerReference, StringMap};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

/// What is kept of the metadata of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "WrittenMeta")]
pub(crate) struct ObjectMeta {
    pub(crate) name: Box<str>,
    pub(crate) namespace: Box<str>,
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: Box<str>,
    pub(crate) generation: i64,
    /// There if it is to go.
    pub(crate) deletion: Option<Box<Deletion>>,
    /// Whether finalizers block its deletion.
    pub(crate) is_held: bool,
    /// What is needed once, to find out by which rule it lives, and then forgotten for those of which there are many.
    pub(crate) origin: Option<Box<RuleInputs>>,
}

/// When an object is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) at: Timestamp,
    /// How much time it was given until then, in seconds.
    pub(crate) grace: u32,
}

/// Where an object comes from.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleInputs {
    pub(crate) made: Option<Timestamp>,
    pub(crate) labels: StringMap,
    pub(crate) annotations: StringMap,
    pub(crate) owners: Vec<SlimOwnerReference>,
}

/// Metadata as it is decoded.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenMeta {
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
    #[serde(rename = "finalizers", deserialize_with = "is_some")]
    is_held: bool,
}

impl From<WrittenMeta> for ObjectMeta {
    fn from(written: WrittenMeta) -> Self {
        let grace = written.deletion_grace_period_seconds.unwrap_or_default();
        let deletion = written
            .deletion_timestamp
            .map(|at| Box::new(Deletion { at, grace }));
        let origin = RuleInputs {
            made: written.creation_timestamp,
            labels: written.labels,
            annotations: written.annotations,
            owners: written.owner_references,
        };
        ObjectMeta {
            name: written.name,
            namespace: written.namespace,
            uid: written.uid,
            resource_version: written.resource_version,
            generation: written.generation,
            deletion,
            is_held: written.is_held,
            origin: Some(Box::new(origin)),
        }
    }
}

impl ObjectMeta {
    /// When it was made, as long as that is known.
    pub(crate) fn made(&self) -> Option<Timestamp> {
        self.origin.as_ref()?.made
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
        self.origin.iter().flat_map(|origin| origin.labels.iter())
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.origin.iter().flat_map(|origin| origin.annotations.iter())
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        let owners = self.origin.iter().flat_map(|origin| &origin.owners);
        owners.map(SlimOwnerReference::as_owner)
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.origin.as_ref()?.labels.get(name)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.origin.as_ref()?.annotations.get(name)
    }
}

fn is_some<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let finalizers = Option::<Vec<IgnoredAny>>::deserialize(from)?;
    Ok(finalizers.is_some_and(|finalizers| !finalizers.is_empty()))
}
