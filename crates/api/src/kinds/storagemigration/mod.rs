//! The kinds of the `storagemigration.k8s.io` group, one file per kind.

mod storage_version_migration;

use crate::rules::Rules;

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    (kind == "StorageVersionMigration")
        .then_some(&storage_version_migration::StorageVersionMigration as &dyn Rules)
}
