//! `PersistentVolumeClaimResize`: a claim may grow only if it is bound and its StorageClass allows expansion.

use k3_api::{kinds::storage_class_of, quantity::Quantity, status::Status, strategy::Tree};
use serde_json::Value;

use super::{AdmissionAttributes, AdmissionPlugin, Operation, object};
use crate::cache::WatchCaches;

pub(super) struct PersistentVolumeClaimResize;

// upstream: plugin/pkg/admission/storage/persistentvolume/resize/admission.go Validate, allowResize
impl AdmissionPlugin for PersistentVolumeClaimResize {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        let concerns = attributes.operation == Operation::Update
            && attributes.subresource.is_empty()
            && attributes.is_of("", "persistentvolumeclaims");
        let (Some(old), true) = (attributes.old, concerns) else {
            return Ok(());
        };
        if size(attributes.object) <= size(old) {
            return Ok(());
        }
        if old.at("status").text("phase") != "Bound" {
            return Err(attributes.forbidden("Only bound persistent volume claims can be expanded"));
        }
        let class = storage_class_of(attributes.object);
        let lets = !class.is_empty()
            && class == storage_class_of(old)
            && object("storage.k8s.io", "storageclasses", "", class, caches)
                .is_some_and(|class| class.flag("allowVolumeExpansion"));
        if lets {
            return Ok(());
        }
        Err(attributes.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ))
    }
}

fn size(claim: &Value) -> Quantity {
    let size = claim.at_path("spec.resources.requests.storage");
    Quantity::from_value(size).unwrap_or_else(|_| Quantity::zero())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    fn claim(phase: &str, class: &str, size: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "n"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase},
        })
    }

    #[tokio::test]
    async fn resizes_only_bound_claims_with_expandable_class() {
        let world = TestCluster::new().await;
        for (name, lets) in [("elastic", true), ("stiff", false)] {
            let class = json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
                "provisioner": "p", "allowVolumeExpansion": lets,
            });
            world.put(class).await;
        }
        let resize = |phase: &str, class: &str, size: &str| {
            let new = claim(phase, class, size);
            let old = claim(phase, class, "1Gi");
            world
                .update(&PersistentVolumeClaimResize, new, &old)
                .err()
                .unwrap_or_default()
        };
        assert_eq!(resize("Bound", "elastic", "2Gi"), "");
        assert_eq!(resize("Pending", "stiff", "1Gi"), "");
        assert_eq!(
            resize("Pending", "elastic", "2Gi"),
            r#"persistentvolumeclaims "c" is forbidden: Only bound persistent volume claims can be expanded"#
        );
        for class in ["stiff", "absent", ""] {
            assert_eq!(
                resize("Bound", class, "2Gi"),
                "persistentvolumeclaims \"c\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass \
                 that provisions the pvc must support resize"
            );
        }
    }
}
