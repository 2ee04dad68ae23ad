//! Recorded requests.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokio::time::Instant;

use super::resource::RequestTarget;

/// A recorded request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The RBAC verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`. The HTTP method
    /// in lower case if the path names no resource.
    pub verb: &'static str,
    /// The path.
    pub path: String,
    /// The raw query; empty if there was none.
    pub query: String,
    /// The user agent; empty if there was none.
    pub agent: String,
    /// The plural; empty if the path names no resource.
    pub resource: String,
    /// The group; empty for the core group.
    pub group: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name; empty for collections.
    pub name: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// The body; null if there was none.
    pub body: Value,
    /// The time of arrival.
    pub at: Instant,
    /// Set when the request is answered; shared by all copies of this record.
    code: Arc<OnceLock<u16>>,
}

// --- RecordedRequest ---

impl RecordedRequest {
    pub(super) fn new(
        method: &http::Method,
        uri: &http::Uri,
        agent: String,
        target: Option<&RequestTarget>,
        body: Value,
    ) -> Self {
        let query = uri.query().unwrap_or_default();
        let is_watch = query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"));
        let is_object = target.is_some_and(|target| target.name.is_some());
        let verb = match (method.as_str(), target.is_some()) {
            ("GET", true) if is_watch => "watch",
            ("GET", true) if !is_object => "list",
            ("GET", _) => "get",
            ("POST", true) => "create",
            ("POST", false) => "post",
            ("PUT", true) => "update",
            ("PUT", false) => "put",
            ("PATCH", _) => "patch",
            ("DELETE", true) if !is_object => "deletecollection",
            ("DELETE", _) => "delete",
            _ => "other",
        };
        let part = |part: fn(&RequestTarget) -> String| target.map(part).unwrap_or_default();
        RecordedRequest {
            verb,
            path: uri.path().to_owned(),
            query: query.to_owned(),
            agent,
            resource: part(|target| target.id.plural.clone()),
            group: part(|target| target.id.group.clone()),
            namespace: part(|target| target.namespace.clone()),
            name: part(|target| target.name.clone().unwrap_or_default()),
            subresource: part(|target| target.subresource.clone().unwrap_or_default()),
            body,
            at: Instant::now(),
            code: Arc::default(),
        }
    }

    /// The status code of the response; `None` if there is none yet, or if the connection broke.
    pub fn response_code(&self) -> Option<u16> {
        self.code.get().copied()
    }

    /// Where the status code of the response is recorded.
    pub(super) fn response_code_slot(&self) -> Arc<OnceLock<u16>> {
        Arc::clone(&self.code)
    }

    /// Whether the request is a write.
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb,
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// Whether the request is for this resource: `pods`, `pods/status` or `deployments.apps`.
    pub fn is_for(&self, resource: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let full = format!("{}.{}", self.resource, self.group);
        (resource == self.resource || resource == full)
            && (subresource.is_empty() || subresource == self.subresource)
    }
}
