//! An ingress that names no class gets the default one.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};

use super::{Attributes, Plugin, marked_class::MarkedClass};
use crate::cache::Caches;

const GROUP: &str = "networking.k8s.io";
/// What makes a class the default.
const MARK: &str = "ingressclass.kubernetes.io/is-default-class";
/// Where old clients name the class of an ingress.
const CLASS: &str = "kubernetes.io/ingress.class";

/// The plugin.
#[derive(Default)]
pub(super) struct DefaultIngressClass(MarkedClass);

impl Plugin for DefaultIngressClass {
    fn admit(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
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

    use super::{super::testing::World, *};

    fn ingress(spec: &Value, annotations: &Value) -> Value {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": "i", "namespace": "n", "annotations": annotations}, "spec": spec,
        })
    }

    #[tokio::test]
    async fn an_ingress_that_says_nothing_gets_the_default_class() {
        let world = World::new().await;
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
