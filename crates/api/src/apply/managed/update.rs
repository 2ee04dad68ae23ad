//! Updates `managedFields` after a write that is not an apply (PUT, patch).

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go Update, UpdateNoErrors, emptyManagedFieldsOnErr
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/structuredmerge.go Update
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/stripmeta.go stripFields
// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/merge/update.go Update, reconcileManagedFieldsWithSchemaChanges

use std::{borrow::Cow, sync::LazyLock};

use serde_json::Value;

use super::{
    cap::cap,
    conflict::{Conflicts, OwnerConflicts},
    entry::{Entry, Identity, Operation},
    field_manager::{ConversionError, FieldManager},
    record::{self, DetachedRecord, Record},
};
use crate::{
    apply::{
        FieldSet,
        typed::{Comparison, TypeErrors, compare_objects, reconcile},
    },
    time::Time,
    type_schema::TypeSchema,
};

/// Why the record could not follow a write.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTracked {
    #[error("{0}")]
    Convert(#[from] ConversionError),
    #[error("failed to compare objects: {0}")]
    Compare(#[from] TypeErrors),
}

/// Fields without an owner: who creates an object does not own its name.
const IDENTITY: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

// --- FieldManager ---

impl FieldManager<'_> {
    /// Records a write: `new` is the object as it will be stored, `live` as it was, `None` if it is created.
    ///
    /// Never fails: if the record cannot be kept, the old one stays. An object without a record, one from
    /// before records were kept, gets none by this.
    pub fn track(&self, live: Option<&Value>, new: &mut Value, manager: &str, now: Time) {
        match self.tracked(live, new, manager, now) {
            Ok(Some(record)) => record.attach(new, live),
            Ok(None) => record::set(new, None),
            Err(_) => record::set(new, live.and_then(record::raw).cloned()),
        }
    }

    fn tracked(
        &self,
        live: Option<&Value>,
        new: &Value,
        manager: &str,
        now: Time,
    ) -> Result<Option<DetachedRecord>, NotTracked> {
        let record = Record::of_request(live, new, self.subresource);
        let exists = live.is_some_and(has_uid);
        if record.entries.is_empty() && exists {
            return Ok(None);
        }
        let record = self.follow(live.unwrap_or(self.blank), new, record, manager, now)?;
        Ok(Some(record.detach()))
    }

    /// The record after a write: the writer owns what it changed, the others no longer do.
    pub(super) fn follow<'a>(
        &'a self,
        live: &'a Value,
        new: &'a Value,
        mut record: Record<'a>,
        manager: &'a str,
        now: Time,
    ) -> Result<Record<'a>, NotTracked> {
        self.reconcile(&mut record);
        let own = self.compare(live, new)?;
        self.take(live, new, &own, &mut record, None)
            .map_err(TakeFieldsError::into_not_tracked)?;
        let mut set = own.modified;
        set.absorb(own.added);
        self.reset.filter(&mut set);
        strip_identity(&mut set);
        if !set.is_empty() {
            let identity = self.identity(manager, Operation::Update);
            let at = record.position(&identity);
            let previous = at.map(|at| record.entries.swap_remove(at));
            if let Some(previous) = &previous {
                set.add(&previous.set);
            }
            let api_version = Cow::Borrowed(self.api_version);
            record.entries.push(Entry {
                identity,
                api_version,
                set,
                time: Some(now),
                source: None,
            });
        }
        cap(&mut record);
        Ok(record)
    }

    pub(super) fn identity<'a>(&'a self, manager: &'a str, operation: Operation) -> Identity<'a> {
        Identity {
            manager: Cow::Borrowed(if manager.is_empty() { "unknown" } else { manager }),
            operation,
            subresource: Cow::Borrowed(self.subresource),
            api_version: (operation == Operation::Update).then_some(Cow::Borrowed(self.api_version)),
        }
    }

    /// Makes the record fit today's types; forgets what was recorded in versions that no longer exist.
    pub(super) fn reconcile(&self, record: &mut Record<'_>) {
        record
            .entries
            .retain_mut(|entry| match self.typed_at(&entry.api_version) {
                Some(typed) => {
                    reconcile(&mut entry.set, typed);
                    true
                }
                None => false,
            });
    }

    pub(super) fn compare<'a>(
        &'a self,
        old: &'a Value,
        new: &'a Value,
    ) -> Result<Comparison<'a>, NotTracked> {
        let mut found = compare_objects(old, new, self.typed)?;
        for set in [&mut found.removed, &mut found.modified, &mut found.added] {
            self.reset.filter(set);
        }
        Ok(found)
    }

    /// Takes what a write changed away from all but the writer. `writer` is an applier that would not take
    /// without asking.
    pub(super) fn take(
        &self,
        live: &Value,
        new: &Value,
        own: &Comparison<'_>,
        record: &mut Record<'_>,
        writer: Option<&ApplyOptions<'_>>,
    ) -> Result<(), TakeFieldsError> {
        let others = self.other_versions(live, new, record, writer)?;
        let mut comparisons = Vec::with_capacity(others.len());
        for other in &others {
            let mut found = compare_objects(&other.old, &other.new, other.typed).map_err(NotTracked::from)?;
            for set in [&mut found.removed, &mut found.modified, &mut found.added] {
                self.reset_at(&other.api_version).filter(set);
            }
            comparisons.push((other.api_version.as_str(), found));
        }
        let changed = |entry: &Entry<'_>| {
            if entry.api_version == self.api_version {
                return Some(own);
            }
            comparisons
                .iter()
                .find(|(version, _)| *version == entry.api_version)
                .map(|(_, found)| found)
        };
        let is_writer = |entry: &Entry<'_>| writer.is_some_and(|writer| entry.identity == writer.identity);
        if writer.is_some_and(|writer| !writer.force) {
            let mut conflicts = Vec::new();
            for entry in record.entries.iter().filter(|entry| !is_writer(entry)) {
                let Some(changed) = changed(entry) else { continue };
                let mut wanted = entry.set.intersection(&changed.modified);
                wanted.add(&entry.set.intersection(&changed.added));
                if !wanted.is_empty() {
                    conflicts.push(OwnerConflicts {
                        owner: entry.identity.clone().into_owned(),
                        fields: wanted.into_owned(),
                    });
                }
            }
            if !conflicts.is_empty() {
                conflicts.sort_by_cached_key(|conflicts| conflicts.owner.text());
                return Err(TakeFieldsError::Conflicts(Conflicts(conflicts)));
            }
        }
        record.entries.retain_mut(|entry| {
            if !is_writer(entry) {
                let Some(changed) = changed(entry) else {
                    return false;
                };
                for taken in [&changed.modified, &changed.added, &changed.removed] {
                    if entry.set.remove(taken) {
                        entry.source = None;
                    }
                }
            }
            !entry.set.is_empty()
        });
        Ok(())
    }

    /// The objects in the other versions that the record is in.
    fn other_versions<'v>(
        &'v self,
        live: &'v Value,
        new: &'v Value,
        record: &Record<'_>,
        writer: Option<&ApplyOptions<'_>>,
    ) -> Result<Vec<OtherVersion<'v>>, NotTracked> {
        let mut found: Vec<OtherVersion<'v>> = Vec::new();
        for entry in &record.entries {
            let version = entry.api_version.as_ref();
            let is_writer = writer.is_some_and(|writer| entry.identity == writer.identity);
            let known = version == self.api_version || found.iter().any(|other| other.api_version == version);
            if is_writer || known {
                continue;
            }
            let Some(typed) = self.typed_at(version) else {
                continue;
            };
            let old = self.convert(live, version).map_err(|error| error.of("live"))?;
            let new = self.convert(new, version).map_err(|error| error.of("new"))?;
            found.push(OtherVersion {
                api_version: version.to_owned(),
                old,
                new,
                typed,
            });
        }
        Ok(found)
    }
}

