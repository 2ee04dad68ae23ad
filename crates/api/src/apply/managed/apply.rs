//! Server-side apply of a configuration: merges it and updates `managedFields`.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go Apply
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/structuredmerge.go Apply
// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/merge/update.go Apply

use std::borrow::Cow;

use serde_json::Value;

use super::{
    conflict::Conflicts,
    entry::{Entry, ManagedFieldsError, Operation},
    field_manager::{ConversionError, FieldManager},
    last_applied,
    record::{self, Record},
    timestamps::same_but_record,
    update::{ApplyOptions, NotTracked, TakeFieldsError, strip_identity},
};
use crate::{
    apply::typed::{
        DuplicatePolicy, MANAGED_FIELDS, TypeErrors, copy_without, field_set, merge_objects, validate,
    },
    time::Time,
};

/// Whether an apply takes what others own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyConflictPolicy {
    /// It is refused, with a conflict for each field.
    No,
    /// It takes all it asks for.
    Yes,
}

/// Why a configuration was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Others own what would change. Answered with 409 and [`Conflicts::causes`].
    #[error("{0}")]
    Conflicts(Conflicts),
    /// The configuration is of another kind or version than the request. Answered with 400.
    #[error("invalid object type: {0}")]
    WrongType(String),
    /// The configuration brings a record. Answered with 400.
    #[error("metadata.managedFields must be nil")]
    RecordInConfiguration,
    /// The configuration is not of its type. Answered with 500, as upstream does.
    #[error("failed to create typed patch object ({name}): {errors}")]
    NotOfType {
        /// Namespace, name, version and kind.
        name: String,
        /// What is wrong.
        errors: TypeErrors,
    },
    /// The record of the object cannot be read. Answered with 500.
    #[error("failed to decode managed fields: {0}")]
    Record(#[from] ManagedFieldsError),
    /// The object itself is not of its type. Answered with 500.
    #[error("{0}")]
    Live(TypeErrors),
    /// The object cannot be had in the version that fields are recorded in. Answered with 500.
    #[error("{0}")]
    Convert(#[from] ConversionError),
}

const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager that moves objects from applying on the client to applying here.
const KUBECTL: &str = "kubectl";

/// An object after an apply, and its record.
struct ApplyResult<'a> {
    object: Value,
    record: Record<'a>,
}

// --- FieldManager ---

