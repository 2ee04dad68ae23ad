//! The storage version migrator: rewrites all objects of a resource in the current storage version (KEP-4192).
//!
//! ```text
//! steps       which migration of a resource is next, and its next step
//! migrator    the reconciler
//! definition  updates of the CRD
//! ```
//!
//! One migration per resource runs at a time, oldest first. Each step is recorded in the status before the next one starts, so that
//! a crash resumes where it stopped.

mod controller;
mod definition;
mod steps;
#[cfg(test)]
mod tests;

use k3_workloads::Condition;
use kubecontroller::{Key, informer::Delta};
use serde::Deserialize;

use self::controller::StorageVersionMigratorController;

use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::STORAGE_VERSION_MIGRATIONS,
};

const WORKERS: usize = 5;

type StorageVersionMigration = Projection<MigrationSpec, MigrationStatus>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct MigrationSpec {
    resource: MigratedResource,
}

/// A resource, in any version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct MigratedResource {
    group: Box<str>,
    resource: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MigrationStatus {
    conditions: Vec<Condition>,
    /// Objects written after this resourceVersion need not be rewritten.
    resource_version: Box<str>,
}

// upstream: pkg/controller/storageversionmigrator/storageversionmigrator.go NewSVMController
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let migrations = context.informer::<StorageVersionMigration>(&STORAGE_VERSION_MIGRATIONS);
    // The work queue key is a resource with all its migrations.
    let resource_of = |delta: &Delta<StorageVersionMigration>| vec![delta.object().spec.resource.key()];
    let runner = context
        .controller("storage-version-migrator-controller")
        .watches(&migrations, resource_of)
        .workers(WORKERS)
        .reconciler(StorageVersionMigratorController::new(context, migrations.clone()));
    vec![Box::new(runner)]
}

// --- MigratedResource ---

impl MigratedResource {
    fn key(&self) -> Key {
        Key::new("", &self.to_string())
    }
}

/// In the form of CRD names.
impl std::fmt::Display for MigratedResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.resource, self.group)
    }
}
