//! The order in which the functions of a REST strategy are called, the same for all kinds (BeforeCreate, BeforeUpdate).

// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go BeforeCreate
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/update.go BeforeUpdate

use serde_json::{Map, Value};

use super::{ErrorList, RestStrategy, StrategyContext, Tree, TreeMut, for_kind, meta};
use crate::{
    field::Path,
    kinds::Kind,
    name::NameFormat,
    status::{GroupResource, Status},
};

/// What of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenPart<'p> {
    /// All a client may set, but the status where that has a path of its own.
    Object,
    /// The status.
    Status,
    /// What this other subresource stands for.
    Other(&'p str),
}

/// Takes a new object from "decoded, defaulted, admitted" to "may be stored": what a client cannot set is dropped,
/// and what is wrong is reported. Name, uid and creation time must be set. Gives the warnings.
pub fn create(object: &mut Value, at: &StrategyContext<'_>) -> Result<Vec<String>, Status> {
    let rules = for_kind(at.kind);
    let metadata = object.ensure_object("metadata");
    metadata.remove("deletionTimestamp");
    metadata.remove("deletionGracePeriodSeconds");
    rules.prepare_for_create(object, at);
    if rules.has_generation() {
        object.ensure_object("metadata").set("generation", 1);
    }
    let path = Path::new("metadata");
    let validate_meta = |names| meta::object_meta(object.at("metadata"), &path, names, at.kind.scope);
    let mut errors = if rules.metadata_first() {
        validate_meta(rules.name_format())
    } else {
        ErrorList::new()
    };
    if validates_standard_finalizers(at.kind) {
        meta::standard_finalizers(object.at("metadata"), &path, &mut errors);
    }
    rules.validate(object, at, &mut errors);
    if !errors.is_empty() {
        return Err(invalid(at.kind, object, &errors));
    }
    // Once more, as for kinds that validate no names themselves: a name must fit into a path.
    let errors = validate_meta(NameFormat::PathSegment);
    if !errors.is_empty() {
        return Err(invalid(at.kind, object, &errors));
    }
    Ok(rules.warnings(object, None))
}

/// Takes a changed object from "decoded, defaulted" to "may be stored", in the same way. Gives the warnings.
pub fn update(
    new: &mut Value,
    old: &Value,
    part: WrittenPart<'_>,
    at: &StrategyContext<'_>,
) -> Result<Vec<String>, Status> {
    let whole = for_kind(at.kind);
    let rules = match part {
        WrittenPart::Object | WrittenPart::Status => whole,
        WrittenPart::Other(name) => whole.subresource_strategy(name).unwrap_or(whole),
    };
    let before = old.at("metadata");
    new.ensure_object("metadata").copy_from("generation", before);
    match part {
        WrittenPart::Status => rules.prepare_for_status_update(new, old, at),
        WrittenPart::Object | WrittenPart::Other(_) => rules.prepare_for_update(new, old, at),
    }
    keep_identity(new.ensure_object("metadata"), before);
    // A status is no wish of the user, and what else its writer changed is no reason to look at the object again.
    if part != WrittenPart::Status && whole.has_generation() && whole.raises_generation(new, old) {
        let generation = before.int_or_zero("generation") + 1;
        new.ensure_object("metadata").set("generation", generation);
    }
    let path = Path::new("metadata");
    let after = new.at("metadata");
    let mut errors = meta::object_meta(after, &path, NameFormat::PathSegment, at.kind.scope);
    let changed = meta::object_meta_update(after, before, &path);
    errors.append(&mut changed.clone());
    if !reports_errors_once(at.kind) {
        // Once more, as the kind's own rules do.
        errors.append(&mut changed.without_repetitions());
    }
    if validates_standard_finalizers(at.kind) {
        meta::standard_finalizers(after, &path, &mut errors);
    }
    match part {
        WrittenPart::Status => rules.validate_status_update(new, old, at, &mut errors),
        WrittenPart::Object | WrittenPart::Other(_) => rules.validate_update(new, old, at, &mut errors),
    }
    if !errors.is_empty() {
        return Err(invalid(at.kind, new, &errors));
    }
    Ok(match part {
        WrittenPart::Object => rules.warnings(new, Some(old)),
        WrittenPart::Status => rules.status_warnings(new, old),
        WrittenPart::Other(_) => Vec::new(),
    })
}

