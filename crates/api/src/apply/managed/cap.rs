//! Limits the number of entries in `managedFields`: an object that many managers update must not grow without end.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/capmanagers.go capUpdateManagers

use std::borrow::Cow;

use super::{
    entry::{Entry, Identity, Operation},
    record::Record,
};
use crate::{apply::FieldSet, time::Time};

/// How many entries of updates a record may hold.
const MAX_UPDATERS: usize = 10;

/// Who stands for all whose updates are long ago.
const ANCIENT: &str = "ancient-changes";

/// Merges the oldest entries of updates, version by version, until there are few enough. Appliers stay.
pub(super) fn cap(record: &mut Record<'_>) {
    let is_updater = |entry: &Entry<'_>| entry.identity.operation == Operation::Update;
    let mut count = record.entries.iter().filter(|entry| is_updater(entry)).count();
    if count <= MAX_UPDATERS {
        return;
    }
    let (mut updaters, appliers): (Vec<_>, Vec<_>) = record.entries.drain(..).partition(is_updater);
    updaters.sort_by_cached_key(|entry| (entry.time.map_or(0, Time::unix_seconds), entry.identity.text()));
    let mut kept: Vec<Entry<'_>> = Vec::with_capacity(MAX_UPDATERS);
    // The sets that are merged into each of those kept. They are merged at once: there may be thousands.
    let mut merged: Vec<Vec<FieldSet<'_>>> = Vec::with_capacity(MAX_UPDATERS);
    for entry in updaters {
        let bucket = kept
            .iter()
            .position(|bucket| count > MAX_UPDATERS && bucket.api_version == entry.api_version);
        if let Some(at) = bucket {
            let bucket = &mut kept[at];
            bucket.identity = ancient(entry.api_version.clone());
            bucket.source = None;
            // The younger of the two.
            bucket.time = entry.time;
            merged[at].push(entry.set);
            count -= 1;
        } else {
            kept.push(entry);
            merged.push(Vec::new());
        }
    }
    for (bucket, sets) in kept.iter_mut().zip(&merged) {
        if !sets.is_empty() {
            bucket.set = FieldSet::union_of(sets.iter().chain([&bucket.set]));
        }
    }
    kept.extend(appliers);
    record.entries = kept;
}

fn ancient(api_version: Cow<'_, str>) -> Identity<'_> {
    Identity {
        manager: Cow::Borrowed(ANCIENT),
        operation: Operation::Update,
        subresource: Cow::Borrowed(""),
        api_version: Some(api_version),
    }
}
