//! REST strategies: defaulting, validation, immutable and ignored fields, and table columns of each kind.
//!
//! Every kind has a [`RestStrategy`]; [`for_kind`] finds it. The functions of this module bring them into the order that
//! all kinds share: [`create`] and [`update`] take an object from "decoded" to "may be stored", and [`review`]
//! validates a review, which is not stored. All are pure; time and the user are in the [`StrategyContext`].
//!
//! Objects are trees in the normal form of their type, as `decode` makes them: what is empty is left out, and
//! what is always written is there. Rules keep that form.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go RESTCreateStrategy
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/update.go RESTUpdateStrategy
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go RESTDeleteStrategy, RESTGracefulDeleteStrategy, GarbageCollectionDeleteStrategy

mod columns;
mod flow;
mod meta;
mod tree;

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;

pub use self::{
    columns::{Column, ColumnDescription, Row, age, named_row},
    flow::{WrittenPart, create, review, update},
    meta::{object_meta, object_meta_update, standard_finalizer},
    tree::{Tree, TreeMut},
};
pub(crate) use self::{
    flow::{keep_status, reset_status},
    tree::decoded_bytes,
};
pub use crate::field::ErrorList;
use crate::{apply::managed::ResetFields, kinds::Kind, name::NameFormat, time::Time};

/// What a rule may know of the request it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct StrategyContext<'r> {
    /// The kind of the object.
    pub kind: &'r Kind,
    /// When it is written.
    pub now: Time,
    /// Who writes it.
    pub user: &'r User,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The UID of the user; may be empty.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known, by key.
    pub extra: Vec<(String, Vec<String>)>,
}

/// A field that lists and watches can be narrowed by, beside `metadata.name` and `metadata.namespace`.
#[derive(Clone, Debug)]
pub struct SelectableField {
    /// Its path, as in `spec.nodeName`.
    pub field: Cow<'static, str>,
    get: FieldGetter,
}

/// How the value of a field is found.
#[derive(Clone, Debug)]
enum FieldGetter {
    /// By a rule of the kind.
    Rule(fn(&Value) -> Cow<'_, str>),
    /// At the end of a way of fields.
    Way(Arc<[String]>),
}

/// What happens to the dependents of a deleted object when the client does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollectionPolicy {
    /// The garbage collector deletes them.
    DeleteDependents,
    /// They stay, and lose their owner.
    OrphanDependents,
}

/// How an object with a grace period is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GracefulDeletion {
    /// It is removed at once.
    None,
    /// It is marked, and removed after these seconds or when it is deleted again with none.
    Seconds(i64),
}

/// The rules of a kind. What is not overridden is what most kinds do.
///
/// The order of a create: `default`, (admission), `prepare_for_create`, names and times set, `validate`. Of an update:
/// `default` of what was sent, `prepare_for_update`, `validate_update`.
pub trait RestStrategy: Send + Sync {
    /// What names look like.
    fn name_format(&self) -> NameFormat {
        NameFormat::Subdomain
    }

    /// Whether the metadata of a new object is validated before the rest of it, and not only when nothing else is wrong.
    fn metadata_first(&self) -> bool {
        true
    }

    /// Fills in what was left out. Runs on every object that is decoded, be it new or the result of a patch.
    fn set_defaults(&self, object: &mut Value) {
        let _ = object;
    }

