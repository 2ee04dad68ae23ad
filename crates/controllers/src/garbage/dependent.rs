//! The metadata of an object of any kind that the garbage collector keeps: name, owners, finalizers.

use k3_workloads::{SharedList, internable};
use kubecontroller::object::{Metadata, Object, OwnerRef};
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

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerReference {
    pub(super) api_version: Box<str>,
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) block_owner_deletion: bool,
}

internable!(OwnerReference);

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
        // `controller` is dropped: it does not matter for garbage collection.
        self.owner_references.iter().map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controls: false,
        })
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().map(|finalizer| &**finalizer)
    }
}
