//! The kinds of the `storagemigration.k8s.io` group, a file each.

mod storage_version_migration;

use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    (kind == "StorageVersionMigration")
        .then_some(&storage_version_migration::StorageVersionMigration as &dyn Rules)
}
