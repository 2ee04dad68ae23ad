//! Field managers of resources and subresources: updates `managedFields` on writes.

use k3_api::{
    apply::{
        FieldSet,
        managed::{ConversionError, FieldManager, ResetFields, VersionConverter},
        typed::{self, DuplicatePolicy},
    },
    kinds::{Kind, Subresource},
    strategy::RestStrategy,
    type_schema::TypeSchema,
};
use serde_json::Value;

use super::{Resource, storage_version};
use crate::custom::{CustomResourceConverter, ServedDefinition};

/// The versions of a kind beside the one of the request.
struct OtherVersions<'k> {
    kind: &'k Kind,
    reset: &'k ResetFields,
    custom: CustomConversion<'k>,
}

/// The definition of a custom kind, and what converts its objects.
pub(super) type CustomConversion<'c> = Option<(&'c ServedDefinition, &'c CustomResourceConverter)>;

/// The versions of a kind that has no others.
struct SingleVersion;

/// Calls `run` with the field manager of a write to the object or one of its subresources.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go registerResourceHandlers; field managers of resources and subresources
pub(super) fn with_subject<R>(
    kind: &Kind,
    rules: &dyn RestStrategy,
    subresource: &str,
    custom: CustomConversion<'_>,
    run: impl FnOnce(FieldManager<'_>) -> R,
) -> R {
    let api_version = kind.api_version();
    let mut blank = Value::Object(kind.ty.zero());
    blank["apiVersion"] = api_version.as_str().into();
    blank["kind"] = (&kind.kind).into();
    let reset = rules.reset_fields(subresource).unwrap_or_else(|| {
        let has_status = kind.subresource("status").is_some();
        match subresource {
            "status" => ResetFields::Fields(FieldSet::of_fields(&[&["spec"]])),
            _ if has_status => ResetFields::Fields(FieldSet::of_fields(&[&["status"]])),
            _ => ResetFields::Nothing,
        }
    });
    run(FieldManager {
        api_version: &api_version,
        kind: &kind.kind,
        subresource,
        typed: &kind.ty,
        blank: &blank,
        reset: &reset,
        versions: &OtherVersions {
            kind,
            reset: &reset,
            custom,
        },
    })
}

/// How the versions of a custom resource become each other.
pub(super) fn custom_conversion<'c>(
    resource: &'c Resource,
    converter: &'c CustomResourceConverter,
) -> CustomConversion<'c> {
    let served = resource.custom.as_deref()?;
    Some((served, converter))
}

/// Calls `run` with the field manager of a kind that is a subresource of others (Scale).
pub(super) fn with_part<R>(part: &Subresource, run: impl FnOnce(FieldManager<'_>) -> R) -> R {
    let api_version = format!("{}/{}", part.group, part.version);
    let mut blank = Value::Object(part.ty.zero());
    blank["apiVersion"] = api_version.as_str().into();
    blank["kind"] = (&part.kind).into();
    run(FieldManager {
        api_version: &api_version,
        kind: &part.kind,
        subresource: part.name,
        typed: &part.ty,
        blank: &blank,
        reset: &ResetFields::Nothing,
        versions: &SingleVersion,
    })
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

// --- OtherVersions ---

impl OtherVersions<'_> {
    fn find(&self, api_version: &str) -> Option<&Kind> {
        let Some((served, _)) = self.custom else {
            return storage_version::others(self.kind).find(|kind| kind.api_version() == api_version);
        };
        let mut kinds = served.versions().map(|(_, kind)| &**kind);
        kinds.find(|kind| kind.api_version() == api_version)
    }
}

impl VersionConverter for OtherVersions<'_> {
    fn typed(&self, api_version: &str) -> Option<&dyn TypeSchema> {
        self.find(api_version).map(|kind| &kind.ty as &dyn TypeSchema)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConversionError> {
        if let Some((served, converter)) = self.custom {
            let failed = |reason: String| ConversionError {
                api_version: api_version.to_owned(),
                reason,
            };
            let converted = converter
                .convert_now(served, object.clone(), api_version)
                .map_err(|error| failed(error.to_string()))?;
            // Fields that only one of the versions has belong to no manager in the other.
            if let Some(typed) = self.typed(api_version) {
                typed::validate(&converted, typed, DuplicatePolicy::Allowed)
                    .map_err(|errors| failed(errors.to_string()))?;
            }
            return Ok(converted);
        }
        let object_version = object
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let own = self.kind.api_version();
        let find = |version: &str| {
            if version == own {
                Some(self.kind)
            } else {
                self.find(version)
            }
        };
        match (find(object_version), find(api_version)) {
            (Some(from), Some(to)) => Ok(storage_version::convert(object.clone(), from, to)),
            _ => Err(ConversionError {
                api_version: api_version.to_owned(),
                reason: "there is no such version".to_owned(),
            }),
        }
    }

    fn reset(&self, _: &str) -> &ResetFields {
        self.reset
    }
}