    /// Takes out what a client cannot set, and sets what begins with the object. Most kinds: the status is dropped.
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        flow::reset_status(object, at.kind);
    }

    /// Takes back what a client cannot change. Most kinds: the status stays as it was.
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        flow::keep_status(new, old, at.kind);
    }

    /// The same for a write of the status: most kinds keep everything but status and metadata.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        let _ = at;
        flow::keep_all_but_status(new, old);
    }

    /// What is wrong with a new object, beside its metadata, which [`create`] validates first.
    fn validate(&self, object: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let _ = (object, at, errors);
    }

    /// What is wrong with a change, beside the metadata, which [`update`] validates first.
    fn validate_update(&self, new: &Value, old: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let _ = old;
        self.validate(new, at, errors);
    }

    /// What is wrong with a change of the status, beside the metadata.
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let _ = (new, old, at, errors);
    }

    /// The rules of an update through a subresource other than the status, such as `ephemeralcontainers`, `resize`,
    /// `approval`, `finalize`: their `prepare_for_update`, `validate_update` and `reset` are used.
    fn subresource_strategy(&self, subresource: &str) -> Option<&'static dyn RestStrategy> {
        let _ = subresource;
        None
    }

    /// Warnings about an object that is valid. `old` is there if it is an update.
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (new, old);
        Vec::new()
    }

    /// The same for a write of the status.
    fn status_warnings(&self, new: &Value, old: &Value) -> Vec<String> {
        let _ = (new, old);
        Vec::new()
    }

    /// Whether `metadata.generation` counts the changes of what the user asks for. It begins with 1.
    fn has_generation(&self) -> bool {
        false
    }

    /// Whether the change from `old` to `new` (both prepared) is one of what the user asks for, and so raises the
    /// generation. Most kinds: anything but metadata and status.
    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        flow::differs_outside_status(new, old)
    }

    /// Whether a PUT of an object that does not exist creates it.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether an update may leave the resourceVersion out.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Which fields a write cannot set, so that no manager becomes their owner; `subresource` is empty for the object
    /// itself. `None`: the status for the object itself, all but the status for the status.
    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        let _ = subresource;
        None
    }

    /// The fields that lists and watches can be narrowed by.
    fn selectable_fields(&self) -> &[SelectableField] {
        &[]
    }

    /// Whether lists and watches can be narrowed by `metadata.namespace`. Most can, even where there are no namespaces.
    fn selects_by_namespace(&self) -> bool {
        true
    }

    /// The error for selecting by another field.
    fn unsupported_field_label(&self, field: &str) -> String {
        if self.selectable_fields().is_empty() {
            crate::selector::field::not_known(field)
        } else {
            crate::selector::field::not_supported(field)
        }
    }

    /// What becomes of the dependents of a deleted object when the client does not say.
    fn default_garbage_collection_policy(&self) -> GarbageCollectionPolicy {
        GarbageCollectionPolicy::DeleteDependents
    }

    /// The warning about a deletion that leaves open what becomes of dependents.
    fn unspecified_propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// How much time an object that is deleted gets to end: `asked` is what the client said.
    fn check_graceful_delete(&self, object: &Value, asked: Option<i64>) -> GracefulDeletion {
        let _ = (object, asked);
        GracefulDeletion::None
    }

    /// The columns of a table of such objects.
    fn columns(&self) -> &[Column] {
        columns::NAME_AND_CREATION
    }

    /// A row of that table: a cell for each column.
    fn row(&self, object: &Value, now: Time) -> Row {
        let _ = now;
        columns::name_and_creation(object)
    }

    /// Whether a row is made of fields of a name, wherever they stand: of a long list nothing else is read. `None`: it may be made of
    /// any.
    fn row_reads(&self) -> Option<fn(&str) -> bool> {
        None
    }

    /// Whether rows are to be arranged, for which all of them must be there.
    fn is_arranged(&self) -> bool {
        false
    }

    /// Arranges the rows of a list, for what shows only beside others. Of the objects there may be nothing but the metadata left.
    fn arrange(&self, rows: &mut [(Value, Row)]) {
        let _ = rows;
    }
}

// --- SelectableField ---

impl SelectableField {
    /// A field whose value a rule finds; empty if it is not set.
    pub const fn rule(field: &'static str, get: fn(&Value) -> Cow<'_, str>) -> Self {
        SelectableField {
            field: Cow::Borrowed(field),
            get: FieldGetter::Rule(get),
        }
    }

    /// A field at a path: a text, a number, or yes or no.
    pub fn at(way: Vec<String>) -> Self {
        SelectableField {
            field: Cow::Owned(way.join(".")),
            get: FieldGetter::Way(way.into()),
        }
    }

    /// Its value in an object; empty if it is not set.
    pub fn get<'v>(&self, object: &'v Value) -> Cow<'v, str> {
        match &self.get {
            FieldGetter::Rule(get) => get(object),
            FieldGetter::Way(way) => match way.iter().fold(object, |value, name| value.at(name)) {
                Value::String(text) => Cow::Borrowed(text),
                Value::Null => Cow::Borrowed(""),
                value => Cow::Owned(crate::go::plain(value)),
            },
        }
    }
}

/// The rules of a kind.
pub fn for_kind(kind: &Kind) -> &dyn RestStrategy {
    match &kind.strategy {
        Some(rules) => &**rules,
        None => crate::kinds::strategy(&kind.group, &kind.kind).unwrap_or(&DefaultStrategy),
    }
}

/// The rules of a kind that asks nothing beside its shape.
struct DefaultStrategy;

impl RestStrategy for DefaultStrategy {}
