//! Request handling.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::StatusCode;
use kube::core::Status;
use serde_json::{Map, Value, json};

use super::{
    FakeApiState,
    http::status_json,
    patch::{Patch, PatchKind},
    resource::RequestTarget,
    response_format::ResponseFormat,
    selection::Selection,
    status, subresource,
    watch::WatchRequest,
    writes::{DeleteOptions, DeleteResult, ObjectWrite},
};
use crate::Key;

/// A parsed request.
pub(super) struct ApiCall {
    pub(super) verb: &'static str,
    pub(super) target: RequestTarget,
    pub(super) query: BTreeMap<String, String>,
    pub(super) view: ResponseFormat,
    pub(super) content_type: String,
    pub(super) body: Value,
}

/// The result of a request.
pub(super) enum CallResult {
    Json(StatusCode, Value),
    Watch(Box<WatchRequest>),
}

// --- ApiCall ---

impl ApiCall {
    /// Parses a query string. The last of several values wins.
    pub(super) fn query(text: &str) -> BTreeMap<String, String> {
        form_urlencoded::parse(text.as_bytes()).into_owned().collect()
    }

    /// Performs the request.
    pub(super) fn perform(&self, inner: &Arc<FakeApiState>) -> Result<CallResult, Box<Status>> {
        if self
            .target
            .subresource
            .as_deref()
            .is_some_and(|name| name != "status")
        {
            return self.subresource(inner);
        }
        match self.verb {
            "list" => self.list(inner),
            "watch" => self.watch(inner),
            "get" => {
                let id = &self.target.id;
                let key = self.key();
                let object = inner
                    .cluster()
                    .get(id, &key)
                    .ok_or_else(|| status::not_found(id, key.name()))?;
                Ok(self.object(StatusCode::OK, &object))
            }
            // An access review is not stored. The fake has no authorizer, so it returns the review unchanged.
            "create" if self.target.id.plural.ends_with("accessreviews") => {
                Ok(CallResult::Json(StatusCode::CREATED, self.body.clone()))
            }
            "create" if self.target.name.is_none() => {
                let object = self
                    .write(inner)
                    .create(&mut inner.cluster(), self.body.clone())?;
                inner.changed();
                Ok(self.object(StatusCode::CREATED, &object))
            }
            "update" => {
                let object = self
                    .write(inner)
                    .update(&mut inner.cluster(), self.body.clone())?;
                inner.changed();
                Ok(self.object(StatusCode::OK, &object))
            }
            "patch" => {
                let patch = self.patch()?;
                let (object, is_new) = patch.run(&mut inner.cluster(), &self.write(inner))?;
                inner.changed();
                Ok(self.object(
                    if is_new {
                        StatusCode::CREATED
                    } else {
                        StatusCode::OK
                    },
                    &object,
                ))
            }
            "delete" => self.delete(inner),
            "deletecollection" => self.delete_collection(inner),
            _ => Err(status::coded(405)),
        }
    }

    fn subresource(&self, inner: &Arc<FakeApiState>) -> Result<CallResult, Box<Status>> {
        let (code, value) =
            subresource::perform(&mut inner.cluster(), self.verb, &self.write(inner), &self.body)?;
        inner.changed();
        Ok(CallResult::Json(code, value))
    }

    fn list(&self, inner: &Arc<FakeApiState>) -> Result<CallResult, Box<Status>> {
        let selection = self.selection()?;
        let kind = inner.kind(&self.target.id);
        let cluster = inner.cluster();
        let (version, after) = match self.text("continue").filter(|token| !token.is_empty()) {
            Some(token) => {
                read_token(token).ok_or_else(|| status::bad_request("continue key is not valid"))?
            }
            None => (self.list_version(cluster.version())?, None),
        };
        let mut found = cluster.list_at(&self.target.id, version, after.as_ref())?;
        found.retain(|(_, object)| selection.fits(object));
        let limit = self
            .number("limit")
            .filter(|limit| *limit > 0)
            .and_then(|limit| usize::try_from(limit).ok());
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        if let Some(limit) = limit.filter(|limit| *limit < found.len()) {
            let left = found.len() - limit;
            found.truncate(limit);
            let last = found.last().map(|(key, _)| key.as_str()).unwrap_or_default();
            metadata.insert("continue".to_owned(), format!("{version}:{last}").into());
            if !selection.is_narrow() {
                metadata.insert("remainingItemCount".to_owned(), left.into());
            }
        }
        let objects = found.iter().map(|(_, object)| &**object);
        Ok(CallResult::Json(
            StatusCode::OK,
            self.view.list(objects, &self.target, &kind, &metadata),
        ))
    }

    /// The version that a list shows: the current one, unless an exact one is requested.
    fn list_version(&self, current: u64) -> Result<u64, Box<Status>> {
        let asked = self.version()?.unwrap_or_default();
        if asked > current {
            return Err(status::too_large(asked, current));
        }
        Ok(if self.text("resourceVersionMatch") == Some("Exact") {
            asked
        } else {
            current
        })
    }

