//! Writes objects back to the API server.
//!
//! Guarantees: a write contains only the fields that the pass changed, so edits of the spec, or of parts of the status that
//! belong to other clients, are never lost. A pass that changed nothing writes nothing. If another client changed the same
//! fields meanwhile, its values win: the pass is discarded and repeated on the newer object.
//!
//! A write is a JSON merge patch of the differences that carries the resource version it was computed from. On a conflict,
//! the patched fields are compared with those of the newer version; the patch is sent again only if they are unchanged.

use kube::{
    Client, ResourceExt,
    api::{GetParams, Patch, PatchParams},
    core::Request,
};
use serde_json::{Map, Value, json};

use super::status::Phased;
use crate::{Key, conflict::is_conflict, decode, writer::is_not_found};

/// How often a write is tried when each try conflicts.
const TRIES: usize = 5;

/// The result of a write.
#[derive(Debug)]
pub(super) enum WriteResult<R> {
    /// There was nothing to write.
    Unchanged,
    /// The object as the server returned it.
    Written(R),
    /// Another client changed the same fields; the object as it is on the server.
    Conflict(R),
    /// The object no longer exists.
    NotFound,
}

/// Reads and writes one object, namespaced or cluster-scoped.
pub(super) struct ObjectClient<'c> {
    client: &'c Client,
    name: String,
    url: String,
}

// --- ObjectClient ---

impl<'c> ObjectClient<'c> {
    pub(super) fn new<R: Phased>(client: &'c Client, key: &Key) -> Self {
        let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty());
        ObjectClient {
            client,
            name: key.name().to_owned(),
            url: R::url_path(&(), namespace),
        }
    }

    pub(super) async fn get<R: Phased>(&self) -> Result<Option<R>, kube::Error> {
        let request = Request::new(&self.url).get(&self.name, &GetParams::default());
        found(decode::request(self.client, request.map_err(kube::Error::BuildRequest)?).await)
    }

    async fn patch<R: Phased>(&self, part: Option<&str>, patch: &Value) -> Result<Option<R>, kube::Error> {
        let all = Request::new(&self.url);
        let options = PatchParams::default();
        let patch = Patch::Merge(patch);
        let request = match part {
            Some(part) => all.patch_subresource(part, &self.name, &options, &patch),
            None => all.patch(&self.name, &options, &patch),
        };
        found(decode::request(self.client, request.map_err(kube::Error::BuildRequest)?).await)
    }

    /// Writes the differences between the status of `wanted` and that of `base`, which is as the server returned it.
    pub(super) async fn write_status<R: Phased>(
        &self,
        base: &R,
        wanted: &R,
    ) -> Result<WriteResult<R>, kube::Error> {
        self.write(base, wanted, Some("status"), &["status"]).await
    }

    /// Writes the differences in spec, labels and annotations.
    pub(super) async fn write_rest<R: Phased>(
        &self,
        base: &R,
        wanted: &R,
    ) -> Result<WriteResult<R>, kube::Error> {
        self.write(base, wanted, None, &["spec", "metadata"]).await
    }

    async fn write<R: Phased>(
        &self,
        base: &R,
        wanted: &R,
        part: Option<&str>,
        fields: &[&str],
    ) -> Result<WriteResult<R>, kube::Error> {
        let before = tree(base, fields)?;
        let after = tree(wanted, fields)?;
        let Some(difference) = difference(&before, &after) else {
            return Ok(WriteResult::Unchanged);
        };
        let mut version = base.resource_version();
        let mut tries = 0;
        loop {
            let mut patch = difference.clone();
            // Objects built by tests have no version; the patch is then unconditional.
            patch["metadata"]["resourceVersion"] = json!(version);
            match self.patch(part, &patch).await {
                Ok(Some(now)) => return Ok(WriteResult::Written(now)),
                Ok(None) => return Ok(WriteResult::NotFound),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
            let Some(current) = self.get::<R>().await? else {
                return Ok(WriteResult::NotFound);
            };
            if current.uid() != base.uid() {
                return Ok(WriteResult::NotFound);
            }
            let stored = tree(&current, fields)?;
            // An earlier write succeeded, and only its response was lost.
            if holds(&difference, &stored) {
                return Ok(WriteResult::Written(current));
            }
            tries += 1;
            if tries == TRIES || touched(&difference, &before, &stored) {
                return Ok(WriteResult::Conflict(current));
            }
            version = current.resource_version();
        }
    }

    /// Sets a label if it has another value.
    pub(super) async fn label<R: Phased>(
        &self,
        object: &R,
        label: &str,
        value: &str,
    ) -> Result<WriteResult<R>, kube::Error> {
        if object.labels().get(label).is_some_and(|set| set == value) {
            return Ok(WriteResult::Unchanged);
        }
        let patch = json!({ "metadata": { "labels": { label: value } } });
        Ok(self
            .patch(None, &patch)
            .await?
            .map_or(WriteResult::NotFound, WriteResult::Written))
    }

    /// Adds a finalizer.
    pub(super) async fn add_finalizer<R: Phased>(
        &self,
        object: &R,
        finalizer: &str,
    ) -> Result<WriteResult<R>, kube::Error> {
        self.change_finalizers(object, |mut all| {
            if all.iter().any(|one| one == finalizer) {
                return None;
            }
            all.push(finalizer.to_owned());
            Some(all)
        })
        .await
    }

    /// Removes a finalizer.
    pub(super) async fn remove_finalizer<R: Phased>(
        &self,
        object: &R,
        finalizer: &str,
    ) -> Result<WriteResult<R>, kube::Error> {
        self.change_finalizers(object, |mut all| {
            let before = all.len();
            all.retain(|one| one != finalizer);
            (all.len() < before).then_some(all)
        })
        .await
    }

    /// Changes the finalizers, unless there is nothing to change. A merge patch replaces the whole list of finalizers, so the
    /// patch carries the resource version, and is computed again after a conflict.
    async fn change_finalizers<R: Phased>(
        &self,
        object: &R,
        change: impl Fn(Vec<String>) -> Option<Vec<String>> + Send,
    ) -> Result<WriteResult<R>, kube::Error> {
        let mut object = object.clone();
        for _ in 0..TRIES {
            let Some(all) = change(object.finalizers().to_vec()) else {
                return Ok(WriteResult::Unchanged);
            };
            let patch =
                json!({ "metadata": { "finalizers": all, "resourceVersion": object.resource_version() } });
            match self.patch(None, &patch).await {
                Ok(now) => return Ok(now.map_or(WriteResult::NotFound, WriteResult::Written)),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
            match self.get::<R>().await? {
                Some(fresh) if fresh.uid() == object.uid() => object = fresh,
                _ => return Ok(WriteResult::NotFound),
            }
        }
        Ok(WriteResult::Conflict(object))
    }
}

fn found<R>(response: Result<R, kube::Error>) -> Result<Option<R>, kube::Error> {
    match response {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn tree<R: Phased>(object: &R, fields: &[&str]) -> Result<Value, kube::Error> {
    let mut tree = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    let parts = fields
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), tree.get_mut(*field)?.take())));
    let mut parts: Map<String, Value> = parts.collect();
    if let Some(metadata) = parts.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| matches!(name.as_str(), "labels" | "annotations"));
    }
    Ok(Value::Object(parts))
}

