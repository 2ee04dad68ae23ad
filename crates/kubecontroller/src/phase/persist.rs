//! How objects are written back.
//!
//! Promises: what is written is what the pass changed and nothing else, so an edit of the spec, or of parts of the status that
//! belong to others, is never lost. A pass that changed nothing writes nothing. If somebody changed the same fields meanwhile,
//! theirs stay: the pass is dropped and repeated upon what they wrote.
//!
//! It is done with a merge patch of the differences that names the version it was made for. When the server says that version
//! is gone, the fields are compared with those of the new one.

use kube::{
    Client, ResourceExt,
    api::{GetParams, Patch, PatchParams},
    core::Request,
};
use serde_json::{Map, Value, json};

use super::status::Phased;
use crate::{Key, decode};

/// How often a write that was overtaken by others is tried at once.
const TRIES: usize = 5;

/// What came of a write.
#[derive(Debug)]
pub(super) enum WriteResult<R> {
    /// There was nothing to write.
    Same,
    /// The object as the server has it now.
    Now(R),
    /// Somebody changed the same fields; the object as the server has it now.
    Overtaken(R),
    /// There is no such object any more.
    Gone,
}

/// The objects of a kind on a server, whether in namespaces or not.
pub(super) struct Remote<'c> {
    client: &'c Client,
    name: String,
    url: String,
}

// --- Remote ---

impl<'c> Remote<'c> {
    pub(super) fn new<R: Phased>(client: &'c Client, key: &Key) -> Self {
        let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty());
        Remote {
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
        let (all, options, patch) = (
            Request::new(&self.url),
            PatchParams::default(),
            Patch::Merge(patch),
        );
        let request = match part {
            Some(part) => all.patch_subresource(part, &self.name, &options, &patch),
            None => all.patch(&self.name, &options, &patch),
        };
        found(decode::request(self.client, request.map_err(kube::Error::BuildRequest)?).await)
    }

    /// Writes what `wanted` has in its status and `base`, as the server gave it, has not.
    pub(super) async fn write_status<R: Phased>(
        &self,
        base: &R,
        wanted: &R,
    ) -> Result<WriteResult<R>, kube::Error> {
        self.write(base, wanted, Some("status"), &["status"]).await
    }

    /// Writes what `wanted` has in its spec, labels and annotations and `base` has not.
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
        let (before, after) = (tree(base, fields)?, tree(wanted, fields)?);
        let Some(difference) = difference(&before, &after) else {
            return Ok(WriteResult::Same);
        };
        let mut version = base.resource_version();
        let mut tries = 0;
        loop {
            let mut patch = difference.clone();
            // An object made by a test has no version yet; a server's always has one.
            patch["metadata"]["resourceVersion"] = json!(version);
            match self.patch(part, &patch).await {
                Ok(Some(now)) => return Ok(WriteResult::Now(now)),
                Ok(None) => return Ok(WriteResult::Gone),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
            let Some(fresh) = self.get::<R>().await? else {
                return Ok(WriteResult::Gone);
            };
            if fresh.uid() != base.uid() {
                return Ok(WriteResult::Gone);
            }
            let there = tree(&fresh, fields)?;
            // An earlier write was done, only its answer was lost.
            if holds(&difference, &there) {
                return Ok(WriteResult::Now(fresh));
            }
            tries += 1;
            if tries == TRIES || touched(&difference, &before, &there) {
                return Ok(WriteResult::Overtaken(fresh));
            }
            version = fresh.resource_version();
        }
    }

    /// Sets a label, unless it is set so.
    pub(super) async fn label<R: Phased>(
        &self,
        object: &R,
        label: &str,
        value: &str,
    ) -> Result<WriteResult<R>, kube::Error> {
        if object.labels().get(label).is_some_and(|set| set == value) {
            return Ok(WriteResult::Same);
        }
        let patch = json!({ "metadata": { "labels": { label: value } } });
        Ok(self
            .patch(None, &patch)
            .await?
            .map_or(WriteResult::Gone, WriteResult::Now))
    }

    /// Sets a finalizer, or takes it away. Finalizers are a list, which a patch replaces: it names the version it is for, and
    /// is made anew for a newer one.
    pub(super) async fn finalizer<R: Phased>(
        &self,
        object: &R,
        finalizer: &str,
        set: bool,
    ) -> Result<WriteResult<R>, kube::Error> {
        let mut object = object.clone();
        for _ in 0..TRIES {
            let mut all = object.finalizers().to_vec();
            if all.iter().any(|one| one == finalizer) == set {
                return Ok(WriteResult::Same);
            }
            all.retain(|one| one != finalizer);
            all.extend(set.then(|| finalizer.to_owned()));
            let patch =
                json!({ "metadata": { "finalizers": all, "resourceVersion": object.resource_version() } });
            match self.patch(None, &patch).await {
                Ok(now) => return Ok(now.map_or(WriteResult::Gone, WriteResult::Now)),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
            match self.get::<R>().await? {
                Some(fresh) if fresh.uid() == object.uid() => object = fresh,
                _ => return Ok(WriteResult::Gone),
            }
        }
        Ok(WriteResult::Overtaken(object))
    }
}

fn found<R>(answer: Result<R, kube::Error>) -> Result<Option<R>, kube::Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
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

/// The merge patch that makes one tree of the other, if there is anything to change.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (name, value) in new {
        let changed = match old.get(name) {
            Some(old) => difference(old, value),
            // An object that was not there is merged into nothing: all of it is new.
            None => (!value.is_null()).then(|| value.clone()),
        };
        patch.extend(changed.map(|changed| (name.clone(), changed)));
    }
    let gone = old
        .iter()
        .filter(|(name, value)| !new.contains_key(*name) && !value.is_null());
    patch.extend(gone.map(|(name, _)| (name.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether a field of the patch is another now than the one it was made for.
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

/// Whether a tree is as the patch would make it.
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
    fn a_difference_names_what_changed_and_nothing_else() {
        let before = json!({ "a": 1, "b": { "c": [1], "d": 2 }, "e": 3, "n": null });
        let after = json!({ "a": 1, "b": { "c": [1, 2], "d": 2 }, "f": { "g": 4 } });
        assert_eq!(
            difference(&before, &after),
            Some(json!({ "b": { "c": [1, 2] }, "e": null, "f": { "g": 4 } }))
        );
        assert_eq!(difference(&before, &before), None);
    }

    #[test]
    fn only_a_change_of_the_same_fields_is_in_the_way() {
        let before = json!({ "a": { "x": 1, "y": 1 }, "b": 1 });
        let patch = json!({ "a": { "x": 2 }, "new": { "z": 1 } });
        for (now, way) in [
            (json!({ "a": { "x": 1, "y": 9 }, "b": 9, "c": 9 }), false),
            (json!({ "a": { "x": 9, "y": 1 }, "b": 1 }), true),
            (json!({ "b": 1 }), true),
            (
                json!({ "a": { "x": 1, "y": 1 }, "b": 1, "new": { "z": 9 } }),
                true,
            ),
        ] {
            assert_eq!(touched(&patch, &before, &now), way, "{now}");
        }
    }
}
