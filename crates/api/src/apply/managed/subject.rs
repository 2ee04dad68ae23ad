//! What is written: the kind, its versions, and what a write cannot set.

use std::borrow::Cow;

use serde_json::Value;

use super::reset::Reset;
use crate::shape::Typed;

/// What a write is about.
#[derive(Clone, Copy)]
pub struct Subject<'t> {
    /// The group and version of the request, as in `apps/v1`.
    pub api_version: &'t str,
    /// The kind.
    pub kind: &'t str,
    /// The subresource of the request; empty for the object itself.
    pub subresource: &'t str,
    /// The type in this version.
    pub typed: &'t dyn Typed,
    /// The object as it is before anybody set a field: what the encoder writes even when all is unset, such
    /// as `"spec": {}`. What is in it belongs to nobody.
    pub blank: &'t Value,
    /// What a write cannot set in this version.
    pub reset: &'t Reset,
    /// The other versions.
    pub versions: &'t dyn Versions,
}

/// The other versions of a kind. Fields are recorded in the version they were written in.
pub trait Versions: Send + Sync {
    /// The type in a version; `None` if there is no such version any more: what was recorded in it is
    /// forgotten.
    fn typed(&self, api_version: &str) -> Option<&dyn Typed>;

    /// An object in another version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, NotConverted>;

    /// What a write cannot set, as this version names it.
    fn reset(&self, api_version: &str) -> &Reset;
}

/// Why an object cannot be had in another version.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct NotConverted {
    /// The version.
    pub api_version: String,
    /// What went wrong.
    pub reason: String,
}

/// The versions of a kind that has one only.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion;

// --- NotConverted ---

impl NotConverted {
    /// The same, told of an object: `live`, `new`.
    pub(super) fn of(self, object: &str) -> Self {
        NotConverted {
            reason: format!("failed to convert {object} object: {}", self.reason),
            ..self
        }
    }
}

// --- Subject ---

impl<'t> Subject<'t> {
    pub(super) fn typed_at(&self, api_version: &str) -> Option<&'t dyn Typed> {
        if api_version == self.api_version {
            Some(self.typed)
        } else {
            self.versions.typed(api_version)
        }
    }

    pub(super) fn reset_at(&self, api_version: &str) -> &'t Reset {
        if api_version == self.api_version {
            self.reset
        } else {
            self.versions.reset(api_version)
        }
    }

    /// An object in a version. One that does not say its version is in that of the request.
    pub(super) fn convert<'v>(
        &self,
        object: &'v Value,
        api_version: &str,
    ) -> Result<Cow<'v, Value>, NotConverted> {
        let version = object
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or(self.api_version);
        if version == api_version {
            return Ok(Cow::Borrowed(object));
        }
        self.versions.convert(object, api_version).map(Cow::Owned)
    }
}

// --- OneVersion ---

impl Versions for OneVersion {
    fn typed(&self, _: &str) -> Option<&dyn Typed> {
        None
    }

    fn convert(&self, _: &Value, api_version: &str) -> Result<Value, NotConverted> {
        Err(NotConverted {
            api_version: api_version.to_owned(),
            reason: "there is no such version".to_owned(),
        })
    }

    fn reset(&self, _: &str) -> &Reset {
        &Reset::Nothing
    }
}
