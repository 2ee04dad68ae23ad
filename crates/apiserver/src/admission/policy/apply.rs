//! Merges the apply configuration that an expression returned.

use k3_api::{
    apply::typed::{DuplicatePolicy, TypeErrors, merge, validate},
    type_schema::{ListKind, Shape, TypeSchema},
};
use k3_cel::{EvalError, Value as Made};
use serde_json::Value;

use super::super::versioned_attributes::VersionedResource;

/// The names of types that stand at other places than theirs.
#[derive(Debug, thiserror::Error)]
#[error("type mismatch: {0}")]
pub(super) struct TypeNameMismatch(String);

/// Why an apply configuration is not merged.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    #[error(transparent)]
    TypeNames(#[from] TypeNameMismatch),
    /// What was made cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] EvalError),
    #[error("error applying patch: failed to convert patch object to typed object: {0}")]
    Typed(#[source] TypeErrors),
    /// The paths of what would be replaced as a whole.
    #[error(
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {0}"
    )]
    Atomic(String),
    #[error("error applying patch: failed to merge patch: {0}")]
    Merge(#[source] TypeErrors),
}

/// The object with what an expression gave, merged as an apply would.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go ApplyStructuredMergeDiff
pub(super) fn apply(object: &Value, made: &Made<'_>, form: &VersionedResource) -> Result<Value, ApplyError> {
    check_names(made)?;
    let mut patch = made.to_json()?;
    for name in ["apiVersion", "kind"] {
        if let Some(value) = object.get(name) {
            patch[name] = value.clone();
        }
    }
    let ty = form.ty();
    validate(&patch, ty, DuplicatePolicy::Refused).map_err(ApplyError::Typed)?;
    let mut atomics = Vec::new();
    find_atomics(&patch, ty, "", &mut atomics);
    if !atomics.is_empty() {
        return Err(ApplyError::Atomic(atomics.join(", ")));
    }
    merge(object, &patch, ty).map_err(ApplyError::Merge)
}

/// Parts that would be replaced as a whole: who sets one field of them would lose the others.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go findAtomics
fn find_atomics(value: &Value, typed: &dyn TypeSchema, path: &str, found: &mut Vec<String>) {
    match (typed.shape(), value) {
        (Shape::Struct(fields), Value::Object(entries)) => {
            if fields.is_atomic() {
                found.push(path.to_owned());
            }
            for (name, value) in entries {
                if let Some(field) = fields.field(name) {
                    find_atomics(value, field, &format!("{path}.{name}"), found);
                }
            }
        }
        (Shape::Map { atomic: true, .. }, Value::Object(_)) => found.push(path.to_owned()),
        (Shape::List { items, kind }, Value::Array(list)) => {
            if kind == ListKind::Atomic {
                found.push(path.to_owned());
            }
            for (at, item) in list.iter().enumerate() {
                find_atomics(item, items, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

/// The names of the types in an expression must be those of the places they stand at: `CachedObject.spec` in `spec`.
pub(super) fn check_names(made: &Made<'_>) -> Result<(), TypeNameMismatch> {
    let mut errors = Vec::new();
    match made {
        Made::List(operations) => {
            for operation in operations.iter().flatten() {
                if let Made::Message(_, fields) = &operation {
                    let value = fields.iter().find(|(name, _)| &**name == "value");
                    if let Some((_, value @ Made::Message(name, _))) = value {
                        check(value, name, &mut errors);
                    }
                }
            }
        }
        Made::Message(..) => check(made, "Object", &mut errors),
        _ => {}
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(TypeNameMismatch(errors.join("\n")))
}

fn check(made: &Made<'_>, expected: &str, errors: &mut Vec<String>) {
    match made {
        Made::Message(name, fields) => {
            if **name != *expected {
                errors.push(format!(
                    "unexpected type name \"{name}\", expected \"{expected}\", which matches field name path from root Object type"
                ));
            }
            for (field, value) in fields.iter() {
                check(value, &format!("{expected}.{field}"), errors);
            }
        }
        Made::List(list) => {
            for item in list.iter().flatten() {
                check(&item, expected, errors);
            }
        }
        _ => {}
    }
}
