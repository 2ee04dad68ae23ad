//! `TaintNodesByCondition`: taints a new node as not ready, so that no pods are scheduled before it is ready.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::{AdmissionAttributes, AdmissionPlugin};
use crate::cache::WatchCaches;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

pub(super) struct TaintNodesByCondition;

// upstream: plugin/pkg/admission/nodetaint/admission.go Admit, addNotReadyTaint
impl AdmissionPlugin for TaintNodesByCondition {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        if !attributes.creates("", "nodes") {
            return Ok(());
        }
        let spec = attributes.object.ensure_object("spec");
        let mut taints = spec.items("taints").iter();
        if taints.any(|taint| taint.text("key") == NOT_READY && taint.text("effect") == EFFECT) {
            return Ok(());
        }
        spec.set_default("taints", json!([]));
        if let Some(Value::Array(taints)) = spec.at_mut("taints") {
            taints.push(json!({"key": NOT_READY, "effect": EFFECT}));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::TestCluster, *};

    fn node(taints: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "spec": {"taints": taints}})
    }

    #[tokio::test]
    async fn taints_new_node_once() {
        let world = TestCluster::new().await;
        let other = json!({"key": NOT_READY, "effect": "NoExecute"});
        let tainted = world
            .admit(&TaintNodesByCondition, node(&json!([other])))
            .unwrap();
        let taint = json!({"key": NOT_READY, "effect": EFFECT});
        assert_eq!(tainted, node(&json!([other, taint])));
        assert_eq!(
            world.admit(&TaintNodesByCondition, tainted.clone()).unwrap(),
            tainted
        );
        let ready = node(&json!([]));
        assert_eq!(
            world
                .update(&TaintNodesByCondition, ready.clone(), &tainted)
                .unwrap(),
            ready
        );
    }
}
