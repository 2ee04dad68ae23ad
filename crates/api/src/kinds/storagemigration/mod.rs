//! The kinds of the `storagemigration.k8s.io` group, a file each.

mod storage_version_migration;

use crate::strategy::RestStrategy;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    (kind == "StorageVersionMigration")
        .then_some(&storage_version_migration::StorageVersionMigration as &dyn RestStrategy)
}
