//! `RuntimeClass`: sets the overhead and the scheduling constraints of a RuntimeClass in its pods.

use k3_api::{
    go,
    quantity::Quantity,
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::{Map, Value};

use super::{AdmissionAttributes, AdmissionPlugin, object};
use crate::cache::WatchCaches;

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

pub(super) struct RuntimeClass;

// upstream: plugin/pkg/admission/runtimeclass/admission.go Admit, Validate
impl AdmissionPlugin for RuntimeClass {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        let Some(class) = class(attributes, caches)? else {
            return Ok(());
        };
        if class.has("overhead") {
            let fixed = class.at_path("overhead.podFixed");
            let said = attributes.object.at("spec").entries("overhead");
            if !said.is_empty() && !is_same(said, class.at("overhead").entries("podFixed")) {
                return Err(attributes.forbidden(OTHER_OVERHEAD));
            }
            if !fixed.is_null() {
                attributes
                    .object
                    .ensure_object("spec")
                    .set("overhead", fixed.clone());
            }
        }
        if class.has("scheduling") {
            select_nodes(attributes, class.at("scheduling"))?;
            let spec = attributes.object.ensure_object("spec");
            let merged = merge(
                spec.items("tolerations"),
                class.at("scheduling").items("tolerations"),
            );
            if !merged.is_empty() {
                spec.set("tolerations", merged);
            }
        }
        Ok(())
    }

    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if !attributes.creates("", "pods") {
            return Ok(());
        }
        let class = class(attributes, caches)?.filter(|class| class.has("overhead"));
        let said = attributes.object.at("spec").entries("overhead");
        match class {
            Some(class) if !is_same(said, class.at("overhead").entries("podFixed")) => {
                Err(attributes.forbidden(OTHER_OVERHEAD))
            }
            None if !said.is_empty() => Err(attributes.forbidden(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )),
            _ => Ok(()),
        }
    }
}

/// The class that a new pod names.
fn class(attributes: &AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<Option<Value>, Status> {
    let spec = attributes.object.at("spec");
    if !attributes.creates("", "pods") || !spec.has("runtimeClassName") {
        return Ok(None);
    }
    let name = spec.text("runtimeClassName");
    match object("node.k8s.io", "runtimeclasses", "", name, caches) {
        Some(class) => Ok(Some(class)),
        None => Err(attributes.forbidden(format!(
            "pod rejected: RuntimeClass {} not found",
            go::quote(name)
        ))),
    }
}

/// Whether amounts are the same, however they are written.
fn is_same(amounts: &Map<String, Value>, others: &Map<String, Value>) -> bool {
    amounts.len() == others.len()
        && amounts.iter().all(|(name, amount)| {
            let other = others.get(name);
            other
                .is_some_and(|other| amount == other || read(amount) == read(other) && read(amount).is_some())
        })
}

fn read(amount: &Value) -> Option<Quantity> {
    Quantity::from_value(amount).ok()
}

/// The pod runs where its class can, too.
// upstream: plugin/pkg/admission/runtimeclass/admission.go setScheduling
fn select_nodes(attributes: &mut AdmissionAttributes<'_>, scheduling: &Value) -> Result<(), Status> {
    for (key, wanted) in scheduling.entries("nodeSelector") {
        let said = attributes.object.at("spec").at("nodeSelector").at(key);
        if !said.is_null() && said != wanted {
            let wanted = go::plain(wanted);
            let said = go::plain(said);
            return Err(attributes.forbidden(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {said}"
            )));
        }
        let selector = attributes
            .object
            .ensure_object("spec")
            .ensure_object("nodeSelector");
        selector.set(key, wanted.clone());
    }
    Ok(())
}

/// So many tolerations are compared each with each. No pod that people write has more.
const MAX_COMPARED: usize = 500;

