//! What is kept of the metadata of an object.

use k8s_openapi::jiff::Timestamp;
use kubecontroller::object::{Owner, Pairs, SlimOwner};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

/// What is kept of the metadata of an object. By which rule it lives is found out when it is read; what that took is
/// forgotten then.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: Box<str>,
    pub(crate) namespace: Box<str>,
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: Box<str>,
    pub(crate) generation: i64,
    pub(crate) creation_timestamp: Option<Timestamp>,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    #[serde(rename = "deletionGracePeriodSeconds")]
    pub(crate) grace: Option<u32>,
    pub(crate) labels: Pairs,
    pub(crate) annotations: Pairs,
    pub(crate) owner_references: Vec<SlimOwner>,
    /// Whether finalizers hold it back from going.
    #[serde(rename = "finalizers", deserialize_with = "is_some")]
    pub(crate) is_held: bool,
}

impl Meta {
    pub(crate) fn owners(&self) -> impl Iterator<Item = Owner<'_>> {
        self.owner_references.iter().map(|owner| Owner {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controls: owner.controller == Some(true),
        })
    }
}

fn is_some<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let finalizers = Option::<Vec<IgnoredAny>>::deserialize(from)?;
    Ok(finalizers.is_some_and(|finalizers| !finalizers.is_empty()))
}

macro_rules! object {
    ($type:ty) => {
        impl kubecontroller::object::Object for $type {
            fn name(&self) -> &str {
                &self.metadata.name
            }

            fn namespace(&self) -> &str {
                &self.metadata.namespace
            }

            fn uid(&self) -> &str {
                &self.metadata.uid
            }

            fn resource_version(&self) -> &str {
                &self.metadata.resource_version
            }

            fn generation(&self) -> Option<i64> {
                Some(self.metadata.generation)
            }

            fn is_going(&self) -> bool {
                self.metadata.deletion_timestamp.is_some()
            }

            fn label(&self, name: &str) -> Option<&str> {
                self.metadata.labels.get(name)
            }

            fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
                self.metadata.labels.iter()
            }

            fn annotation(&self, name: &str) -> Option<&str> {
                self.metadata.annotations.get(name)
            }

            fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
                self.metadata.annotations.iter()
            }

            fn owners(&self) -> impl Iterator<Item = kubecontroller::object::Owner<'_>> {
                self.metadata.owners()
            }

            fn finalizers(&self) -> impl Iterator<Item = &str> {
                std::iter::empty()
            }
        }
    };
}
pub(crate) use object;
