//! Writes all objects of a resource again, so that the store has them in the version that it is to have.
//!
//! ```text
//! plan        which migration of a resource has its turn, and with what
//! migrator    does it
//! definition  what is told to the definition of a custom resource
//! ```
//!
//! One migration of a resource runs at a time, the oldest first. Each step is told in its status before the next one is taken,
//! so that whoever comes after a crash goes on where it stopped.

mod definition;
mod migrator;
mod plan;
#[cfg(test)]
mod tests;

use kubecontroller::{Key, informer::Delta};
use serde::Deserialize;

use self::migrator::Migrator;
use crate::{
    context::{ControllerContext, Task},
    objects::{Condition, Projection},
    resource::STORAGE_VERSION_MIGRATIONS,
};

const WORKERS: usize = 5;

/// A migration.
type Migration = Projection<MigrationSpec, MigrationStatus>;

/// What is to be migrated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct MigrationSpec {
    resource: Migrated,
}

/// A resource, in whatever version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Migrated {
    group: Box<str>,
    resource: Box<str>,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MigrationStatus {
    conditions: Vec<Condition>,
    /// What was written after this version need not be written again.
    resource_version: Box<str>,
}

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let migrations = context.informer::<Migration>(&STORAGE_VERSION_MIGRATIONS);
    // What is reconciled is a resource, with all its migrations.
    let resource_of = |delta: &Delta<Migration>| vec![delta.object().spec.resource.key()];
    let runner = context
        .controller("storage-version-migrator-controller")
        .watches(&migrations, resource_of)
        .workers(WORKERS)
        .reconciler(Migrator::new(context, migrations.clone()));
    vec![Box::new(runner)]
}

// --- Migrated ---

impl Migrated {
    fn key(&self) -> Key {
        Key::new("", &self.to_string())
    }
}

/// As definitions of custom resources are named.
impl std::fmt::Display for Migrated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.resource, self.group)
    }
}
