//! Nodes for tests: pods become ready where they are sent, and go when they are to.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kubecontroller::testing::{WaitCondition, eventually};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::TestCluster;
use crate::resource::PODS;

impl TestCluster {
    /// All pods, as they are stored.
    pub(crate) fn pods(&self) -> Vec<Value> {
        let pods = self.api.list::<Pod>().into_iter();
        pods.map(|pod| serde_json::to_value(pod).expect("a pod is JSON"))
            .collect()
    }

    /// Runs pods: new ones get a node and become ready, terminating ones are removed. Those that `is_left` are not
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
    /// How many pods there are of each owner.
    pub(crate) fn pods_by_owner(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for pod in self.pods() {
            let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str();
            *counts.entry(owner.unwrap_or_default().to_owned()).or_default() += 1;
        }
        counts
    }

    /// Runs pods until a condition is met.
    pub(crate) async fn until<L: WaitCondition>(&self, mut look: impl FnMut() -> L) -> L::Output {
        eventually(|| {
            self.run_pods(|_| false);
            let seen = look();
            async move { seen }
        })
        .await
    }

    /// Lets time pass in which pods run and nothing else happens.
    pub(crate) async fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.run_pods(|_| false);
            sleep(Duration::from_millis(100)).await;
        }
    }
}