    fn watch(&self, inner: &Arc<FakeApiState>) -> Result<CallResult, Box<Status>> {
        let mut selection = self.selection()?;
        if let Some(name) = &self.target.name {
            selection = Selection::parse(&self.target.namespace, "", &format!("metadata.name={name}"))?;
        }
        let bookmarks = self.is_true("allowWatchBookmarks");
        let initial = self.is_true("sendInitialEvents");
        if initial && (!bookmarks || self.text("resourceVersionMatch") != Some("NotOlderThan")) {
            let why = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(status::failure(422, "Invalid", why));
        }
        let asked = self.version()?.filter(|version| *version > 0);
        let current = inner.cluster().version();
        if let Some(asked) = asked.filter(|asked| *asked > current) {
            return Err(status::too_large(asked, current));
        }
        Ok(CallResult::Watch(Box::new(WatchRequest {
            kind: inner.kind(&self.target.id),
            target: self.target.clone(),
            selection,
            view: self.view,
            since: asked,
            initial,
            bookmarks,
            timeout: self
                .number("timeoutSeconds")
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
        })))
    }

    fn delete(&self, inner: &Arc<FakeApiState>) -> Result<CallResult, Box<Status>> {
        let key = self.key();
        let deleted = self
            .write(inner)
            .delete(&mut inner.cluster(), &key, &self.deletion())?;
        inner.changed();
        let object = match deleted {
            DeleteResult::Terminating(object) => return Ok(self.object(StatusCode::OK, &object)),
            DeleteResult::Removed(object) => object,
        };
        // Deleting a pod returns the pod; deleting other kinds returns a Status.
        if self.target.id.group.is_empty() && self.target.id.plural == "pods" {
            return Ok(self.object(StatusCode::OK, &object));
        }
        let mut done = status_json(&Status::success());
        done["details"] = json!({
            "name": key.name(),
            "group": self.target.id.group,
            "kind": self.target.id.plural,
            "uid": object["metadata"]["uid"],
        });
        Ok(CallResult::Json(StatusCode::OK, done))
    }

    fn delete_collection(&self, inner: &Arc<FakeApiState>) -> Result<CallResult, Box<Status>> {
        let selection = self.selection()?;
        let kind = inner.kind(&self.target.id);
        let how = self.deletion();
        let write = self.write(inner);
        let mut cluster = inner.cluster();
        let mut found = cluster.list_at(&self.target.id, cluster.version(), None)?;
        found.retain(|(_, object)| selection.fits(object));
        for (key, _) in &found {
            write.delete(&mut cluster, key, &how)?;
        }
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), cluster.version().to_string().into());
        drop(cluster);
        inner.changed();
        let objects = found.iter().map(|(_, object)| &**object);
        Ok(CallResult::Json(
            StatusCode::OK,
            self.view.list(objects, &self.target, &kind, &metadata),
        ))
    }

    fn object(&self, code: StatusCode, object: &Value) -> CallResult {
        CallResult::Json(code, self.view.object(object, &self.target))
    }

    fn write(&self, inner: &FakeApiState) -> ObjectWrite<'_> {
        ObjectWrite {
            target: &self.target,
            now: inner.clock.now(),
            dry: self.text("dryRun") == Some("All"),
        }
    }

    fn patch(&self) -> Result<Patch, Box<Status>> {
        let kind = PatchKind::parse(&self.content_type).ok_or_else(|| {
            status::failure(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format",
            )
        })?;
        Ok(Patch {
            kind,
            body: self.body.clone(),
            manager: self.text("fieldManager").unwrap_or_default().to_owned(),
            force: self.is_true("force"),
        })
    }

    fn deletion(&self) -> DeleteOptions {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let conditions = &self.body["preconditions"];
        DeleteOptions {
            uid: text(&conditions["uid"]),
            resource_version: text(&conditions["resourceVersion"]),
            grace: self.body["gracePeriodSeconds"]
                .as_i64()
                .or_else(|| self.number("gracePeriodSeconds")),
            propagation: text(&self.body["propagationPolicy"])
                .or_else(|| self.text("propagationPolicy").map(str::to_owned)),
        }
    }

    fn selection(&self) -> Result<Selection, Box<Status>> {
        let text = |name: &str| self.text(name).unwrap_or_default();
        Selection::parse(
            &self.target.namespace,
            text("labelSelector"),
            text("fieldSelector"),
        )
    }

    fn key(&self) -> Key {
        Key::new(
            &self.target.namespace,
            self.target.name.as_deref().unwrap_or_default(),
        )
    }

    fn version(&self) -> Result<Option<u64>, Box<Status>> {
        match self.text("resourceVersion").filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => match text.parse() {
                Ok(version) => Ok(Some(version)),
                Err(_) => Err(status::bad_request(&format!("invalid resource version {text:?}"))),
            },
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    fn is_true(&self, name: &str) -> bool {
        matches!(self.text(name), Some("true" | "1"))
    }
}

/// Parses a continue token: the version of the list and the last key it returned.
fn read_token(token: &str) -> Option<(u64, Option<Key>)> {
    let (version, key) = token.split_once(':')?;
    Some((version.parse().ok()?, Some(key.parse().ok()?)))
}