/// Both objects of a write in another version.
struct OtherVersion<'v> {
    api_version: String,
    old: Cow<'v, Value>,
    new: Cow<'v, Value>,
    typed: &'v dyn TypeSchema,
}

/// Who applies, and whether it takes what others own.
pub(super) struct ApplyOptions<'a> {
    pub(super) identity: Identity<'a>,
    pub(super) force: bool,
}

/// Why fields could not be taken.
pub(super) enum TakeFieldsError {
    NotTracked(NotTracked),
    Conflicts(Conflicts),
}

// --- Failure ---

impl TakeFieldsError {
    fn into_not_tracked(self) -> NotTracked {
        match self {
            Self::NotTracked(error) => error,
            Self::Conflicts(_) => unreachable!("only an applier asks before it takes"),
        }
    }
}

impl From<NotTracked> for TakeFieldsError {
    fn from(error: NotTracked) -> Self {
        Self::NotTracked(error)
    }
}

pub(super) fn strip_identity(set: &mut FieldSet<'_>) {
    static FIELDS: LazyLock<FieldSet<'static>> = LazyLock::new(|| FieldSet::of_fields(IDENTITY));
    set.remove(&FIELDS);
}

fn has_uid(object: &Value) -> bool {
    let uid = object.get("metadata").and_then(|metadata| metadata.get("uid"));
    uid.and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}
