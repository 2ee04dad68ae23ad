//! Pods.

use std::{borrow::Cow, time::Duration};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};

use crate::{
    Condition, ConditionStatus, ContainerStatus, ObjectMeta, PodSpec, ResourceList, ResourceRequirements,
    Shared, SharedList, projected_object, status_values,
};

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PodSpec,
    /// The status.
    pub status: PodStatus,
}

projected_object!(Pod);

/// Pod status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// The phase.
    pub phase: PodPhase,
    /// The reason.
    pub reason: Box<str>,
    /// The conditions, without the fields that no component reads.
    #[serde(deserialize_with = "conditions")]
    pub conditions: SharedList<Condition>,
    /// Its address.
    #[serde(rename = "podIP")]
    pub ip: Box<str>,
    /// All its addresses.
    #[serde(rename = "podIPs", deserialize_with = "addresses")]
    pub ips: Box<[Box<str>]>,
    /// When its node began with it.
    #[serde(deserialize_with = "status_values::time")]
    pub start_time: Option<Timestamp>,
    /// Its containers.
    pub container_statuses: SharedList<ContainerStatus>,
    /// Init containers.
    pub init_container_statuses: SharedList<ContainerStatus>,
    /// The node on which it may soon be placed; empty if there is none.
    pub nominated_node_name: Box<str>,
    /// What the node has allocated to the pod as a whole.
    #[serde(deserialize_with = "status_values::optional_resource_list")]
    pub allocated_resources: Option<Shared<ResourceList>>,
    /// What the pod as a whole runs with.
    #[serde(deserialize_with = "status_values::requirements")]
    pub resources: Option<ResourceRequirements>,
}

/// Pod phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PodPhase {
    /// Not all of it runs yet.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// All of it has ended, and well.
    Succeeded,
    /// All of it has ended, not all of it well.
    Failed,
    /// Its kubelet does not report.
    #[serde(other)]
    Unknown,
}

// --- Pod ---

impl Pod {
    /// Whether it is ready.
    // upstream: pkg/api/v1/pod/util.go IsPodReady
    pub fn is_ready(&self) -> bool {
        Condition::holds(&self.status.conditions, "Ready")
    }

    /// Since when it is ready; `None` if it is not.
    pub fn ready_since(&self) -> Option<Timestamp> {
        let ready = Condition::find(&self.status.conditions, "Ready")?;
        (ready.status == ConditionStatus::True).then_some(ready.last_transition_time?)
    }

    /// Whether it is ready for long enough to count as available.
    // upstream: pkg/api/v1/pod/util.go IsPodAvailable
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.is_ready()
            && (min_ready_seconds <= 0
                || self
                    .ready_since()
                    .is_some_and(|since| now.duration_since(since).as_secs() >= i64::from(min_ready_seconds)))
    }

    /// When it counts as available if it stays ready; `None` if it does already or is not ready.
    // upstream: pkg/controller/controller_utils.go FindMinNextPodAvailabilityCheck, nextPodAvailabilityCheck
    pub fn available_in(&self, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
        let age = now.duration_since(self.ready_since()?);
        let left = SignedDuration::from_secs(i64::from(min_ready_seconds)) - age;
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }

    /// Whether it is terminating: it has a deletion timestamp and has not terminated.
    // upstream: pkg/controller/controller_utils.go IsPodTerminating
    pub fn is_terminating(&self) -> bool {
        !self.has_ended() && self.metadata.is_terminating()
    }

    /// Whether all of it has ended.
    // upstream: pkg/api/v1/pod/util.go IsPodTerminal
    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether it is active: it has not terminated and has no deletion timestamp.
    // upstream: pkg/controller/controller_utils.go IsPodActive
    pub fn is_active(&self) -> bool {
        !self.has_ended() && !self.metadata.is_terminating()
    }

    /// Names of its claims, including those of ephemeral volumes.
    pub fn claims(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let volumes = self.spec.volumes.iter();
        volumes.filter_map(|volume| volume.claim_name(&self.metadata.name))
    }

    /// The node it is bound to or may only be bound to; empty if there is none.
    pub fn target(&self) -> &str {
        if self.spec.node_name.is_empty() {
            self.spec.required_node().unwrap_or_default()
        } else {
            &self.spec.node_name
        }
    }

    /// Whether that is an init container that runs as long as the pod does.
    // upstream: pkg/api/v1/pod/util.go IsRestartableInitContainer
    pub fn is_sidecar(&self, container: &str) -> bool {
        self.spec.sidecars().any(|sidecar| &*sidecar.name == container)
    }

    /// How often its containers were started again, all together.
    pub fn restarts(&self) -> u32 {
        self.status
            .container_statuses
            .iter()
            .map(|status| status.restart_count)
            .sum()
    }
}

/// Pods are many, each with several conditions: other fields are dropped.
fn conditions<'de, D: Deserializer<'de>>(from: D) -> Result<SharedList<Condition>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct PodConditionFields {
        #[serde(rename = "type")]
        kind: Box<str>,
        status: ConditionStatus,
        reason: Box<str>,
        message: Box<str>,
        #[serde(deserialize_with = "status_values::time")]
        last_transition_time: Option<Timestamp>,
    }
    let written = Option::<Vec<PodConditionFields>>::deserialize(from)?.unwrap_or_default();
    let conditions = written.into_iter().map(|condition| Condition {
        kind: condition.kind,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
        last_transition_time: condition.last_transition_time,
        ..Condition::default()
    });
    Ok(conditions.collect())
}

fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[Box<str>]>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Address {
        ip: Box<str>,
    }
    let written = Option::<Vec<Address>>::deserialize(from)?.unwrap_or_default();
    Ok(written.into_iter().map(|address| address.ip).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_available_after_min_ready_seconds() {
        let pod: Pod = serde_json::from_str(
            r#"{"metadata":{"name":"p"},"status":{"conditions":[{"type":"Ready","status":"True",
                "lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#,
        )
        .unwrap();
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let early = at("2026-01-01T00:00:09.5Z");
        let late = at("2026-01-01T00:00:10Z");
        assert!(pod.is_available(0, early) && !pod.is_available(10, early) && pod.is_available(10, late));
        assert_eq!(pod.available_in(10, early), Some(Duration::from_millis(500)));
        assert_eq!(
            (pod.available_in(10, late), pod.available_in(0, early)),
            (None, None)
        );
        assert!(!Pod::default().is_available(0, late));
    }

    #[test]
    fn finds_sidecars_by_name() {
        let pod: Pod = serde_json::from_str(
            r#"{"spec":{"initContainers":[{"name":"a"},{"name":"b","restartPolicy":"Always"}]}}"#,
        )
        .unwrap();
        assert!(pod.is_sidecar("b") && !pod.is_sidecar("a"));
    }
}
