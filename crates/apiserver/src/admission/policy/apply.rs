//! Merges the apply configuration that an expression returned.

use k3_api::{
    apply::typed::{DuplicatePolicy, merge, validate},
    type_schema::{ListKind, Shape, TypeSchema},
};
use k3_cel::Value as Made;
use serde_json::Value;

use super::super::versioned_attributes::VersionedResource;

/// The object with what an expression gave, merged as an apply would.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go ApplyStructuredMergeDiff
pub(super) fn apply(object: &Value, made: &Made<'_>, form: &VersionedResource) -> Result<Value, String> {
    check_names(made).map_err(|why| format!("type mismatch: {why}"))?;
    let mut patch = made.to_json().map_err(|error| error.to_string())?;
    for name in ["apiVersion", "kind"] {
        if let Some(value) = object.get(name) {
            patch[name] = value.clone();
        }
    }
    let ty = form.ty();
    let failed = |why: String| format!("error applying patch: {why}");
    validate(&patch, ty, DuplicatePolicy::Refused)
        .map_err(|error| failed(format!("failed to convert patch object to typed object: {error}")))?;
    let mut atomics = Vec::new();
    find_atomics(&patch, ty, "", &mut atomics);
    if !atomics.is_empty() {
        return Err(failed(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        )));
    }
    merge(object, &patch, ty).map_err(|error| failed(format!("failed to merge patch: {error}")))
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
pub(super) fn check_names(made: &Made<'_>) -> Result<(), String> {
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
    Err(errors.join("\n"))
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
