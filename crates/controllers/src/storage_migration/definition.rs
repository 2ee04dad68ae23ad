//! Updates a CustomResourceDefinition during a migration: condition StorageMigrating and storedVersions.

use k3_api::strategy::Tree;
use k8s_openapi::jiff::Timestamp;
use kubecontroller::writer::{ApiWriter, ObjectRef, has_status_code};
use serde_json::{Value, json};

use super::MigratedResource;
use crate::resource::CUSTOM_RESOURCE_DEFINITIONS;

const MIGRATING: &str = "StorageMigrating";
const MANAGER: &str = "migration-runner-controller";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MigrationResult {
    Succeeded,
    Failed,
}

/// Records in the CRD of a resource, if there is one, that a migration is running.
// upstream: pkg/controller/storageversionmigrator/migrationrunner.go markAsActive
pub(super) async fn record_start(
    writer: &ApiWriter,
    resource: &MigratedResource,
    migration: &str,
    now: Timestamp,
) -> kube::Result<()> {
    let message = format!("Migration {migration} is running");
    update_definition(writer, resource, |definition| {
        condition(definition, "True", "MigrationRunning", &message, now)
    })
    .await
}

/// Records that the migration has finished.
// upstream: pkg/controller/storageversionmigrator/migrationrunner.go finishCRDMigration, cleanupCRD
pub(super) async fn finish(
    writer: &ApiWriter,
    resource: &MigratedResource,
    end: MigrationResult,
    now: Timestamp,
) -> kube::Result<()> {
    update_definition(writer, resource, |definition| ended(definition, end, now)).await
}

async fn update_definition(
    writer: &ApiWriter,
    resource: &MigratedResource,
    status: impl FnOnce(&Value) -> Value + Send,
) -> kube::Result<()> {
    let name = resource.to_string();
    if resource.group.is_empty() {
        return Ok(());
    }
    let object_ref = ObjectRef::new(&CUSTOM_RESOURCE_DEFINITIONS, "", &name);
    let definition: Value = match writer.get(object_ref).await {
        Err(error) if has_status_code(&error, 404) => return Ok(()),
        other => other?,
    };
    // With the resourceVersion: the status refers to the CRD as it was read.
    let version = definition.at("metadata").at("resourceVersion");
    let applied = json!({
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version(), "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": name, "resourceVersion": version}, "status": status(&definition),
    });
    let _: Value = writer
        .server_side_apply(object_ref.subresource("status"), MANAGER, &applied)
        .await?;
    Ok(())
}

fn ended(definition: &Value, end: MigrationResult, now: Timestamp) -> Value {
    let conditions = definition.at("status").items("conditions");
    let begun = conditions
        .iter()
        .find(|condition| condition.text("type") == MIGRATING);
    let generation = definition.at("metadata").int("generation");
    // storedVersions are only pruned if the CRD has not changed since.
    let is_same = begun.is_some_and(|begun| begun.int("observedGeneration") == generation);
    let (reason, message) = match (end, is_same) {
        (MigrationResult::Succeeded, true) => (
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated",
        ),
        (MigrationResult::Succeeded, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
        ),
        (MigrationResult::Failed, _) => ("MigrationFailed", "The migration has failed"),
    };
    let mut status = condition(definition, "False", reason, message, now);
    let versions = definition.at("spec").items("versions");
    let stored = versions.iter().find(|version| version.flag("storage"));
    if let Some(stored) = stored.filter(|_| is_same) {
        status["storedVersions"] = json!([stored.text("name")]);
    }
    status
}

fn condition(definition: &Value, holds: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let generation = definition.at("metadata").int("generation");
    json!({"conditions": [{
        "type": MIGRATING, "status": holds, "reason": reason, "message": message, "lastTransitionTime": now,
        "observedGeneration": generation,
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prunes_stored_versions_of_an_unchanged_crd() {
        let definition = |generation: i64| {
            json!({
                "metadata": {"generation": generation},
                "spec": {"versions": [{"name": "v1"}, {"name": "v2", "storage": true}]},
                "status": {"conditions": [{"type": MIGRATING, "observedGeneration": 3}]},
            })
        };
        let now = Timestamp::UNIX_EPOCH;
        for (generation, end, stored, message) in [
            (
                3,
                MigrationResult::Succeeded,
                json!(["v2"]),
                "The migration has succeeded and the stored versions have been updated",
            ),
            (
                4,
                MigrationResult::Succeeded,
                json!(null),
                "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
            ),
            (
                4,
                MigrationResult::Failed,
                json!(null),
                "The migration has failed",
            ),
        ] {
            let status = ended(&definition(generation), end, now);
            assert_eq!(status["storedVersions"], stored);
            assert_eq!(status["conditions"][0]["message"], message);
            assert_eq!(status["conditions"][0]["observedGeneration"], generation);
        }
    }
}
