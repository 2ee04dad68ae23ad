//! Decodes the object in a request body.

use std::fmt::Write;

use k3_api::{
    decode::{self, DecodeError, DecodedBody, StrictErrors, TypeMeta},
    go,
    kinds::{Kind, builtin},
    protobuf,
    schema::ObjectType,
    status::Status,
};
use serde_json::Value;

use super::request_context::{RequestContext, Warnings};
use crate::{
    http::Format,
    request::{FieldValidation, WriteOptions},
};

/// The kind that a request body must have.
#[derive(Clone, Copy)]
pub(super) struct ExpectedKind<'e> {
    pub group: &'e str,
    pub version: &'e str,
    pub kind: &'e str,
    pub ty: &'e ObjectType,
}

/// Decodes the body of a create or an update. What it may leave out, kind and apiVersion, is filled in.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go createHandler
pub(super) fn read(
    ctx: &RequestContext,
    expected: ExpectedKind<'_>,
    options: &WriteOptions,
    warnings: &mut Warnings,
) -> Result<Value, Status> {
    let Some(format) = ctx.format() else {
        return Err(unread());
    };
    let decoded = decode_as(&ctx.body, format, expected)?;
    let mut object = decoded.value;
    if options.validation == FieldValidation::Strict
        && let Some(error) = decoded.strict_errors.strict_error()
    {
        return Err(not_handled(
            expected.kind,
            expected.version,
            expected.kind,
            &error,
        ));
    }
    if options.validation == FieldValidation::Warn {
        warnings.0.extend(decoded.strict_errors.warnings());
    }
    // A custom object names its kind, which is validated.
    if expected.ty.table().is_some()
        && let Value::Object(fields) = &mut object
    {
        fields.insert("kind".to_owned(), expected.kind.into());
        fields.insert("apiVersion".to_owned(), expected.api_version().into());
    }
    Ok(object)
}

/// 415 Unsupported Media Type: no serializer for the body.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/errors.go NewUnsupportedMediaTypeError
fn unread() -> Status {
    Status::unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf",
    )
}

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go transformDecodeError
fn decode_as(body: &[u8], format: Format, expected: ExpectedKind<'_>) -> Result<DecodedBody, Status> {
    let unrecognized = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            expected.kind,
            summary(body)
        ))
    };
    match format {
        Format::Json => {
            // A body that is decoded and is what is expected: its type need not be looked for first.
            if expected.ty.table().is_some()
                && let Ok(decoded) = expected.ty.json(body)
                && expected.is_named_by(&decoded.value)
            {
                return Ok(decoded);
            }
            let type_meta = decode::type_of(body).map_err(|error| {
                unrecognized(&format!("couldn't get version/kind; json parse error: {error}"))
            })?;
            expected.check_body(&type_meta, body)?;
            expected.ty.json(body).map_err(|error| {
                not_handled(expected.kind, expected.version, expected.kind, &error.to_string())
            })
        }
        Format::Yaml => {
            let untyped = decode::yaml_to_json(body).map_err(|error| match error {
                DecodeError::Type(_) => {
                    unrecognized(&format!("couldn't get version/kind; json parse error: {error}"))
                }
                _ => unrecognized(&error),
            })?;
            let text = serde_json::to_vec(&untyped.value).expect("a tree can be written");
            let type_meta = decode::type_of(&text).map_err(|error| {
                unrecognized(&format!("couldn't get version/kind; json parse error: {error}"))
            })?;
            expected.check_body(&type_meta, &text)?;
            expected.ty.yaml_tree(untyped, &text).map_err(|error| {
                not_handled(expected.kind, expected.version, expected.kind, &error.to_string())
            })
        }
        Format::Protobuf => {
            let found = protobuf::unwrap(body).map_err(|error| unrecognized(&error))?;
            expected.check(&TypeMeta {
                api_version: found.api_version.clone(),
                kind: found.kind.clone(),
            })?;
            let Some(ty) = expected.ty.table() else {
                return Err(unread());
            };
            let mut value = protobuf::decode(body, ty).map_err(|error| {
                not_handled(expected.kind, expected.version, expected.kind, &error.to_string())
            })?;
            // Zero values that protobuf writes and JSON leaves out, and the other way round.
            if expected.ty.normalize_in_place(&mut value) {
                return Ok(DecodedBody {
                    value,
                    strict_errors: StrictErrors::default(),
                });
            }
            expected.ty.normalize(&value).map_err(|error| {
                not_handled(expected.kind, expected.version, expected.kind, &error.to_string())
            })
        }
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go transformDecodeError
fn not_handled(kind: &str, version: &str, wanted: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "{kind} in version {} cannot be handled as a {wanted}: {why}",
        go::quote(version)
    ))
}

