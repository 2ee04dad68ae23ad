//! Converts objects between storage version and request version.

use std::sync::Arc;

use bytes::Bytes;
use k3_api::{kinds::Kind, status::Status, strategy::TreeMut};
use k3_storage::Key;
use serde_json::Value;

use super::{Registry, Resource, storage_version};
use crate::cache::CachedObject;

// --- Registry ---

impl Registry {
    /// Converts a stored object to the version of the request.
    pub(super) async fn shown(&self, tree: Value, resource: &Resource) -> Result<Value, Status> {
        if resource.custom.is_none() {
            return Ok(storage_version::convert(tree, &resource.stored, &resource.kind));
        }
        let mut shown = self.shown_all(vec![tree], resource).await?;
        Ok(shown.pop().unwrap_or_default())
    }

    /// The tree of a stored object in the version of the request, to be changed. It is not read again if it was written a moment
    /// ago.
    pub(super) async fn tree_to_change(
        &self,
        object: &CachedObject,
        resource: &Resource,
    ) -> Result<Arc<Value>, Status> {
        if resource.custom.is_none()
            && !resource.converts()
            && let Some(tree) = self.caches.trees().get(object)
        {
            return Ok(tree);
        }
        Ok(Arc::new(self.shown(object.tree(), resource).await?))
    }

    /// Keeps the tree that a commit has written, for the next write of the object. It was validated as a kind.
    pub(super) fn keep_tree(
        &self,
        mut tree: Value,
        (key, revision, bytes): (&Key, u64, &Bytes),
        validation_kind: &Kind,
        resource: &Resource,
    ) -> Arc<Value> {
        let is_stored = storage_version::is_same(validation_kind, &resource.stored);
        if !is_stored || resource.custom.is_some() {
            return Arc::new(tree);
        }
        tree.ensure_object("metadata")
            .set("resourceVersion", revision.to_string());
        let tree = Arc::new(tree);
        self.caches.trees().put(key, revision, bytes, &tree);
        tree
    }

    /// Converts stored objects to the version of the request, with one call of the conversion webhook.
    pub(super) async fn shown_all(
        &self,
        trees: Vec<Value>,
        resource: &Resource,
    ) -> Result<Vec<Value>, Status> {
        let Some(served) = &resource.custom else {
            let trees = trees.into_iter();
            return Ok(trees
                .map(|tree| storage_version::convert(tree, &resource.stored, &resource.kind))
                .collect());
        };
        self.converter
            .show(served, trees, &resource.kind.version)
            .await
            .map_err(|error| Status::unknown(error.to_string()))
    }

    /// Encodes an object that was validated as a kind for storage.
    pub(super) async fn stored(
        &self,
        object: &Value,
        validation_kind: &Kind,
        resource: &Resource,
    ) -> Result<Bytes, Status> {
        match &resource.custom {
            Some(served) if resource.converts() => {
                let stored = self.converter.store(served, object.clone()).await;
                let stored = stored.map_err(|error| Status::unknown(error.to_string()))?;
                Ok(storage_version::stored_bytes(
                    &stored,
                    &resource.stored,
                    &resource.stored,
                ))
            }
            _ => Ok(storage_version::stored_bytes(
                object,
                validation_kind,
                &resource.stored,
            )),
        }
    }
}
