//! A new node takes no pods before somebody has seen that it is ready.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::{Attributes, Plugin};
use crate::cache::Caches;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

/// The plugin.
pub(super) struct TaintNodes;

impl Plugin for TaintNodes {
    fn admit(&self, attributes: &mut Attributes<'_>, _: &Caches) -> Result<(), Status> {
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
    use super::{super::testing::World, *};

    fn node(taints: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "spec": {"taints": taints}})
    }

    #[tokio::test]
    async fn a_new_node_is_tainted_once_and_an_old_one_is_not() {
        let world = World::new().await;
        let other = json!({"key": NOT_READY, "effect": "NoExecute"});
        let tainted = world.admit(&TaintNodes, node(&json!([other]))).unwrap();
        let taint = json!({"key": NOT_READY, "effect": EFFECT});
        assert_eq!(tainted, node(&json!([other, taint])));
        assert_eq!(world.admit(&TaintNodes, tainted.clone()).unwrap(), tainted);
        let ready = node(&json!([]));
        assert_eq!(world.update(&TaintNodes, ready.clone(), &tainted).unwrap(), ready);
    }
}
