//! `DefaultTolerationSeconds`: pods tolerate not-ready and unreachable nodes for five minutes unless they specify otherwise.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::{AdmissionAttributes, AdmissionPlugin, Operation};
use crate::cache::WatchCaches;

/// The taints of nodes that are not ready or unreachable.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

pub(super) struct DefaultTolerationSeconds;

// upstream: plugin/pkg/admission/defaulttolerationseconds/admission.go Admit
impl AdmissionPlugin for DefaultTolerationSeconds {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let concerns = matches!(attributes.operation, Operation::Create | Operation::Update)
            && attributes.subresource.is_empty()
            && attributes.is_of("", "pods");
        if concerns {
            tolerate(attributes.object);
        }
        Ok(())
    }
}

fn tolerate(pod: &mut Value) {
    let there = pod.at("spec").items("tolerations");
    let missing: Vec<_> = TAINTS
        .into_iter()
        .filter(|taint| !there.iter().any(|toleration| covers(toleration, taint)))
        .map(|taint| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}))
        .collect();
    if missing.is_empty() {
        return;
    }
    let spec = pod.ensure_object("spec");
    spec.set_default("tolerations", json!([]));
    if let Some(Value::Array(tolerations)) = spec.at_mut("tolerations") {
        tolerations.extend(missing);
    }
}

/// Whether a toleration is about a taint that drives pods away.
fn covers(toleration: &Value, taint: &str) -> bool {
    [taint, ""].contains(&toleration.text("key")) && ["NoExecute", ""].contains(&toleration.text("effect"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(tolerations: &Value) -> Vec<String> {
        let mut pod = json!({"spec": {"tolerations": tolerations}});
        tolerate(&mut pod);
        let tolerations = pod.at("spec").items("tolerations").iter();
        tolerations
            .map(|toleration| {
                format!(
                    "{}:{}",
                    toleration.text("key"),
                    toleration.at("tolerationSeconds")
                )
            })
            .collect()
    }

    #[test]
    fn adds_default_tolerations() {
        let [not_ready, unreachable] = TAINTS;
        assert_eq!(
            keys(&Value::Null),
            [format!("{not_ready}:300"), format!("{unreachable}:300")]
        );
        assert_eq!(
            keys(&json!([{"key": unreachable, "operator": "Exists", "tolerationSeconds": 1}])),
            [format!("{unreachable}:1"), format!("{not_ready}:300")]
        );
    }

    #[test]
    fn keeps_wildcard_toleration_and_ignores_other_effects() {
        assert_eq!(keys(&json!([{"operator": "Exists"}])), [":null"]);
        let other = json!([{"operator": "Exists", "effect": "NoSchedule"}]);
        assert_eq!(keys(&other).len(), 3);
    }
}
