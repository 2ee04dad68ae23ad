//! Reconciles StorageVersionMigrations step by step.

use std::time::Duration;

use http::Method;
use k3_api::go;
use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Informer,
    resource::Resource,
    store::Index,
    writer::{ApiWriter, ListPage, ObjectRef, WrittenObject, error_message, has_status_code},
};
use serde_json::{Value, json};

use super::{
    MigratedResource, MigrationStatus, StorageVersionMigration,
    definition::{self, MigrationResult},
    steps::{FAILED, MigrationStep, RUNNING, SUCCEEDED, next_step, progress, set_condition},
};
use crate::{
    context::ControllerContext,
    discovery::{DiscoveryResult, ServedResource},
    objects::Projection,
    patch_values::truncate_to_second,
    resource::STORAGE_VERSION_MIGRATIONS,
};

const MERGE: &str = "application/merge-patch+json";
const MANAGER: &str = "storage-version-migrator-controller";
/// Page size of lists.
const PAGE: u32 = 500;
/// Verbs that a migratable resource supports.
const VERBS: [&str; 3] = ["update", "patch", "list"];
/// How long to wait for a resource that is not served.
const DISCOVERY_TIMEOUT: Duration = Duration::from_mins(1);
/// How often to check for it.
const DISCOVERY_RETRY: Duration = Duration::from_secs(5);
const RUNNING_REASON: &str = "MigrationRunning";
const FAILED_REASON: &str = "StorageVersionMigrationFailed";

// upstream: pkg/controller/storageversionmigrator/storageversionmigrator.go SVMController, sync
pub(super) struct StorageVersionMigratorController {
    writer: ApiWriter,
    clock: Clock,
    migrations: Informer<StorageVersionMigration>,
    by_resource: Index<StorageVersionMigration>,
}

/// An object to rewrite.
type ObjectToMigrate = Projection<serde::de::IgnoredAny>;

// --- StorageVersionMigratorController ---

impl Reconciler for StorageVersionMigratorController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let migrations = self.by_resource.get(request.key.name());
        match next_step(&migrations) {
            MigrationStep::Idle => Ok(Outcome::Done),
            MigrationStep::Begin(migration) => self.record_start(&request, migration).await,
            MigrationStep::Checkpoint(migration) => self.checkpoint(&request, migration).await,
            MigrationStep::Migrate(migration) => self.migrate(&request, migration).await,
            MigrationStep::Finish(migration) => self.finish(&request, migration).await,
        }
    }
}

impl StorageVersionMigratorController {
    pub(super) fn new(context: &ControllerContext, migrations: Informer<StorageVersionMigration>) -> Self {
        let by_resource = migrations
            .store()
            .shared_index("resource", |migration: &StorageVersionMigration| {
                vec![migration.spec.resource.to_string()]
            });
        StorageVersionMigratorController {
            writer: context.writer.clone(),
            clock: context.clock.clone(),
            migrations,
            by_resource,
        }
    }

    // upstream: pkg/controller/storageversionmigrator/migrationrunner.go sync
    async fn record_start(
        &self,
        request: &Request,
        migration: &StorageVersionMigration,
    ) -> Result<Outcome, Error> {
        let resource = &migration.spec.resource;
        let now = self.now();
        definition::record_start(&self.writer, resource, &migration.metadata.name, now).await?;
        self.write(request, migration, |status| {
            let message = progress(None, None);
            set_condition(
                &mut status.conditions,
                RUNNING,
                ConditionStatus::True,
                RUNNING_REASON,
                &message,
                now,
            );
        })
        .await
    }

    // upstream: pkg/controller/storageversionmigrator/resourceversion.go sync, getLatestResourceVersion, isResourceMigratable
    async fn checkpoint(
        &self,
        request: &Request,
        migration: &StorageVersionMigration,
    ) -> Result<Outcome, Error> {
        let Some(served) = self.served(&migration.spec.resource).await? else {
            let why = "resource does not exist in discovery";
            return self.wait_or_fail(request, migration, why).await;
        };
        let can = |verb: &str| served.verbs.iter().any(|own| **own == *verb);
        if !VERBS.into_iter().all(can) {
            let named = go::quote(&served.resource.group_version_resource_text());
            let verbs = VERBS.join(" ");
            let why = format!("resource {named} does not support discovery operations: [{verbs}]");
            return self.fail(request, migration, &why).await;
        }
        let parameters = ListParams::default().limit(1);
        let page: ListPage<ObjectToMigrate> = self
            .writer
            .list_metadata_page(&served.resource, "", &parameters)
            .await?;
        let version = page.metadata.resource_version;
        if version.parse::<u64>().is_err() {
            let named = served.resource.group_version_resource_text();
            let version = go::quote(&version);
            let why = format!("latest resourceVersion for {named} is not valid: {version}");
            return self.fail(request, migration, &why).await;
        }
        self.write(request, migration, |status| status.resource_version = version)
            .await
    }

