//! What the garbage collector keeps of an object, of whatever kind: its place, its owners, and how it goes.

use kubecontroller::object::{Metadata, Object, OwnerRef};
use serde::Deserialize;

use crate::objects::{Shared, pooled};

/// Lets an object wait for its dependents to go first.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Lets the dependents of an object stay when it goes.
pub(super) const ORPHAN: &str = "orphan";

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Dependent {
    pub(super) metadata: Meta,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(super) name: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) deletion_timestamp: Option<Box<str>>,
    pub(super) owner_references: Shared<Reference>,
    pub(super) finalizers: Shared<Box<str>>,
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Reference {
    pub(super) api_version: Box<str>,
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) block_owner_deletion: bool,
}

pooled!(Reference);

// --- Dependent ---

impl Dependent {
    /// Whether it is going.
    pub(super) fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it has a finalizer.
    pub(super) fn has(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|own| &**own == finalizer)
    }
}

impl Object for Dependent {
    type Metadata = Meta;

    fn metadata(&self) -> &Meta {
        &self.metadata
    }
}

// --- Meta ---

/// Labels and annotations are not kept: nothing here asks for them.
impl Metadata for Meta {
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
        // Which one controls does not matter here, and is not kept.
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
