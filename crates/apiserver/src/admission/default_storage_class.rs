//! `DefaultStorageClass`: sets the default class of a PersistentVolumeClaim without class.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};

use super::{AdmissionAttributes, AdmissionPlugin, default_class::DefaultClass};
use crate::cache::WatchCaches;

/// What makes a class the default.
const MARKS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// Where old clients name the class of a claim.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

#[derive(Default)]
pub(super) struct DefaultStorageClass(DefaultClass);

// upstream: plugin/pkg/admission/storage/storageclass/setdefault/admission.go Admit
impl AdmissionPlugin for DefaultStorageClass {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if !attributes.creates("", "persistentvolumeclaims") {
            return Ok(());
        }
        let claim = &mut *attributes.object;
        // An empty name is one: the claim wants no class.
        let is_named = claim.at("spec").has("storageClassName")
            || claim.at("metadata").entries("annotations").contains_key(CLASS);
        if !is_named && let Some(class) = self.0.name("storage.k8s.io", "storageclasses", &MARKS, caches) {
            claim.ensure_object("spec").set("storageClassName", class);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::testing::TestCluster, *};

    fn claim(spec: &Value, annotations: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "n", "annotations": annotations}, "spec": spec,
        })
    }

    #[tokio::test]
    async fn sets_default_class_on_claim_without_class() {
        let world = TestCluster::new().await;
        let plugin = DefaultStorageClass::default();
        let class = |claim| {
            let claim = world.admit(&plugin, claim).unwrap();
            claim.at("spec").at("storageClassName").clone()
        };
        assert_eq!(class(claim(&json!({}), &json!({}))), Value::Null);
        let marked = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": "fast", "annotations": {MARKS[1]: "true"}}, "provisioner": "p",
        });
        world.put(marked).await;
        assert_eq!(class(claim(&json!({}), &json!({}))), "fast");
        assert_eq!(class(claim(&json!({"storageClassName": ""}), &json!({}))), "");
        assert_eq!(class(claim(&json!({}), &json!({CLASS: "slow"}))), Value::Null);
    }
}