    // upstream: pkg/controller/storageversionmigrator/storageversionmigrator.go runMigration
    async fn migrate(
        &self,
        request: &Request,
        migration: &StorageVersionMigration,
    ) -> Result<Outcome, Error> {
        let Some(served) = self.served(&migration.spec.resource).await? else {
            let why = "migration encountered unhandled error: unable to obtain GVR from discovery";
            return self.wait_or_fail(request, migration, why).await;
        };
        let (candidates, all) = self.candidates(&served.resource, migration).await?;
        let mut left = candidates.len();
        let now = self.now();
        for candidate in &candidates {
            match self.rewrite(&served.resource, candidate).await {
                Ok(()) => left -= 1,
                // The object was written or deleted meanwhile.
                Err(error) if has_status_code(&error, 409) || has_status_code(&error, 404) => left -= 1,
                Err(error) if is_retriable(&error) => {
                    let message = progress(Some((left, all)), Some(&error_message(&error)));
                    self.write(request, migration, |status| {
                        set_condition(
                            &mut status.conditions,
                            RUNNING,
                            ConditionStatus::True,
                            RUNNING_REASON,
                            &message,
                            now,
                        );
                    })
                    .await?;
                    return Err(error.into());
                }
                Err(error) => {
                    let running = progress(Some((left, all)), None);
                    let why = error_message(&error);
                    let message = format!(
                        "{left}/{all} not yet migrated. migration encountered unhandled error: {why}"
                    );
                    return self
                        .write(request, migration, |status| {
                            let conditions = &mut status.conditions;
                            set_condition(
                                conditions,
                                RUNNING,
                                ConditionStatus::True,
                                RUNNING_REASON,
                                &running,
                                now,
                            );
                            set_condition(
                                conditions,
                                FAILED,
                                ConditionStatus::True,
                                FAILED_REASON,
                                &message,
                                now,
                            );
                        })
                        .await;
                }
            }
        }
        let message = progress(Some((left, all)), None);
        let now = self.now();
        self.write(request, migration, |status| {
            let conditions = &mut status.conditions;
            set_condition(
                conditions,
                RUNNING,
                ConditionStatus::True,
                RUNNING_REASON,
                &message,
                now,
            );
            let reason = "StorageVersionMigrationSucceeded";
            set_condition(
                conditions,
                SUCCEEDED,
                ConditionStatus::True,
                reason,
                "Migration completed",
                now,
            );
        })
        .await
    }

    // upstream: pkg/controller/storageversionmigrator/migrationrunner.go sync
    async fn finish(&self, request: &Request, migration: &StorageVersionMigration) -> Result<Outcome, Error> {
        let conditions = &migration.status.conditions;
        let end = if Condition::holds(conditions, SUCCEEDED) {
            MigrationResult::Succeeded
        } else {
            MigrationResult::Failed
        };
        let now = self.now();
        definition::finish(&self.writer, &migration.spec.resource, end, now).await?;
        self.write(request, migration, |status| {
            let conditions = &mut status.conditions;
            let text = "Migration completed";
            set_condition(
                conditions,
                RUNNING,
                ConditionStatus::False,
                "MigrationCompleted",
                text,
                now,
            );
            let running = conditions
                .iter_mut()
                .find(|condition| &*condition.kind == RUNNING);
            if let Some(running) = running {
                let generation = migration.metadata.generation;
                running
                    .other
                    .insert("observedGeneration".to_owned(), generation.into());
            }
        })
        .await
    }

    /// A young migration waits for a resource that is not served yet.
    async fn wait_or_fail(
        &self,
        request: &Request,
        migration: &StorageVersionMigration,
        why: &str,
    ) -> Result<Outcome, Error> {
        // A server sets creationTimestamp. Without one, like upstream, the migration is old.
        let created = migration.metadata.creation_timestamp.unwrap_or_default();
        if created + DISCOVERY_TIMEOUT > self.clock.now() {
            return Ok(Outcome::RequeueAfter(DISCOVERY_RETRY));
        }
        self.fail(request, migration, why).await
    }