impl FieldManager<'_> {
    /// Applies a configuration onto an object, or onto nothing if it does not exist yet.
    ///
    /// The result is to be decoded, defaulted and checked like the body of an update: it may hold nulls where
    /// the last item of a list or map was removed. An apply that changes nothing gives the object back as it
    /// was, though its record may be new.
    pub fn apply(
        &self,
        live: Option<&Value>,
        configuration: &Value,
        manager: &str,
        force: ApplyConflictPolicy,
        now: Time,
    ) -> Result<Value, ApplyError> {
        let object = live.unwrap_or(self.blank);
        let record = Record::of(object)?;
        self.check_type(configuration)?;
        let mut applied = match self.try_apply(object, configuration, record, manager, force, now) {
            Err(ApplyError::Conflicts(mut conflicts)) if manager == KUBECTL => {
                // What the client applied before, and no other manager changed since, is its own.
                conflicts.remove(&last_applied::own_fields(self, object));
                if !conflicts.is_empty() {
                    return Err(ApplyError::Conflicts(conflicts));
                }
                let record = Record::of(object)?;
                self.try_apply(
                    object,
                    configuration,
                    record,
                    manager,
                    ApplyConflictPolicy::Yes,
                    now,
                )?
            }
            other => other?,
        };
        if manager == KUBECTL {
            last_applied::renew(&mut applied.object, configuration);
        }
        let ApplyResult { mut object, record } = applied;
        record::set(&mut object, record.encode());
        Ok(object)
    }

    fn try_apply<'a>(
        &'a self,
        live: &'a Value,
        configuration: &'a Value,
        mut record: Record<'a>,
        manager: &'a str,
        force: ApplyConflictPolicy,
        now: Time,
    ) -> Result<ApplyResult<'a>, ApplyError> {
        if record.entries.is_empty() {
            record = self.follow(self.blank, live, record, BEFORE_FIRST_APPLY, now)?;
        }
        self.check_configuration(configuration)?;
        self.reconcile(&mut record);
        let merged = merge_objects(live, configuration, self.typed).map_err(ApplyError::Live)?;
        let identity = self.identity(manager, Operation::Apply);
        let last = record
            .position(&identity)
            .map(|at| record.entries.swap_remove(at));
        let mut set = field_set(configuration, self.typed);
        self.reset.filter(&mut set);
        record.entries.push(Entry {
            identity: identity.clone(),
            api_version: Cow::Borrowed(self.api_version),
            set,
            time: last.as_ref().and_then(|last| last.time),
            source: None,
        });
        let new = match &last {
            Some(last) => self.prune(merged, &record, last)?,
            None => merged,
        };
        let asking = ApplyOptions {
            identity,
            force: force == ApplyConflictPolicy::Yes,
        };
        // What changes matters only to others.
        if record.entries.len() > 1 {
            let own = self.compare(live, &new)?;
            self.take(live, &new, &own, &mut record, Some(&asking))?;
        }
        let changed = !same_but_record(live, &new);
        if let Some(at) = record.position(&asking.identity) {
            let entry = &mut record.entries[at];
            strip_identity(&mut entry.set);
            entry.source = last
                .as_ref()
                .filter(|last| last.set == entry.set)
                .and_then(|last| last.source);
            if changed {
                entry.time = Some(now);
            }
            if entry.set.is_empty() {
                record.entries.swap_remove(at);
            }
        }
        let object = if changed {
            new
        } else {
            copy_without(live, MANAGED_FIELDS)
        };
        Ok(ApplyResult { object, record })
    }

    fn check_type(&self, configuration: &Value) -> Result<(), ApplyError> {
        let api_version = text(configuration, &["apiVersion"]);
        let kind = text(configuration, &["kind"]);
        if api_version == self.api_version && kind == self.kind {
            return Ok(());
        }
        Err(ApplyError::WrongType(type_name(api_version, kind)))
    }

    fn check_configuration(&self, configuration: &Value) -> Result<(), ApplyError> {
        let brought = configuration
            .get("metadata")
            .and_then(|metadata| metadata.get("managedFields"));
        if brought.is_some_and(Value::is_array) {
            return Err(ApplyError::RecordInConfiguration);
        }
        validate(configuration, self.typed, DuplicatePolicy::Refused).map_err(|errors| {
            let namespace = text(configuration, &["metadata", "namespace"]);
            let name = text(configuration, &["metadata", "name"]);
            let name = format!("{namespace}/{name}; {}", type_name(self.api_version, self.kind));
            ApplyError::NotOfType { name, errors }
        })
    }
}

// --- ApplyError ---

impl ApplyError {
    /// The HTTP status it is answered with.
    pub fn code(&self) -> u16 {
        match self {
            Self::Conflicts(_) => 409,
            Self::WrongType(_) | Self::RecordInConfiguration => 400,
            Self::NotOfType { .. } | Self::Record(_) | Self::Live(_) | Self::Convert(_) => 500,
        }
    }
}

impl From<NotTracked> for ApplyError {
    fn from(error: NotTracked) -> Self {
        match error {
            NotTracked::Convert(error) => Self::Convert(error),
            NotTracked::Compare(errors) => Self::Live(errors),
        }
    }
}

impl From<TakeFieldsError> for ApplyError {
    fn from(failure: TakeFieldsError) -> Self {
        match failure {
            TakeFieldsError::NotTracked(error) => error.into(),
            TakeFieldsError::Conflicts(conflicts) => Self::Conflicts(conflicts),
        }
    }
}

fn text<'v>(object: &'v Value, path: &[&str]) -> &'v str {
    let found = path.iter().try_fold(object, |value, name| value.get(name));
    found.and_then(Value::as_str).unwrap_or_default()
}

/// A type as messages name it: `apps/v1, Kind=Deployment`.
fn type_name(api_version: &str, kind: &str) -> String {
    match api_version.matches('/').count() {
        0 => format!("/{api_version}, Kind={kind}"),
        1 => format!("{api_version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}
