//! The metadata of objects.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::StringMap;

/// Read access to the metadata of an object, in whatever form it is stored.
pub trait Metadata {
    /// `metadata.name`
    fn name(&self) -> &str;
    /// `metadata.namespace`; empty for cluster-scoped objects.
    fn namespace(&self) -> &str;
    /// `metadata.uid`
    fn uid(&self) -> &str;
    /// `metadata.resourceVersion`
    fn resource_version(&self) -> &str;
    /// `metadata.generation`; `None` for kinds without one.
    fn generation(&self) -> Option<i64>;
    /// Whether `metadata.deletionTimestamp` is set.
    fn is_terminating(&self) -> bool;
    /// The labels, ordered by name.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)>;
    /// The annotations, ordered by name.
    fn annotations(&self) -> impl Iterator<Item = (&str, &str)>;
    /// The owner references.
    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>>;
    /// The finalizers.
    fn finalizers(&self) -> impl Iterator<Item = &str>;

    /// The value of a label.
    fn label(&self, name: &str) -> Option<&str> {
        self.labels()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }

    /// The value of an annotation.
    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }
}

/// An owner reference, borrowed from its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRef<'object> {
    /// Group and version of the owner's kind.
    pub api_version: &'object str,
    /// The owner's kind.
    pub kind: &'object str,
    /// The owner's name. The owner is in the namespace of the object, or cluster-scoped.
    pub name: &'object str,
    /// The owner's uid.
    pub uid: &'object str,
    /// Whether the owner is the controller of the object.
    pub controls: bool,
}

/// The part of the metadata that controllers need. The rest, such as `managedFields`, is skipped while decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimMeta {
    /// The name.
    pub name: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The uid.
    pub uid: String,
    /// The resource version.
    pub resource_version: String,
    /// The generation; `None` for kinds without one.
    pub generation: Option<i64>,
    /// When deletion was requested.
    pub deletion_timestamp: Option<String>,
    /// The labels.
    pub labels: StringMap,
    /// The annotations, without `kubectl.kubernetes.io/last-applied-configuration`.
    #[serde(deserialize_with = "annotations")]
    pub annotations: StringMap,
    /// The owner references.
    pub owner_references: Vec<SlimOwnerReference>,
    /// The finalizers.
    pub finalizers: Vec<String>,
}

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimOwnerReference {
    /// Group and version of the owner's kind.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
    /// Whether the owner is the controller of the object.
    pub controller: Option<bool>,
}

// --- ObjectMeta ---

impl Metadata for ObjectMeta {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_default()
    }

    fn resource_version(&self) -> &str {
        self.resource_version.as_deref().unwrap_or_default()
    }

    fn generation(&self) -> Option<i64> {
        self.generation
    }

    fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.labels.as_ref())
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.annotations.as_ref())
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        let owners = self.owner_references.iter().flatten();
        owners.map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controls: owner.controller == Some(true),
        })
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().flatten().map(String::as_str)
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }
}

fn pairs(map: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (&str, &str)> {
    map.into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value.as_str()))
}

// --- SlimMeta ---

impl Metadata for SlimMeta {
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
        self.generation
    }

    fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter()
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter()
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.owner_references.iter().map(SlimOwnerReference::as_owner)
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().map(String::as_str)
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name)
    }
}

/// `kubectl apply` stores a copy of the object in this annotation. It doubles the memory, and no controller reads it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotations<'de, D: Deserializer<'de>>(from: D) -> Result<StringMap, D::Error> {
    StringMap::read_without(from, LAST_APPLIED)
}

// --- SlimOwnerReference ---

impl SlimOwnerReference {
    /// The reference in the form that [`Metadata::owners`] returns.
    pub fn as_owner(&self) -> OwnerRef<'_> {
        OwnerRef {
            api_version: &self.api_version,
            kind: &self.kind,
            name: &self.name,
            uid: &self.uid,
            controls: self.controller == Some(true),
        }
    }
}