/// The merge patch that turns `before` into `after`; none if they are equal.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (name, value) in new {
        let changed = match old.get(name) {
            Some(old) => difference(old, value),
            // The server has no such field, so the whole value is new.
            None => (!value.is_null()).then(|| value.clone()),
        };
        patch.extend(changed.map(|changed| (name.clone(), changed)));
    }
    let removed = old
        .iter()
        .filter(|(name, value)| !new.contains_key(*name) && !value.is_null());
    patch.extend(removed.map(|(name, _)| (name.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether a field of the patch changed since the patch was computed.
fn touched(patch: &Value, before: &Value, now: &Value) -> bool {
    match patch {
        Value::Object(fields) if before.is_object() && now.is_object() => {
            fields.iter().any(|(name, patch)| {
                let of = |tree: &Value| tree.get(name).cloned().unwrap_or(Value::Null);
                touched(patch, &of(before), &of(now))
            })
        }
        _ => before != now,
    }
}

/// Whether applying the patch to `now` would change nothing.
fn holds(patch: &Value, now: &Value) -> bool {
    match patch {
        Value::Object(fields) => fields
            .iter()
            .all(|(name, patch)| holds(patch, now.get(name).unwrap_or(&Value::Null))),
        patch => patch == now,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{difference, touched};

    #[test]
    fn difference_contains_only_changed_fields() {
        let before = json!({ "a": 1, "b": { "c": [1], "d": 2 }, "e": 3, "n": null });
        let after = json!({ "a": 1, "b": { "c": [1, 2], "d": 2 }, "f": { "g": 4 } });
        assert_eq!(
            difference(&before, &after),
            Some(json!({ "b": { "c": [1, 2] }, "e": null, "f": { "g": 4 } }))
        );
        assert_eq!(difference(&before, &before), None);
    }

    #[test]
    fn only_changes_of_patched_fields_conflict() {
        let before = json!({ "a": { "x": 1, "y": 1 }, "b": 1 });
        let patch = json!({ "a": { "x": 2 }, "new": { "z": 1 } });
        for (now, conflicts) in [
            (json!({ "a": { "x": 1, "y": 9 }, "b": 9, "c": 9 }), false),
            (json!({ "a": { "x": 9, "y": 1 }, "b": 1 }), true),
            (json!({ "b": 1 }), true),
            (
                json!({ "a": { "x": 1, "y": 1 }, "b": 1, "new": { "z": 9 } }),
                true,
            ),
        ] {
            assert_eq!(touched(&patch, &before, &now), conflicts, "{now}");
        }
    }
}
