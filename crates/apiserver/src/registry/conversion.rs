//! Converts objects between storage version and request version.

use std::sync::Arc;

use bytes::Bytes;
use k3_api::{kinds::Kind, status::Status};
use serde_json::Value;

use super::{Resource, storage_version};
use crate::{
    cache::{CachedObject, WatchCaches},
    custom::CustomResourceConverter,
};

/// Converts a stored object to the version of the request.
pub(super) async fn shown(
    converter: &CustomResourceConverter,
    tree: Value,
    resource: &Resource,
) -> Result<Value, Status> {
    if resource.custom.is_none() {
        return Ok(storage_version::convert(tree, &resource.stored, &resource.kind));
    }
    let mut shown = shown_all(converter, vec![tree], resource).await?;
    Ok(shown
        .pop()
        .expect("a conversion gives as many objects as it gets"))
}

/// The tree of a stored object in the version of the request, to be changed. It is not read again if it was written a moment ago.
pub(super) async fn tree_to_change(
    caches: &WatchCaches,
    converter: &CustomResourceConverter,
    object: &CachedObject,
    resource: &Resource,
) -> Result<Arc<Value>, Status> {
    if resource.custom.is_none()
        && !resource.converts()
        && let Some(tree) = caches.trees().get(object)
    {
        return Ok(tree);
    }
    Ok(Arc::new(shown(converter, object.tree(), resource).await?))
}

/// Converts stored objects to the version of the request, with one call of the conversion webhook.
pub(super) async fn shown_all(
    converter: &CustomResourceConverter,
    trees: Vec<Value>,
    resource: &Resource,
) -> Result<Vec<Value>, Status> {
    let Some(served) = &resource.custom else {
        let trees = trees.into_iter();
        return Ok(trees
            .map(|tree| storage_version::convert(tree, &resource.stored, &resource.kind))
            .collect());
    };
    converter
        .show(served, trees, &resource.kind.version)
        .await
        .map_err(|error| Status::unknown(error.to_string()))
}

/// Encodes an object that was validated as a kind for storage.
pub(super) async fn stored(
    converter: &CustomResourceConverter,
    object: &Value,
    validation_kind: &Kind,
    resource: &Resource,
) -> Result<Bytes, Status> {
    match &resource.custom {
        Some(served) if resource.converts() => {
            let stored = converter.store(served, object.clone()).await;
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
