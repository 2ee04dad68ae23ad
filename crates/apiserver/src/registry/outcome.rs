//! What became of a write.

use std::sync::Arc;

use bytes::Bytes;
use k3_api::{
    encode::{self, ResourceVersion, StoredObject},
    strategy::TreeMut,
};
use k3_storage::Revision;
use serde_json::Value;

use super::{Resource, storage_version};
use crate::cache::CachedObject;

/// What became of a write. Trees are in the version that the object was validated in, unless noted otherwise.
pub(super) enum Outcome {
    /// It was committed.
    Stored {
        /// As it is stored.
        bytes: Bytes,
        /// The commit that wrote it.
        revision: Revision,
        object: Arc<Value>,
    },
    /// Nothing was committed: the object was as it should be.
    Unchanged {
        current: Arc<CachedObject>,
        /// The object in the version of the request, if that is not what is stored.
        served: Option<Value>,
    },
    /// Nothing was committed: the request is a dry run. This would have been stored, or removed.
    DryRun(Value),
    /// It was removed from the store; this was its last state.
    Deleted(Value),
}

// --- Outcome ---

impl Outcome {
    /// The JSON text, if it can be had without building a tree.
    pub(super) fn text(&self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        match self {
            Outcome::Stored { bytes, revision, .. } => {
                StoredObject::find(bytes)?.write(&mut text, ResourceVersion::new(revision.get()));
            }
            Outcome::Unchanged {
                current,
                served: None,
            } => current.write(&mut text),
            Outcome::Unchanged {
                served: Some(tree), ..
            }
            | Outcome::DryRun(tree)
            | Outcome::Deleted(tree) => text = encode::encode(tree),
        }
        Some(text)
    }

    /// The object in the version of the request.
    pub(super) fn into_tree(self, resource: &Resource) -> Value {
        let validation_kind = storage_version::validation_kind(&resource.kind);
        match self {
            Outcome::Stored { revision, object, .. } => {
                let object = Arc::unwrap_or_clone(object);
                let mut tree = storage_version::convert(object, validation_kind, &resource.kind);
                tree.ensure_object("metadata")
                    .set("resourceVersion", revision.to_string());
                tree
            }
            Outcome::Unchanged {
                served: Some(tree), ..
            } => tree,
            // A custom object that is not converted is in the version of the request.
            Outcome::Unchanged {
                current,
                served: None,
            } => storage_version::convert(current.tree(), &resource.stored, &resource.kind),
            Outcome::DryRun(tree) | Outcome::Deleted(tree) => {
                storage_version::convert(tree, validation_kind, &resource.kind)
            }
        }
    }
}
