//! Decodes and applies patches: JSON patch, merge patch, strategic merge patch, server-side apply.

use k3_api::{
    apply::managed::{ApplyConflictPolicy, ApplyError},
    decode,
    field::{BadValue, Error, Path},
    kinds::Kind,
    patch,
    status::{GroupResource, Status, StatusCause},
};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    RequestContext,
    body::ExpectedKind,
    managed_fields::{self, CustomConversion},
    pending_write::PendingWrite,
    request_context::Warnings,
    size::{self, ManagedFields},
};
use crate::request::{FieldValidation, WriteOptions, WriteVerb};

pub(super) enum Patch {
    /// Operations, one by one.
    Json(patch::json::Patch),
    /// An example, merged key by key.
    Merge(PatchDocument),
    /// Strategic merge patch.
    Strategic(PatchDocument),
    /// What a manager wants to be so.
    Apply(Value),
}

/// The document of a patch. It becomes part of the object, so that it need not be copied; for a second attempt it is read again.
pub(super) struct PatchDocument(Mutex<Option<Value>>);

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The response to an unsupported patch type. Custom kinds list the supported ones.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/errors.go NewUnsupportedMediaTypeError
fn not_a_patch(kind: &Kind) -> Status {
    if kind.strategy.is_some() {
        return Status::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {JSON}, {MERGE}, {APPLY}"
        ));
    }
    let mut status = Status::unsupported_media_type("415: Unsupported Media Type");
    status.details = Some(Box::default());
    status
}

fn media_type(media: &str) -> &str {
    media.split(';').next().unwrap_or_default().trim()
}

// --- Patch ---

impl Patch {
    /// The options kind of a patch (PatchOptions, or those of apply), by its media type.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go PatchResource
    pub(super) fn writing(ctx: &RequestContext) -> Result<WriteVerb, Status> {
        let kind = &ctx.target.kind;
        match media_type(&ctx.media) {
            JSON | MERGE => Ok(WriteVerb::Patch),
            // A strategic merge needs to know more of a type than a definition tells.
            STRATEGIC if kind.strategy.is_none() => Ok(WriteVerb::Patch),
            APPLY => Ok(WriteVerb::Apply),
            _ => Err(not_a_patch(kind)),
        }
    }

    /// Reads the patch in the body.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go PatchResource, patchResource
    pub(super) fn read(
        ctx: &RequestContext,
        options: &WriteOptions,
        warnings: &mut Warnings,
    ) -> Result<Self, Status> {
        let media = media_type(&ctx.media);
        if media == APPLY {
            let decoded = decode::yaml_to_json(&ctx.body)
                .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
            return Ok(Patch::Apply(decoded.value));
        }
        let document = patch::read(&ctx.body)?;
        if options.validation != FieldValidation::Ignore
            && let Ok(duplicates) = decode::duplicates(&ctx.body)
        {
            if options.validation == FieldValidation::Strict
                && let Some(error) = duplicates.strict_error()
            {
                return Err(Status::bad_request(error));
            }
            if options.validation == FieldValidation::Warn {
                warnings.0.extend(duplicates.warnings());
            }
        }
        Ok(match media {
            JSON => Patch::Json(patch::json::Patch::try_new(document).map_err(|error| error.status())?),
            MERGE => Patch::Merge(PatchDocument::new(document)),
            _ => Patch::Strategic(PatchDocument::new(document)),
        })
    }

    /// Whether it creates an object that is not there.
    pub(super) fn creates(&self) -> bool {
        self.is_apply()
    }

    /// Whether it is a server-side apply patch, whose manager owns the fields that it sets.
    pub(super) fn is_apply(&self) -> bool {
        matches!(self, Patch::Apply(_))
    }

