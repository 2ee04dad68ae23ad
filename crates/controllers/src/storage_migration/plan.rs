//! Which migration of a resource has its turn, and with what.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::Migration;
use crate::objects::{Condition, ConditionStatus};

pub(super) const RUNNING: &str = "Running";
pub(super) const SUCCEEDED: &str = "Succeeded";
pub(super) const FAILED: &str = "Failed";

/// What comes next for a resource.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'a> {
    /// This one has ended: it does not run any more.
    Finish(&'a Migration),
    /// This one runs, and has to say up to which version objects are written.
    Checkpoint(&'a Migration),
    /// This one runs: objects are written.
    Migrate(&'a Migration),
    /// No other runs: this one begins.
    Begin(&'a Migration),
    /// Nothing.
    Rest,
}

/// What comes next for a resource, of which these are all migrations.
pub(super) fn next(migrations: &[Arc<Migration>]) -> Step<'_> {
    let running = || {
        migrations
            .iter()
            .filter(|migration| has_status_code(migration, RUNNING))
    };
    if let Some(ended) = running().find(|migration| has_ended(migration)) {
        return Step::Finish(ended);
    }
    if let Some(migration) = running().next() {
        return if migration.status.resource_version.is_empty() {
            Step::Checkpoint(migration)
        } else {
            Step::Migrate(migration)
        };
    }
    let waiting = migrations.iter().filter(|migration| !has_ended(migration));
    let oldest = waiting.min_by_key(|migration| {
        let metadata = &migration.metadata;
        (metadata.creation_timestamp, &metadata.name)
    });
    oldest.map_or(Step::Rest, |migration| Step::Begin(migration))
}

/// Whether it will never run again.
pub(super) fn has_ended(migration: &Migration) -> bool {
    has_status_code(migration, SUCCEEDED) || has_status_code(migration, FAILED)
}

fn has_status_code(migration: &Migration, kind: &str) -> bool {
    Condition::holds(&migration.status.conditions, kind)
}

/// Sets a condition in a list.
pub(super) fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let status = ConditionStatus::from(holds);
    let position = conditions.iter().position(|condition| &*condition.kind == kind);
    let position = position.unwrap_or_else(|| {
        conditions.push(Condition {
            kind: kind.into(),
            ..Condition::default()
        });
        conditions.len() - 1
    });
    let condition = &mut conditions[position];
    if condition.status != status {
        condition.status = status;
        condition.last_transition_time = Some(now);
    }
    condition.reason = reason.into();
    condition.message = message.into();
}

/// What a migration that runs says: how many objects are left of how many, and what went wrong for the moment.
pub(super) fn progress(objects: Option<(usize, usize)>, trouble: Option<&str>) -> String {
    let objects = match objects {
        Some((_, 0)) | None => String::new(),
        Some((0, all)) => format!(", {all} objects verified migrated"),
        Some((left, all)) => format!(", {left}/{all} objects not yet migrated"),
    };
    let trouble = trouble.map(|trouble| format!("; transient error: {trouble}"));
    format!("The migration is running{objects}{}", trouble.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn migration(name: &str, second: u32, conditions: &[(&str, &str)], version: &str) -> Arc<Migration> {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status)| json!({"type": kind, "status": status}))
            .collect();
        let created = format!("2026-01-01T00:00:{second:02}Z");
        let migration = json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "status": {"conditions": conditions, "resourceVersion": version},
        });
        Arc::new(serde_json::from_value(migration).unwrap())
    }

    #[test]
    fn one_migration_runs_at_a_time_and_the_oldest_begins() {
        let young = migration("a", 9, &[], "");
        let old = migration("z", 1, &[], "");
        let running = migration("r", 5, &[("Running", "True")], "");
        let writing = migration("r", 5, &[("Running", "True")], "7");
        let ended = migration("e", 5, &[("Running", "True"), ("Failed", "True")], "7");
        let over = migration("o", 0, &[("Running", "False"), ("Succeeded", "True")], "7");
        for (all, expected) in [
            (vec![&young, &old, &over], Step::Begin(&old)),
            (vec![&young, &running, &old], Step::Checkpoint(&running)),
            (vec![&young, &writing], Step::Migrate(&writing)),
            (vec![&writing, &ended], Step::Finish(&ended)),
            (vec![&over], Step::Rest),
            (vec![], Step::Rest),
        ] {
            let all: Vec<_> = all.into_iter().cloned().collect();
            assert_eq!(next(&all), expected);
        }
    }

    #[test]
    fn it_is_told_how_far_a_migration_is() {
        for (objects, trouble, expected) in [
            (None, None, "The migration is running"),
            (Some((0, 0)), None, "The migration is running"),
            (
                Some((2, 5)),
                Some("away"),
                "The migration is running, 2/5 objects not yet migrated; transient error: away",
            ),
            (
                Some((0, 5)),
                None,
                "The migration is running, 5 objects verified migrated",
            ),
        ] {
            assert_eq!(progress(objects, trouble), expected);
        }
    }
}
