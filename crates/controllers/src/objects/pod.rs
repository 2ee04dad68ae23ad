//! Pods, as controllers see them.

use std::{borrow::Cow, time::Duration};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{
    Condition, NodeSelector, Projection, SharedList, Toleration, intern::internable,
    toleration::no_execute_tolerations,
};

/// A pod.
pub type Pod = Projection<PodSpec, PodStatus>;

/// Pod spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to; empty if none.
    pub node_name: Box<str>,
    /// The name it has within its subdomain.
    pub hostname: Box<str>,
    /// The subdomain.
    pub subdomain: Box<str>,
    /// Whether containers that ended are started again.
    pub restart_policy: Box<str>,
    /// Whether it is in the network of its node.
    pub host_network: bool,
    /// The only node that it may be bound to, if its affinity names one; empty if not. Pods of daemon sets have it.
    #[serde(rename = "affinity", deserialize_with = "required_node")]
    pub pinned_to: Box<str>,
    /// What lets it stay where others are driven away.
    #[serde(deserialize_with = "no_execute_tolerations")]
    pub tolerations: SharedList<Toleration>,
    /// The containers.
    pub containers: SharedList<Container>,
    /// The init containers that run as long as the pod does.
    #[serde(rename = "initContainers", deserialize_with = "sidecars")]
    pub sidecars: SharedList<Container>,
    /// The volumes that are claims.
    #[serde(deserialize_with = "claims")]
    pub volumes: SharedList<Volume>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Container {
    /// The name.
    pub name: Box<str>,
    /// Its ports.
    pub ports: Box<[Port]>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    /// The name; may be empty.
    pub name: Box<str>,
    /// The number.
    pub container_port: u16,
    /// The protocol.
    pub protocol: Box<str>,
}

/// A volume with a claim, named or ephemeral.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volume {
    /// The name.
    pub name: Box<str>,
    /// The claim that it names; empty if the claim is the pod's own.
    pub claim: Box<str>,
}

/// Pod status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// The phase.
    pub phase: PodPhase,
    /// The reason.
    pub reason: Box<str>,
    /// The conditions, without what only people read.
    #[serde(deserialize_with = "conditions")]
    pub conditions: SharedList<Condition>,
    /// Its address.
    #[serde(rename = "podIP")]
    pub ip: Box<str>,
    /// All its addresses.
    #[serde(rename = "podIPs", deserialize_with = "addresses")]
    pub ips: Box<[Box<str>]>,
    /// When its node began with it.
    pub start_time: Option<Timestamp>,
    /// Its containers.
    pub container_statuses: SharedList<ContainerStatus>,
    /// Init containers.
    pub init_container_statuses: SharedList<ContainerStatus>,
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

/// Container status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The name.
    pub name: Box<str>,
    /// Whether it is ready.
    pub ready: bool,
    /// How often it was started again.
    pub restart_count: u32,
    /// Its state.
    pub state: ContainerState,
}

/// Container state; waiting if neither is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// It has ended.
    pub terminated: Option<ContainerTerminated>,
    /// It runs.
    pub running: Option<ContainerRunning>,
}

/// A container that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRunning {
    /// Since when.
    pub started_at: Option<Timestamp>,
}

/// A container that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerTerminated {
    /// How.
    pub exit_code: i32,
    /// The reason.
    pub reason: Box<str>,
    /// When.
    pub finished_at: Option<Timestamp>,
}

// Times have a resolution of seconds: pods created together share these lists too.
internable!(Container, Volume, Condition, ContainerStatus);

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
        (ready.status == super::ConditionStatus::True).then_some(ready.last_transition_time?)
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
        volumes.map(|volume| volume.claim_name(&self.metadata.name))
    }

    /// The node it is bound to or may only be bound to; empty if there is none.
    pub fn target(&self) -> &str {
        if self.spec.node_name.is_empty() {
            &self.spec.pinned_to
        } else {
            &self.spec.node_name
        }
    }

    /// Whether that is an init container that runs as long as the pod does.
    // upstream: pkg/api/v1/pod/util.go IsRestartableInitContainer
    pub fn is_sidecar(&self, container: &str) -> bool {
        self.spec
            .sidecars
            .iter()
            .any(|sidecar| &*sidecar.name == container)
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

// --- Volume ---

impl Volume {
    /// Whether it is an ephemeral volume.
    pub fn is_ephemeral(&self) -> bool {
        self.claim.is_empty()
    }

    /// The name of the claim that it is in a pod.
    // upstream: staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go VolumeClaimName
    pub fn claim_name(&self, pod: &str) -> Cow<'_, str> {
        if self.is_ephemeral() {
            format!("{pod}-{}", self.name).into()
        } else {
            (&*self.claim).into()
        }
    }
}

fn required_node<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Box<str>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Affinity {
        node_affinity: Option<NodeAffinity>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct NodeAffinity {
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Option<NodeSelector>,
    }
    let affinity = Option::<Affinity>::deserialize(from)?.and_then(|affinity| affinity.node_affinity);
    let required = affinity.and_then(|affinity| affinity.required);
    Ok(required.and_then(NodeSelector::named).unwrap_or_default())
}

fn claims<'de, D: serde::Deserializer<'de>>(from: D) -> Result<SharedList<Volume>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct PodVolumeFields {
        name: Box<str>,
        persistent_volume_claim: Option<Claim>,
        ephemeral: Option<serde::de::IgnoredAny>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Claim {
        claim_name: Box<str>,
    }
    let written = Option::<Vec<PodVolumeFields>>::deserialize(from)?.unwrap_or_default();
    let claims = written.into_iter().filter_map(|volume| {
        let claim = match (volume.persistent_volume_claim, volume.ephemeral) {
            (Some(claim), _) => claim.claim_name,
            (None, Some(_)) => Box::default(),
            (None, None) => return None,
        };
        Some(Volume {
            name: volume.name,
            claim,
        })
    });
    Ok(claims.collect())
}

/// Pods are many, each with several conditions: messages and unknown fields are dropped.
fn conditions<'de, D: serde::Deserializer<'de>>(from: D) -> Result<SharedList<Condition>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct PodVolumeFields {
        #[serde(rename = "type")]
        kind: Box<str>,
        status: super::ConditionStatus,
        reason: Box<str>,
        last_transition_time: Option<Timestamp>,
    }
    let written = Option::<Vec<PodVolumeFields>>::deserialize(from)?.unwrap_or_default();
    let conditions = written.into_iter().map(|condition| Condition {
        kind: condition.kind,
        status: condition.status,
        reason: condition.reason,
        last_transition_time: condition.last_transition_time,
        ..Condition::default()
    });
    Ok(conditions.collect())
}

fn sidecars<'de, D: serde::Deserializer<'de>>(from: D) -> Result<SharedList<Container>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct PodVolumeFields {
        name: Box<str>,
        ports: Box<[Port]>,
        restart_policy: Option<Box<str>>,
    }
    let written = Option::<Vec<PodVolumeFields>>::deserialize(from)?.unwrap_or_default();
    let sidecars = written
        .into_iter()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    Ok(sidecars
        .map(|PodVolumeFields { name, ports, .. }| Container { name, ports })
        .collect())
}

fn addresses<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Box<[Box<str>]>, D::Error> {
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