    /// The new state of an object, decoded and defaulted.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go applyPatchToCurrentObject
    pub(super) fn make(
        &self,
        old: Option<&Value>,
        write: &mut PendingWrite<'_>,
        custom: CustomConversion<'_>,
    ) -> Result<Value, Status> {
        let ctx = write.ctx;
        let resource = write.resource;
        let patched = match self {
            Patch::Apply(configuration) => {
                size::check(configuration, old, ManagedFields::Pending, ctx, resource)?;
                managed_fields::with_subject(
                    &resource.kind,
                    resource.strategy(),
                    ctx.target.part(),
                    custom,
                    |subject| {
                        let manager = &write.options.manager;
                        subject
                            .apply(
                                old,
                                configuration,
                                manager,
                                conflict_policy(write.options),
                                ctx.now,
                            )
                            .map_err(|error| Patch::not_applied(&error))
                    },
                )?
            }
            _ => self.patched(old.cloned().unwrap_or_default(), ctx, &resource.kind)?,
        };
        ctx.check_cancelled()?;
        let managed_fields = if self.is_apply() {
            ManagedFields::Recorded
        } else {
            ManagedFields::Pending
        };
        let mut object = decode_as(patched, &resource.kind, write.options, &mut write.warnings)?;
        size::check(&object, old, managed_fields, ctx, resource)?;
        ctx.check_cancelled()?;
        resource.strategy().set_defaults(&mut object);
        size::check(&object, old, managed_fields, ctx, resource)?;
        Ok(object)
    }

    /// The new state of a part of an object, such as its scale.
    pub(super) fn make_as(
        &self,
        old: &Value,
        kind: &Kind,
        write: &mut PendingWrite<'_>,
    ) -> Result<Value, Status> {
        let patched = self.patched(old.clone(), write.ctx, kind)?;
        decode_as(patched, kind, write.options, &mut write.warnings)
    }

    /// Patches a document. What is applied is not patched so.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go applyJSPatch, applyPatchToObject
    fn patched(&self, document: Value, ctx: &RequestContext, kind: &Kind) -> Result<Value, Status> {
        match self {
            Patch::Json(patch) => patch.apply(document).map_err(|error| error.status()),
            Patch::Merge(patch) => patch::merge::apply(document, patch.take(ctx)?),
            Patch::Strategic(patch) => {
                patch::strategic::apply(document, patch.take(ctx)?, &kind.ty).map_err(|error| error.status())
            }
            Patch::Apply(_) => Ok(document),
        }
    }

    /// The error of a rejected apply.
    pub(super) fn not_applied(error: &ApplyError) -> Status {
        match error {
            ApplyError::Conflicts(conflicts) => {
                let causes = conflicts
                    .causes()
                    .into_iter()
                    .map(|cause| StatusCause {
                        reason: "FieldManagerConflict".to_owned(),
                        message: cause.message,
                        field: cause.field,
                    })
                    .collect();
                Status::apply_conflict(causes, error.to_string())
            }
            other if other.code() == 400 => Status::bad_request(other.to_string()),
            other => Status::unknown(other.to_string()),
        }
    }
}

// --- PatchDocument ---

impl PatchDocument {
    fn new(document: Value) -> Self {
        PatchDocument(Mutex::new(Some(document)))
    }

    fn take(&self, ctx: &RequestContext) -> Result<Value, Status> {
        let document = self.0.lock().take();
        document.map_or_else(|| patch::read(&ctx.body), Ok)
    }
}

/// Whether an apply takes over the fields of other managers.
pub(super) fn conflict_policy(options: &WriteOptions) -> ApplyConflictPolicy {
    if options.force {
        ApplyConflictPolicy::Yes
    } else {
        ApplyConflictPolicy::No
    }
}

/// Decodes what a patch made.
fn decode_as(
    mut patched: Value,
    kind: &Kind,
    options: &WriteOptions,
    warnings: &mut Warnings,
) -> Result<Value, Status> {
    let mismatch = ExpectedKind::of(kind).mismatch(&patched);
    // Most of it is as it was, and needs neither be written nor read.
    if mismatch.is_none() && kind.ty.normalize_in_place(&mut patched) {
        return Ok(patched);
    }
    let text = patched.to_string();
    drop(patched);
    if let Some(why) = mismatch {
        return Err(not_decoded(text, &why));
    }
    let decoded = match kind.ty.json(text.as_bytes()) {
        Ok(decoded) => decoded,
        Err(error) => return Err(not_decoded(text, &error.to_string())),
    };
    if options.validation == FieldValidation::Strict
        && let Some(error) = decoded.strict_errors.strict_error()
    {
        return Err(not_decoded(text, &error));
    }
    if options.validation == FieldValidation::Warn {
        warnings.0.extend(decoded.strict_errors.warnings());
    }
    Ok(decoded.value)
}

fn not_decoded(patched: String, why: &str) -> Status {
    let shown = BadValue::Text(patched);
    let error = Error::invalid(&Path::new("patch"), shown, why);
    Status::invalid(GroupResource::new("", ""), "", &[error])
}
