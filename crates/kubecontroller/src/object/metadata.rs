//! The metadata of objects.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;

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
