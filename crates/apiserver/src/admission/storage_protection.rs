//! Claims, volumes and classes of volume attributes are not gone while somebody uses them: a finalizer holds them.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::{Attributes, Plugin};
use crate::cache::Caches;

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

/// The plugin.
pub(super) struct StorageProtection;

impl Plugin for StorageProtection {
    fn admit(&self, attributes: &mut Attributes<'_>, _: &Caches) -> Result<(), Status> {
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
    use super::{super::testing::World, *};

    #[tokio::test]
    async fn what_others_use_is_held_once() {
        let world = World::new().await;
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
            let held = world.admit(&StorageProtection, object).unwrap();
            assert_eq!(held.at("metadata").at("finalizers"), &json!(["a/b", finalizer]));
            assert_eq!(world.admit(&StorageProtection, held.clone()).unwrap(), held);
        }
    }

    #[tokio::test]
    async fn a_finalizer_that_was_taken_away_stays_away() {
        let world = World::new().await;
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "x"}});
        assert_eq!(
            world.update(&StorageProtection, volume.clone(), &volume).unwrap(),
            volume
        );
    }
}
