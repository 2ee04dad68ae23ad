//! The field manager: the kind that is written, its other versions, and the fields that a write cannot set.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go FieldManager
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/versionconverter.go versionConverter, Convert

use std::borrow::Cow;

use serde_json::Value;

use super::reset_fields::ResetFields;
use crate::type_schema::TypeSchema;

/// What a write is about.
#[derive(Clone, Copy)]
pub struct FieldManager<'t> {
    /// The group and version of the request, as in `apps/v1`.
    pub api_version: &'t str,
    /// The kind.
    pub kind: &'t str,
    /// The subresource of the request; empty for the object itself.
    pub subresource: &'t str,
    /// The type in this version.
    pub typed: &'t dyn TypeSchema,
    /// The object as it is before anybody set a field: what the encoder writes even when all is unset, such
    /// as `"spec": {}`. What is in it has no owner.
    pub blank: &'t Value,
    /// What a write cannot set in this version.
    pub reset: &'t ResetFields,
    /// The other versions.
    pub versions: &'t dyn VersionConverter,
}

/// The other versions of a kind. Fields are recorded in the version they were written in.
pub trait VersionConverter: Send + Sync {
    /// The type in a version; `None` if there is no such version any more: what was recorded in it is
    /// forgotten.
    fn typed(&self, api_version: &str) -> Option<&dyn TypeSchema>;

    /// An object in another version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConversionError>;

    /// What a write cannot set, as this version names it.
    fn reset(&self, api_version: &str) -> &ResetFields;
}

/// Why an object cannot be had in another version.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct ConversionError {
    /// The version.
    pub api_version: String,
    /// Why it failed.
    pub reason: String,
}

/// The versions of a kind that has one only.
#[derive(Clone, Copy, Debug)]
pub struct SingleVersion;

// --- ConversionError ---

impl ConversionError {
    /// The same, with the object it is about: `live`, `new`.
    pub(super) fn of(self, object: &str) -> Self {
        ConversionError {
            reason: format!("failed to convert {object} object: {}", self.reason),
            ..self
        }
    }
}

// --- FieldManager ---

impl<'t> FieldManager<'t> {
    pub(super) fn typed_at(&self, api_version: &str) -> Option<&'t dyn TypeSchema> {
        if api_version == self.api_version {
            Some(self.typed)
        } else {
            self.versions.typed(api_version)
        }
    }

    pub(super) fn reset_at(&self, api_version: &str) -> &'t ResetFields {
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
    ) -> Result<Cow<'v, Value>, ConversionError> {
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

// --- SingleVersion ---

impl VersionConverter for SingleVersion {
    fn typed(&self, _: &str) -> Option<&dyn TypeSchema> {
        None
    }

    fn convert(&self, _: &Value, api_version: &str) -> Result<Value, ConversionError> {
        Err(ConversionError {
            api_version: api_version.to_owned(),
            reason: "there is no such version".to_owned(),
        })
    }

    fn reset(&self, _: &str) -> &ResetFields {
        &ResetFields::Nothing
    }
}