/// Validates a review, which is answered and not stored. Its metadata is validated by the kind, and the error names
/// neither kind nor object.
pub fn review(object: &Value, at: &StrategyContext<'_>) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    for_kind(at.kind).validate(object, at, &mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid_with_omitted(
        GroupResource::new(&at.kind.group, ""),
        "",
        &errors,
        errors.omitted(),
    ))
}

/// Whether the finalizers of a kind are validated by more than their form. Most are; kinds of some groups never were.
fn validates_standard_finalizers(kind: &Kind) -> bool {
    // Custom kinds warn instead.
    if kind.strategy.is_some() {
        return false;
    }
    !matches!(
        (kind.group.as_str(), kind.kind.as_str()),
        (
            "admissionregistration.k8s.io"
                | "apiextensions.k8s.io"
                | "apiregistration.k8s.io"
                | "coordination.k8s.io"
                | "node.k8s.io"
                | "policy",
            _
        ) | ("", "Event")
    )
}

/// Whether what several rules of a kind report alike is reported once. It is where rules are declared along with the types: there
/// they are brought together. Kinds that users define, definitions, and API services have no such types.
fn reports_errors_once(kind: &Kind) -> bool {
    let group = kind.group.as_str();
    kind.strategy.is_none() && !matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io")
}

/// The answer to an object with errors.
fn invalid(kind: &Kind, object: &Value, errors: &ErrorList) -> Status {
    let reported = if reports_errors_once(kind) {
        errors.without_repetitions()
    } else {
        errors.clone()
    };
    let name = object.at("metadata").text("name");
    // Events of both groups are one kind, of the core group.
    let group = match kind.group.as_str() {
        "events.k8s.io" => "",
        group => group,
    };
    // A custom object is named by the kind in its body.
    let kind_name = match object.text("kind") {
        kind_name if kind.strategy.is_some() && !kind_name.is_empty() => kind_name,
        _ => &kind.kind,
    };
    Status::invalid_with_omitted(
        GroupResource::new(group, kind_name),
        name,
        &reported,
        reported.omitted(),
    )
}

/// What an update may leave out, or cannot change, is taken from the old metadata.
fn keep_identity(new: &mut Value, old: &Value) {
    for name in ["creationTimestamp", "deletionTimestamp"] {
        if old.has(name) {
            new.copy_from(name, old);
        }
    }
    for name in ["uid", "deletionGracePeriodSeconds"] {
        if !new.has(name) {
            new.copy_from(name, old);
        }
    }
}

// --- What most kinds do ---

/// Drops the status of a new object, if it has a path of its own.
pub(crate) fn reset_status(object: &mut Value, kind: &Kind) {
    if kind.subresource("status").is_none() {
        return;
    }
    let zero = kind.ty.zero();
    match zero.get("status") {
        Some(status) => object.set("status", status.clone()),
        None => drop(object.remove("status")),
    }
}

/// Gives an object its old status back, if that has a path of its own.
pub(crate) fn keep_status(new: &mut Value, old: &Value, kind: &Kind) {
    if kind.subresource("status").is_some() {
        new.copy_from("status", old);
    }
}

/// Gives an object everything back but status and metadata.
pub(super) fn keep_all_but_status(new: &mut Value, old: &Value) {
    let (Value::Object(fields), Value::Object(before)) = (&mut *new, old) else {
        return;
    };
    let kept = |name: &str| matches!(name, "status" | "metadata" | "kind" | "apiVersion");
    fields.retain(|name, value| kept(name) || before.get(name) == Some(value));
    for (name, value) in before.iter().filter(|(name, _)| !kept(name)) {
        if !fields.contains_key(name) {
            fields.insert(name.clone(), value.clone());
        }
    }
}

/// Whether two objects differ in anything but status and metadata.
pub(super) fn differs_outside_status(new: &Value, old: &Value) -> bool {
    let relevant = |object: &'_ Map<String, Value>| -> usize {
        object
            .keys()
            .filter(|name| !matches!(name.as_str(), "status" | "metadata"))
            .count()
    };
    let (Value::Object(new), Value::Object(old)) = (new, old) else {
        return false;
    };
    relevant(new) != relevant(old)
        || new
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "status" | "metadata"))
            .any(|(name, value)| old.get(name) != Some(value))
}

impl std::fmt::Debug for dyn RestStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Strategy")
    }
}
