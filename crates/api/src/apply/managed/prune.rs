//! Removes fields that an applier applied before and that its new configuration no longer contains.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/merge/update.go prune, addBackOwnedItems, addBackDanglingItems

use std::borrow::Cow;

use serde_json::Value;

use super::{
    apply::ApplyError,
    entry::Entry,
    field_manager::{ConversionError, FieldManager},
    record::Record,
};
use crate::{
    apply::{
        FieldSet,
        typed::{named_field_set, remove_items, with_named_fields},
    },
    type_schema::TypeSchema,
};

// --- FieldManager ---

impl FieldManager<'_> {
    /// The merged object without the fields that were in `last`, the applier's former set, and that no one
    /// in the record owns now, the applier included.
    pub(super) fn prune(
        &self,
        merged: Value,
        record: &Record<'_>,
        last: &Entry<'_>,
    ) -> Result<Value, ApplyError> {
        if last.set.is_empty() || keeps_all(record, last) {
            return Ok(merged);
        }
        self.prune_fully(merged, record, last)
    }

    pub(super) fn prune_fully(
        &self,
        merged: Value,
        record: &Record<'_>,
        last: &Entry<'_>,
    ) -> Result<Value, ApplyError> {
        let version = last.api_version.as_ref();
        let Some(typed) = self.typed_at(version) else {
            return Ok(merged);
        };
        let base = self.convert(&merged, version)?;
        let base_fields = named_field_set(&base, typed);
        let last = with_named_fields(&last.set, typed);
        let pruned = remove_items(&base, &last, typed);
        // The version at hand first: what others need for a conversion may have to be put back before it.
        let pruned = with_owned(&base, &base_fields, &pruned, &owned_in(record, version), typed);
        let pruned = self.with_owned_elsewhere(&base, pruned, version, record)?;
        // What was removed along with a field, but never belonged to the applier, is put back too.
        let pruned = self.convert(&pruned, version)?;
        let mut removed = base_fields.intersection(&last);
        removed.remove(&named_field_set(&pruned, typed));
        let pruned = remove_items(&base, &removed, typed);
        Ok(self.convert(&pruned, self.api_version)?.into_owned())
    }

    /// Puts back what a manager owns in another version.
    fn with_owned_elsewhere(
        &self,
        base: &Value,
        mut pruned: Value,
        version: &str,
        record: &Record<'_>,
    ) -> Result<Value, ConversionError> {
        let mut versions: Vec<&str> = record
            .entries
            .iter()
            .map(|entry| entry.api_version.as_ref())
            .collect();
        versions.sort_unstable();
        versions.dedup();
        versions.retain(|other| *other != version);
        let mut base = Cow::Borrowed(base);
        for version in versions {
            let Some(typed) = self.typed_at(version) else {
                continue;
            };
            base = Cow::Owned(self.convert(&base, version)?.into_owned());
            pruned = self.convert(&pruned, version)?.into_owned();
            let base_fields = named_field_set(&base, typed);
            pruned = with_owned(&base, &base_fields, &pruned, &owned_in(record, version), typed);
        }
        Ok(pruned)
    }
}

/// The base without what is neither in the pruned object nor owned.
fn with_owned(
    base: &Value,
    base_fields: &FieldSet<'_>,
    pruned: &Value,
    owned: &FieldSet<'_>,
    typed: &dyn TypeSchema,
) -> Value {
    let mut removed = base_fields.clone();
    removed.remove(&named_field_set(pruned, typed));
    removed.remove(&with_named_fields(owned, typed));
    remove_items(base, &removed, typed)
}

fn owned_in<'a>(record: &Record<'a>, version: &str) -> FieldSet<'a> {
    let entries = record.entries.iter().filter(|entry| entry.api_version == version);
    FieldSet::union_of(entries.map(|entry| &entry.set))
}

/// Whether the applier asks for all that it asked for before: then nothing is to be removed. Most applies
/// are like this, and the long way costs a set of all fields, several times over.
fn keeps_all(record: &Record<'_>, last: &Entry<'_>) -> bool {
    let own = record
        .entries
        .iter()
        .find(|entry| entry.identity == last.identity);
    own.is_some_and(|own| own.api_version == last.api_version && last.set.is_subset(&own.set))
}
