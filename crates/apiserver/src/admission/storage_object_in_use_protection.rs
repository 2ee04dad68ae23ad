//! `StorageObjectInUseProtection`: adds the protection finalizer to claims, volumes and volume attributes classes.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::{AdmissionAttributes, AdmissionPlugin};
use crate::cache::WatchCaches;

/// What is held, and by which finalizer.
const HELD: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    (
        "storage.k8s.io",
        "volumeattributesclasses",
        "kubernetes.io/vac-protection",
    ),
];

pub(super) struct StorageObjectInUseProtection;

// upstream: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go Admit
impl AdmissionPlugin for StorageObjectInUseProtection {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let mut held = HELD.into_iter();
        let Some((_, _, finalizer)) = held.find(|(group, plural, _)| attributes.creates(group, plural))
        else {
            return Ok(());
        };
        let metadata = attributes.object.ensure_object("metadata");
        if !metadata.texts("finalizers").any(|there| there == finalizer) {
            metadata.set_default("finalizers", json!([]));
            if let Some(Value::Array(finalizers)) = metadata.at_mut("finalizers") {
                finalizers.push(finalizer.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::TestCluster, *};

    #[tokio::test]
    async fn adds_protection_finalizer_once() {
        let world = TestCluster::new().await;
        for (version, kind, finalizer) in [
            ("v1", "PersistentVolume", "kubernetes.io/pv-protection"),
            ("v1", "PersistentVolumeClaim", "kubernetes.io/pvc-protection"),
            (
                "storage.k8s.io/v1",
                "VolumeAttributesClass",
                "kubernetes.io/vac-protection",
            ),
        ] {
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x", "finalizers": ["a/b"]}});
            let held = world.admit(&StorageObjectInUseProtection, object).unwrap();
            assert_eq!(held.at("metadata").at("finalizers"), &json!(["a/b", finalizer]));
            assert_eq!(
                world.admit(&StorageObjectInUseProtection, held.clone()).unwrap(),
                held
            );
        }
    }

    #[tokio::test]
    async fn does_not_restore_removed_finalizer() {
        let world = TestCluster::new().await;
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "x"}});
        assert_eq!(
            world
                .update(&StorageObjectInUseProtection, volume.clone(), &volume)
                .unwrap(),
            volume
        );
    }
}
