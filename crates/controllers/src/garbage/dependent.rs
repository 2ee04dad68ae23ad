//! The metadata of an object of any kind that the garbage collector keeps: name, owners, finalizers.

use kubecontroller::object::{Metadata, Object, OwnerRef, OwnerReference, SharedList};
use serde::Deserialize;

/// Finalizer of foreground deletion: the object waits until its dependents are deleted.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of orphan deletion: dependents lose the owner reference and stay.
pub(super) const ORPHAN: &str = "orphan";

// upstream: pkg/controller/garbagecollector/metaonly/types.go MetadataOnlyObject
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Dependent {
    pub(super) metadata: DependentMeta,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DependentMeta {
    pub(super) name: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) deletion_timestamp: Option<Box<str>>,
    pub(super) owner_references: SharedList<OwnerReference>,
    pub(super) finalizers: SharedList<Box<str>>,
}

// --- Dependent ---

impl Dependent {
    pub(super) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn has(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|own| &**own == finalizer)
    }
}

impl Object for Dependent {
    type Metadata = DependentMeta;

    fn metadata(&self) -> &DependentMeta {
        &self.metadata
    }
}

// --- DependentMeta ---

/// Labels and annotations are dropped: the garbage collector does not read them.
impl Metadata for DependentMeta {
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
        None
    }

    fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.owner_references.iter().map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controls: owner.controller,
        })
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().map(|finalizer| &**finalizer)
    }
}