    // upstream: pkg/controller/storageversionmigrator/storageversionmigrator.go failMigration
    async fn fail(
        &self,
        request: &Request,
        migration: &StorageVersionMigration,
        why: &str,
    ) -> Result<Outcome, Error> {
        let now = self.now();
        self.write(request, migration, |status| {
            set_condition(
                &mut status.conditions,
                FAILED,
                ConditionStatus::True,
                FAILED_REASON,
                why,
                now,
            );
        })
        .await
    }

    /// The resource in its preferred version.
    async fn served(&self, migrated: &MigratedResource) -> kube::Result<Option<ServedResource>> {
        let discovered = DiscoveryResult::fetch(&self.writer).await?;
        Ok(discovered.resources.into_iter().find(|served| {
            served.resource.group == *migrated.group && served.resource.plural == *migrated.resource
        }))
    }

    /// Objects last written before the migration, and the total number.
    async fn candidates(
        &self,
        resource: &Resource,
        migration: &StorageVersionMigration,
    ) -> kube::Result<(Vec<ObjectToMigrate>, usize)> {
        let checkpoint: u64 = migration.status.resource_version.parse().unwrap_or(u64::MAX);
        let is_old = |candidate: &ObjectToMigrate| {
            let version = candidate.metadata.resource_version.parse::<u64>();
            version.is_ok_and(|version| version <= checkpoint)
        };
        let mut parameters = ListParams::default().limit(PAGE);
        let mut candidates = Vec::new();
        let mut all = 0;
        loop {
            let page: ListPage<ObjectToMigrate> =
                self.writer.list_metadata_page(resource, "", &parameters).await?;
            all += page.items.len();
            candidates.extend(page.items.into_iter().filter(is_old));
            if page.metadata.next.is_empty() {
                return Ok((candidates, all));
            }
            parameters = parameters.continue_token(&page.metadata.next);
        }
    }

    /// Rewrites an object unchanged, unless it was changed meanwhile.
    async fn rewrite(&self, resource: &Resource, candidate: &ObjectToMigrate) -> kube::Result<()> {
        let metadata = &candidate.metadata;
        let patch = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"resourceVersion": metadata.resource_version},
        });
        let path = resource.object_path(&metadata.namespace, &metadata.name);
        let path = format!("{path}?fieldManager={MANAGER}");
        let _: Value = self
            .writer
            .send(Method::PATCH, &path, MERGE, Some(&patch))
            .await?;
        Ok(())
    }

    /// Writes the status at its resourceVersion, if it changes. The next step follows when the informer delivers it.
    async fn write(
        &self,
        request: &Request,
        migration: &StorageVersionMigration,
        change: impl FnOnce(&mut MigrationStatus) + Send,
    ) -> Result<Outcome, Error> {
        let mut status = migration.status.clone();
        change(&mut status);
        if status == migration.status {
            return Ok(Outcome::Done);
        }
        let object_ref = ObjectRef::new(&STORAGE_VERSION_MIGRATIONS, "", &migration.metadata.name);
        let Some(mut object) = self.writer.find_by_name(object_ref).await? else {
            return Ok(Outcome::Done);
        };
        object["metadata"]["resourceVersion"] = (&*migration.metadata.resource_version).into();
        object["status"]["conditions"] = json!(status.conditions);
        if !status.resource_version.is_empty() {
            object["status"]["resourceVersion"] = (&*status.resource_version).into();
        }
        match self
            .writer
            .update::<WrittenObject>(object_ref.subresource("status"), &object)
            .await
        {
            Ok(written) => {
                request.record_write(&self.migrations, &written.metadata.resource_version);
                Ok(Outcome::Done)
            }
            Err(error) if has_status_code(&error, 404) => Ok(Outcome::Done),
            Err(error) => Err(error.into()),
        }
    }

    fn now(&self) -> Timestamp {
        truncate_to_second(self.clock.now())
    }
}

/// Whether an error is retriable.
// upstream: pkg/controller/storageversionmigrator/storageversionmigrator.go isRetriableError
fn is_retriable(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 503 | 504),
        _ => true,
    }
}