/// The beginning of a body, to recognize it by: text if it looks like JSON, else hexadecimal digits.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go summarizeData
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &body[..body.len().min(SHOWN)];
    let mut text = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("text can be written to memory");
            text
        }),
    };
    if body.len() > SHOWN {
        text.push_str(" ...");
    }
    text
}

/// The name Go has for the package a kind is converted to.
fn internal_package(group: &str) -> &str {
    if group.is_empty() {
        "core"
    } else {
        group.split('.').next().unwrap_or_default()
    }
}

// --- ExpectedKind ---

impl<'e> ExpectedKind<'e> {
    pub(super) fn of(kind: &'e Kind) -> Self {
        ExpectedKind {
            group: &kind.group,
            version: &kind.version,
            kind: &kind.kind,
            ty: &kind.ty,
        }
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether kind and apiVersion of a tree are the expected ones, or left out.
    fn is_named_by(&self, tree: &Value) -> bool {
        let is_expected = |name: &str, expected: &str| match tree.get(name).and_then(Value::as_str) {
            None | Some("") => true,
            Some(found) => found == expected,
        };
        is_expected("kind", self.kind) && is_expected("apiVersion", &self.api_version())
    }

    /// Why a tree cannot be the expected kind; `None` if it can.
    pub(super) fn mismatch(&self, tree: &Value) -> Option<String> {
        let text = |name: &str| {
            tree.get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let type_meta = TypeMeta {
            api_version: text("apiVersion"),
            kind: text("kind"),
        };
        // The rules of a custom kind validate its kind.
        self.ty.table()?;
        self.check(&type_meta).err().map(|mismatch| mismatch.why)
    }

    /// Checks that a body can be what is expected, by its type metadata. A custom object must name its kind; the rules of the
    /// kind validate it.
    fn check_body(&self, type_meta: &TypeMeta, body: &[u8]) -> Result<(), Status> {
        if self.ty.table().is_some() {
            return Ok(self.check(type_meta)?);
        }
        if type_meta.kind.is_empty() {
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{}' ({})",
                self.kind,
                String::from_utf8_lossy(body),
                summary(body)
            )));
        }
        let expected = self.api_version();
        if type_meta.api_version.is_empty() || type_meta.api_version == expected {
            return Ok(());
        }
        Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            type_meta.api_version
        )))
    }

    /// Checks the type metadata of a body.
    fn check(&self, type_meta: &TypeMeta) -> Result<(), TypeMetaMismatch> {
        let expected = self.api_version();
        let version = if type_meta.api_version.is_empty() {
            &expected
        } else {
            &type_meta.api_version
        };
        let kind = if type_meta.kind.is_empty() {
            self.kind
        } else {
            &type_meta.kind
        };
        if *version == expected && kind == self.kind {
            return Ok(());
        }
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        let (why, is_other_version) = if builtin().kind(group, short, kind).is_none() {
            let why = format!(
                "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
                go::quote(kind),
                go::quote(version)
            );
            (why, false)
        } else if kind == self.kind && group == self.group {
            let why = format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            );
            (why, true)
        } else {
            let package = internal_package(self.group);
            let why = format!(
                "converting ({short}.{kind}) to ({package}.{}): unknown conversion",
                self.kind
            );
            (why, false)
        };
        let status = if is_other_version {
            Status::bad_request(&why)
        } else {
            not_handled(kind, short, self.kind, &why)
        };
        Err(TypeMetaMismatch {
            why,
            status: Box::new(status),
        })
    }
}

/// A body that is something else than is expected.
struct TypeMetaMismatch {
    why: String,
    /// The answer to it.
    status: Box<Status>,
}

impl From<TypeMetaMismatch> for Status {
    fn from(mismatch: TypeMetaMismatch) -> Self {
        *mismatch.status
    }
}