/// All tolerations of both but those that another one covers. Of very many, all stay: they tolerate the same.
fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<_> = first.iter().chain(second).collect();
    if all.len() > MAX_COMPARED {
        return all.into_iter().cloned().collect();
    }
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let is_covered = merged.iter().any(|kept| covers(kept, toleration))
            || all[index + 1..]
                .iter()
                .any(|later| later != toleration && covers(later, toleration));
        if !is_covered {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Whether one toleration tolerates all that another does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let operator = wide.text("operator");
    let is_every_key = wide.text("key").is_empty() && operator == "Exists";
    if narrow.text("key") != wide.text("key") && !is_every_key {
        return false;
    }
    if !wide.text("effect").is_empty() && narrow.text("effect") != wide.text("effect") {
        return false;
    }
    if wide.text("effect") == "NoExecute"
        && let Some(max) = wide.int("tolerationSeconds")
        && narrow
            .int("tolerationSeconds")
            .is_none_or(|seconds| seconds > max)
    {
        return false;
    }
    match operator {
        "" | "Equal" => narrow.text("operator") == "Equal" && narrow.text("value") == wide.text("value"),
        other => other == "Exists",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    fn pod(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": spec})
    }

    async fn world() -> TestCluster {
        let world = TestCluster::new().await;
        world
            .put(json!({
                "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "box"}, "handler": "h",
                "overhead": {"podFixed": {"memory": "1Gi"}},
                "scheduling": {"nodeSelector": {"kind": "box"}, "tolerations": [{"key": "box", "operator": "Exists"}]},
            }))
            .await;
        world
    }

    #[tokio::test]
    async fn sets_overhead_and_scheduling_from_class() {
        let world = world().await;
        let wanted = pod(&json!({"runtimeClassName": "box", "nodeSelector": {"a": "b"}}));
        let made = world.admit(&RuntimeClass, wanted).unwrap();
        assert_eq!(
            made.at("spec"),
            &json!({
                "runtimeClassName": "box",
                "overhead": {"memory": "1Gi"},
                "nodeSelector": {"a": "b", "kind": "box"},
                "tolerations": [{"key": "box", "operator": "Exists"}],
            })
        );
        let same = pod(&json!({"runtimeClassName": "box", "overhead": {"memory": "1073741824"}}));
        assert!(world.admit(&RuntimeClass, same).is_ok());
    }

    #[tokio::test]
    async fn rejects_conflicting_overhead_or_node_selector() {
        let world = world().await;
        for (spec, why) in [
            (
                json!({"runtimeClassName": "absent"}),
                "pod rejected: RuntimeClass \"absent\" not found",
            ),
            (
                json!({"runtimeClassName": "box", "overhead": {"memory": "2Gi"}}),
                OTHER_OVERHEAD,
            ),
            (
                json!({"overhead": {"memory": "1Gi"}}),
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            ),
            (
                json!({"runtimeClassName": "box", "nodeSelector": {"kind": "other"}}),
                "conflict: runtimeClass.scheduling.nodeSelector[kind] = box; pod.spec.nodeSelector[kind] = other",
            ),
        ] {
            let refused = world.admit(&RuntimeClass, pod(&spec)).unwrap_err();
            assert_eq!(refused, format!("pods \"p\" is forbidden: {why}"));
        }
    }

    #[test]
    fn merges_tolerations_without_duplicates() {
        let narrow = json!({"key": "a", "operator": "Equal", "value": "x", "effect": "NoExecute", "tolerationSeconds": 5});
        let wide = json!({"key": "a", "operator": "Exists"});
        let every = json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9});
        let short = json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 4});
        let one = |toleration: &Value| std::slice::from_ref(toleration).to_vec();
        assert_eq!(merge(&one(&narrow), &one(&wide)), one(&wide));
        assert_eq!(merge(&one(&wide), &one(&narrow)), one(&wide));
        assert_eq!(merge(&one(&wide), &one(&wide)), one(&wide));
        assert_eq!(merge(&one(&narrow), &one(&every)), one(&every));
        assert_eq!(merge(&one(&narrow), &one(&short)), [narrow, short]);
    }
}
