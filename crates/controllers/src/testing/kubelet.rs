//! Nodes for tests: pods become ready where they are sent, and go when they are to.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::Stage;
use crate::resource::PODS;

impl Stage {
    /// All pods, as they are stored.
    pub(crate) fn pods(&self) -> Vec<Value> {
        let pods = self.api.list::<Pod>().into_iter();
        pods.map(|pod| serde_json::to_value(pod).expect("a pod is JSON"))
            .collect()
    }

    /// Runs pods: those that are new get a node and become ready, those that are to go are gone. Those that `is_left` are not
    /// touched.
    pub(crate) fn run_pods(&self, is_left: impl Fn(&Value) -> bool) {
        for mut pod in self.pods() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let namespace = pod["metadata"]["namespace"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if pod["metadata"].get("deletionTimestamp").is_some() {
                self.api.remove::<Pod>(&namespace, &name);
            } else if pod["status"]["phase"] == "Pending" && !is_left(&pod) {
                let required = "requiredDuringSchedulingIgnoredDuringExecution";
                let named = &pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"][0];
                let node = named["matchFields"][0]["values"][0].as_str().unwrap_or("n1");
                pod["spec"]["nodeName"] = node.to_owned().into();
                let since = self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                pod["status"] = json!({
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
                });
                self.put(&PODS, pod);
            }
        }
    }
}
