//! Chooses the next step for a resource's migrations.

use std::sync::Arc;

use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::Timestamp;

use super::StorageVersionMigration;

pub(super) const RUNNING: &str = "Running";
pub(super) const SUCCEEDED: &str = "Succeeded";
pub(super) const FAILED: &str = "Failed";

/// The next step.
#[derive(Debug, PartialEq)]
pub(super) enum MigrationStep<'a> {
    /// It has finished: clear the Running condition.
    Finish(&'a StorageVersionMigration),
    /// It is running and needs a resourceVersion as checkpoint.
    Checkpoint(&'a StorageVersionMigration),
    /// It is running: rewrite objects.
    Migrate(&'a StorageVersionMigration),
    /// No other one is running: start it.
    Begin(&'a StorageVersionMigration),
    Idle,
}

/// The next step for all migrations of a resource.
// upstream: pkg/controller/storageversionmigrator/migrationrunner.go sync, getSVMsForResource
pub(super) fn next_step(migrations: &[Arc<StorageVersionMigration>]) -> MigrationStep<'_> {
    let running = || {
        migrations
            .iter()
            .filter(|migration| has_condition(migration, RUNNING))
    };
    if let Some(ended) = running().find(|migration| has_ended(migration)) {
        return MigrationStep::Finish(ended);
    }
    if let Some(migration) = running().next() {
        return if migration.status.resource_version.is_empty() {
            MigrationStep::Checkpoint(migration)
        } else {
            MigrationStep::Migrate(migration)
        };
    }
    let waiting = migrations.iter().filter(|migration| !has_ended(migration));
    let oldest = waiting.min_by_key(|migration| {
        let metadata = &migration.metadata;
        (metadata.creation_timestamp, &metadata.name)
    });
    oldest.map_or(MigrationStep::Idle, |migration| MigrationStep::Begin(migration))
}

/// Whether it is in a terminal state.
// upstream: pkg/controller/storageversionmigrator/migrationrunner.go isTerminal
pub(super) fn has_ended(migration: &StorageVersionMigration) -> bool {
    has_condition(migration, SUCCEEDED) || has_condition(migration, FAILED)
}

fn has_condition(migration: &StorageVersionMigration, kind: &str) -> bool {
    Condition::holds(&migration.status.conditions, kind)
}

// upstream: pkg/controller/storageversionmigrator/util.go setStatusConditions
pub(super) fn set_condition(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
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

/// Message of the Running condition: remaining and total objects, and a transient error.
// upstream: pkg/controller/storageversionmigrator/util.go migrationRunningMessage
pub(super) fn progress(objects: Option<(usize, usize)>, transient_error: Option<&str>) -> String {
    let objects = match objects {
        Some((_, 0)) | None => String::new(),
        Some((0, all)) => format!(", {all} objects verified migrated"),
        Some((left, all)) => format!(", {left}/{all} objects not yet migrated"),
    };
    let transient_error =
        transient_error.map(|transient_error| format!("; transient error: {transient_error}"));
    format!(
        "The migration is running{objects}{}",
        transient_error.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn migration(
        name: &str,
        second: u32,
        conditions: &[(&str, &str)],
        version: &str,
    ) -> Arc<StorageVersionMigration> {
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
    fn runs_one_migration_at_a_time() {
        let young = migration("a", 9, &[], "");
        let old = migration("z", 1, &[], "");
        let running = migration("r", 5, &[("Running", "True")], "");
        let writing = migration("r", 5, &[("Running", "True")], "7");
        let ended = migration("e", 5, &[("Running", "True"), ("Failed", "True")], "7");
        let over = migration("o", 0, &[("Running", "False"), ("Succeeded", "True")], "7");
        for (all, expected) in [
            (vec![&young, &old, &over], MigrationStep::Begin(&old)),
            (vec![&young, &running, &old], MigrationStep::Checkpoint(&running)),
            (vec![&young, &writing], MigrationStep::Migrate(&writing)),
            (vec![&writing, &ended], MigrationStep::Finish(&ended)),
            (vec![&over], MigrationStep::Idle),
            (vec![], MigrationStep::Idle),
        ] {
            let all: Vec<_> = all.into_iter().cloned().collect();
            assert_eq!(next_step(&all), expected);
        }
    }

    #[test]
    fn reports_migration_progress() {
        for (objects, transient_error, expected) in [
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
            assert_eq!(progress(objects, transient_error), expected);
        }
    }
}
