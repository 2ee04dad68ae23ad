//! The kinds of the `storagemigration.k8s.io` group, one file per kind.

mod storage_version_migration;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    (kind == "StorageVersionMigration")
        .then_some(&storage_version_migration::StorageVersionMigration as &dyn RestStrategy)
}
