//! What the definition of a custom resource is told of migrations: that one runs, and which versions are stored when it is over.

use k3_api::strategy::Tree;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::Migrated;
use crate::{
    resource::CUSTOM_RESOURCE_DEFINITIONS,
    writer::{ApiWriter, ObjectRef, has_status_code},
};

const MIGRATING: &str = "StorageMigrating";
const MANAGER: &str = "migration-runner-controller";

/// How a migration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Succeeded,
    Failed,
}

/// Tells the definition of a resource, if it has one, that a migration runs.
pub(super) async fn begin(
    writer: &ApiWriter,
    resource: &Migrated,
    migration: &str,
    now: Timestamp,
) -> kube::Result<()> {
    let message = format!("Migration {migration} is running");
    tell(writer, resource, |definition| {
        condition(definition, "True", "MigrationRunning", &message, now)
    })
    .await
}

/// Tells it that the migration is over.
pub(super) async fn finish(
    writer: &ApiWriter,
    resource: &Migrated,
    end: End,
    now: Timestamp,
) -> kube::Result<()> {
    tell(writer, resource, |definition| ended(definition, end, now)).await
}

async fn tell(
    writer: &ApiWriter,
    resource: &Migrated,
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
    // With the version: what is said is about the definition as it was read.
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

fn ended(definition: &Value, end: End, now: Timestamp) -> Value {
    let conditions = definition.at("status").items("conditions");
    let begun = conditions
        .iter()
        .find(|condition| condition.text("type") == MIGRATING);
    let generation = definition.at("metadata").int("generation");
    // Versions may have come meanwhile that objects were written in.
    let is_same = begun.is_some_and(|begun| begun.int("observedGeneration") == generation);
    let (reason, message) = match (end, is_same) {
        (End::Succeeded, true) => (
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated",
        ),
        (End::Succeeded, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
        ),
        (End::Failed, _) => ("MigrationFailed", "The migration has failed"),
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
    fn versions_are_forgotten_if_nothing_has_changed_meanwhile() {
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
                End::Succeeded,
                json!(["v2"]),
                "The migration has succeeded and the stored versions have been updated",
            ),
            (
                4,
                End::Succeeded,
                json!(null),
                "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
            ),
            (4, End::Failed, json!(null), "The migration has failed"),
        ] {
            let status = ended(&definition(generation), end, now);
            assert_eq!(status["storedVersions"], stored);
            assert_eq!(status["conditions"][0]["message"], message);
            assert_eq!(status["conditions"][0]["observedGeneration"], generation);
        }
    }
}
