//! `DefaultIngressClass`: sets the default class of an Ingress without class.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};

use super::{AdmissionAttributes, AdmissionPlugin, default_class::DefaultClass};
use crate::cache::WatchCaches;

const GROUP: &str = "networking.k8s.io";
/// What makes a class the default.
const MARK: &str = "ingressclass.kubernetes.io/is-default-class";
/// Where old clients name the class of an ingress.
const CLASS: &str = "kubernetes.io/ingress.class";

#[derive(Default)]
pub(super) struct DefaultIngressClass(DefaultClass);

// upstream: plugin/pkg/admission/network/defaultingressclass/admission.go Admit, getDefaultClass
impl AdmissionPlugin for DefaultIngressClass {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if !attributes.creates(GROUP, "ingresses") {
            return Ok(());
        }
        let ingress = &mut *attributes.object;
        let is_named = ingress.at("spec").has("ingressClassName")
            || ingress.at("metadata").entries("annotations").contains_key(CLASS);
        if !is_named && let Some(class) = self.0.name(GROUP, "ingressclasses", &[MARK], caches) {
            ingress.ensure_object("spec").set("ingressClassName", class);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::testing::TestCluster, *};

    fn ingress(spec: &Value, annotations: &Value) -> Value {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": "i", "namespace": "n", "annotations": annotations}, "spec": spec,
        })
    }

    #[tokio::test]
    async fn sets_default_class_on_ingress_without_class() {
        let world = TestCluster::new().await;
        let marked = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
            "metadata": {"name": "usual", "annotations": {MARK: "true"}},
        });
        world.put(marked).await;
        let plugin = DefaultIngressClass::default();
        let class = |ingress| {
            let ingress = world.admit(&plugin, ingress).unwrap();
            ingress.at("spec").at("ingressClassName").clone()
        };
        assert_eq!(class(ingress(&json!({}), &json!({}))), "usual");
        assert_eq!(
            class(ingress(&json!({"ingressClassName": "own"}), &json!({}))),
            "own"
        );
        assert_eq!(class(ingress(&json!({}), &json!({CLASS: "own"}))), Value::Null);
    }
}
