//! What is kept of the metadata of an object.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::StringMap;

/// What a framework reads of the metadata of an object, however it is kept.
pub trait Metadata {
    /// The name.
    fn name(&self) -> &str;
    /// The namespace; empty for cluster-wide objects.
    fn namespace(&self) -> &str;
    /// What tells it apart from others that had its name.
    fn uid(&self) -> &str;
    /// The version of its last change.
    fn resource_version(&self) -> &str;
    /// Its generation, if its kind counts them.
    fn generation(&self) -> Option<i64>;
    /// Whether it is going.
    fn is_terminating(&self) -> bool;
    /// Its labels, in order.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)>;
    /// Its annotations, in order.
    fn annotations(&self) -> impl Iterator<Item = (&str, &str)>;
    /// Its owners.
    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>>;
    /// Its finalizers.
    fn finalizers(&self) -> impl Iterator<Item = &str>;

    /// A label.
    fn label(&self, name: &str) -> Option<&str> {
        self.labels()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }

    /// An annotation.
    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }
}

/// An owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRef<'object> {
    /// Group and version of its kind.
    pub api_version: &'object str,
    /// Its kind.
    pub kind: &'object str,
    /// Its name. It is in the namespace of the object, or in none.
    pub name: &'object str,
    /// Its uid.
    pub uid: &'object str,
    /// Whether it is the one that controls the object.
    pub controls: bool,
}

/// The part of the metadata that a framework needs. Everything else of it is skipped when an object is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimMeta {
    /// The name.
    pub name: String,
    /// The namespace; empty for cluster-wide objects.
    pub namespace: String,
    /// What tells it apart from others that had its name.
    pub uid: String,
    /// The version of its last change.
    pub resource_version: String,
    /// Its generation, if its kind counts them.
    pub generation: Option<i64>,
    /// When it began to go.
    pub deletion_timestamp: Option<String>,
    /// Its labels.
    pub labels: StringMap,
    /// Its annotations, but not the copy of the object that `kubectl apply` keeps in one.
    #[serde(deserialize_with = "annotations")]
    pub annotations: StringMap,
    /// Its owners.
    pub owner_references: Vec<SlimOwnerReference>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimOwnerReference {
    /// Group and version of its kind.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is the one that controls the object.
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

/// The annotation in which `kubectl apply` keeps a copy of the object: as large as all the rest, and nobody's business.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotations<'de, D: Deserializer<'de>>(from: D) -> Result<StringMap, D::Error> {
    StringMap::read_without(from, LAST_APPLIED)
}

// --- SlimOwnerReference ---

impl SlimOwnerReference {
    /// As it is told of an object.
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
