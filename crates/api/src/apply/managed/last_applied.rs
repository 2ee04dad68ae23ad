//! The annotation `kubectl.kubernetes.io/last-applied-configuration`, for clients that migrate from client-side to server-side
//! apply.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/lastappliedmanager.go allowedConflictsFromLastApplied
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/lastappliedupdater.go buildLastApplied, hasLastApplied

use serde_json::{Map, Value};

use super::field_manager::FieldManager;
use crate::{
    apply::{
        FieldSet,
        typed::{DuplicatePolicy, compare_objects, field_set, validate},
    },
    go,
};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How much all annotations of an object may hold.
const MAX_BYTES: usize = 256 * 1024;

/// What a client applied last and no other manager changed since. `None` if that is unknown.
pub(super) fn own_fields(subject: &FieldManager<'_>, live: &Value) -> FieldSet<'static> {
    find(subject, live).unwrap_or_default()
}

fn find(subject: &FieldManager<'_>, live: &Value) -> Option<FieldSet<'static>> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    let kind = last.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind.is_empty() || last.get("apiVersion").and_then(Value::as_str) != Some(subject.api_version) {
        return None;
    }
    validate(live, subject.typed, DuplicatePolicy::Refused).ok()?;
    validate(&last, subject.typed, DuplicatePolicy::Refused).ok()?;
    let changed = compare_objects(&last, live, subject.typed).ok()?;
    let mut set = field_set(&last, subject.typed);
    set.remove(&changed.modified);
    set.remove(&changed.added);
    set.remove(&changed.removed);
    Some(set.into_owned())
}

/// Writes what was applied here into the annotation, if the object has it: a client that returns to applying on the
/// client finds the right annotation.
pub(super) fn renew(object: &mut Value, configuration: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut last = configuration.clone();
    if let Some(metadata) = last.get_mut("metadata").and_then(Value::as_object_mut) {
        match metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            Some(annotations) => {
                annotations.remove(ANNOTATION);
            }
            None => {
                metadata.remove("annotations");
            }
        }
    }
    let mut text = String::new();
    go::push_json(&mut text, &last);
    text.push('\n');
    let Some(annotations) = annotations_mut(object) else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    if size(annotations) > MAX_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object
        .get("metadata")?
        .get("annotations")?
        .get(ANNOTATION)?
        .as_str()?;
    Some(text).filter(|text| !text.is_empty())
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object
        .get_mut("metadata")?
        .get_mut("annotations")?
        .as_object_mut()
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}
