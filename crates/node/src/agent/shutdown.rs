//! How pods end before the machine does.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use tokio::time::{sleep, timeout};

use super::{
    Shutdown,
    tenants::{Eviction, Tenants, grace_of, priority},
};

/// What pods and the node say then.
pub(super) const LEAVING: &str = "node is shutting down";
const REASON: &str = "Terminated";
const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";

/// Pods that end together, and how long all of them have.
#[derive(Debug)]
struct Group {
    limit: Duration,
    pods: Vec<Arc<Pod>>,
}

impl Shutdown {
    /// As upstream is usually told it: how long there is, and how much of that is for critical pods.
    pub fn new(total: Duration, critical: Duration) -> Self {
        let usual = total.saturating_sub(critical);
        let grace = if total.is_zero() {
            Vec::new()
        } else {
            vec![(0, usual.as_secs()), (2_000_000_000, critical.as_secs())]
        };
        Shutdown { grace }
    }

    /// Whether pods end with the agent at all.
    pub(super) fn is_wanted(&self) -> bool {
        !self.grace.is_empty()
    }

    /// The pods by priority, the least important first. Pods below every priority that is named are with the least.
    fn groups(&self, pods: Vec<Arc<Pod>>) -> Vec<Group> {
        let mut grace = self.grace.clone();
        grace.sort_unstable();
        let mut groups: Vec<Group> = grace
            .iter()
            .map(|(_, seconds)| Group {
                limit: Duration::from_secs(*seconds),
                pods: Vec::new(),
            })
            .collect();
        for pod in pods {
            let above = grace.iter().rposition(|(least, _)| priority(&pod) >= *least);
            if let Some(group) = groups.get_mut(above.unwrap_or(0)) {
                group.pods.push(pod);
            }
        }
        groups.retain(|group| !group.pods.is_empty());
        groups
    }
}

/// Ends all pods, one group after the other.
pub(super) async fn end_pods(shutdown: &Shutdown, tenants: &dyn Tenants) {
    for group in shutdown.groups(tenants.pods()) {
        for pod in &group.pods {
            let grace = Duration::from_secs(grace_of(pod)).min(group.limit);
            let eviction = Eviction {
                reason: REASON.to_owned(),
                message: MESSAGE.to_owned(),
                grace,
                disruption: Some("TerminationByKubelet".to_owned()),
            };
            tenants.evict(pod.metadata.uid.as_deref().unwrap_or_default(), eviction);
        }
        let ended = async {
            let has_ended =
                |pod: &Arc<Pod>| tenants.has_ended(pod.metadata.uid.as_deref().unwrap_or_default());
            while !group.pods.iter().all(has_ended) {
                sleep(Duration::from_millis(100)).await;
            }
        };
        if timeout(group.limit, ended).await.is_err() {
            tracing::warn!(
                pods = group.pods.len(),
                "not all pods ended in the time they had before the shutdown"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i32) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name}, "spec": {"priority": priority, "containers": []}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn the_least_important_pods_end_first() {
        let shutdown = Shutdown::new(Duration::from_secs(30), Duration::from_secs(10));
        let groups = shutdown.groups(vec![
            pod("critical", 2_000_001_000),
            pod("usual", 5),
            pod("low", -5),
        ]);
        let told: Vec<_> = groups
            .iter()
            .map(|group| {
                let names: Vec<_> = group
                    .pods
                    .iter()
                    .map(|pod| pod.metadata.name.as_deref().unwrap())
                    .collect();
                (group.limit.as_secs(), names)
            })
            .collect();
        assert_eq!(told, [(20, vec!["usual", "low"]), (10, vec!["critical"])]);
        assert!(!Shutdown::default().is_wanted());
        assert!(!Shutdown::new(Duration::ZERO, Duration::ZERO).is_wanted());
    }
}
