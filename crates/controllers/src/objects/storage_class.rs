//! StorageClasses, as controllers read them.

use k3_workloads::{ObjectMeta, projected_object};
use serde::Deserialize;

/// A class of storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The provisioner.
    pub provisioner: Box<str>,
    /// reclaimPolicy of its volumes.
    pub reclaim_policy: Box<str>,
    /// When claims get them.
    pub volume_binding_mode: BindingMode,
}

projected_object!(StorageClass);

// upstream: pkg/apis/storage/v1/defaults.go SetDefaults_StorageClass; a class without a mode binds at once
/// When claims get volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum BindingMode {
    /// When it is known on which node they are needed.
    WaitForFirstConsumer,
    /// At once.
    #[default]
    #[serde(other)]
    Immediate,
}

// --- StorageClass ---

impl StorageClass {
    /// Whether claims get it that name none.
    pub fn is_default(&self) -> bool {
        const MARKS: [&str; 2] = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        MARKS
            .iter()
            .any(|mark| self.metadata.annotation(mark) == Some("true"))
    }
}
