//! Pods.

use std::sync::Arc;

use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::Timestamp;

use super::{Owner, PodVolume, Requests, SchedulerObject, Spec, requests::AllocatedStatus};
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
};

/// A pod as it is kept.
// upstream: pkg/scheduler/framework/types.go PodInfo
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Where its name counts.
    pub namespace: Text,
    /// Its name.
    pub name: Box<str>,
    /// The object's UID.
    pub uid: Text,
    /// The version of its last change.
    pub version: Box<str>,
    /// How often its specification changed.
    pub generation: i64,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// What it has in common with others.
    pub spec: Arc<Spec>,
    /// Who controls it.
    pub owner: Option<Owner>,
    /// Where it runs.
    pub node: Option<Text>,
    /// Where it may be placed soon.
    pub nominated_node_name: Option<Text>,
    /// Since when it runs.
    pub start: Option<Timestamp>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// Whether it is terminating because of a preemption.
    pub preempted: bool,
    /// What it takes of its node, when that is not what it asks for.
    pub taken: Option<Box<Requests>>,
    /// Its `PodScheduled` condition; only while it is unassigned.
    pub condition: Option<Box<Condition>>,
}

impl SchedulerObject for Pod {
    type Source = k3_workloads::Pod;

    /// What has run to its end takes nothing of its node.
    fn is_relevant(source: &k3_workloads::Pod) -> bool {
        !source.has_ended()
    }

    fn read(source: &k3_workloads::Pod, interner: &mut StringInterner) -> Self {
        let k3_workloads::Pod {
            metadata: meta,
            spec: source_spec,
            status,
        } = source;
        let namespace = interner.text(&meta.namespace);
        let spec = Spec::derive(source_spec, &namespace, interner);
        let condition = |kind: &str| Condition::find(&status.conditions, kind);
        let node = (!source_spec.node_name.is_empty()).then(|| interner.text(&source_spec.node_name));
        let infeasible =
            condition("PodResizePending").is_some_and(|condition| &*condition.reason == "Infeasible");
        let allocated = AllocatedStatus { status, infeasible };
        let taken = node
            .is_some()
            .then(|| Requests::of_running(&source_spec.template, allocated, interner));
        let taken = taken.flatten().filter(|taken| *taken != spec.requests);
        let terminating = meta.is_terminating();
        let preempted = |found: &Condition| {
            found.status == ConditionStatus::True && &*found.reason == "PreemptionByScheduler"
        };
        let scheduled = condition("PodScheduled").filter(|_| node.is_none());
        let nominated_node_name = &status.nominated_node_name;
        Pod {
            name: meta.name.clone(),
            uid: (&*meta.uid).into(),
            version: meta.resource_version.clone(),
            generation: meta.generation,
            labels: Labels::derive(&meta.labels, interner),
            spec,
            owner: Owner::of(meta, interner),
            node,
            nominated_node_name: (!nominated_node_name.is_empty())
                .then(|| interner.text(nominated_node_name)),
            start: status.start_time,
            terminating,
            preempted: terminating && condition("DisruptionTarget").is_some_and(preempted),
            taken: taken.map(Box::new),
            condition: scheduled.cloned().map(Box::new),
            namespace,
        }
    }
}

impl Pod {
    /// What it takes of its node.
    pub fn requests(&self) -> &Requests {
        self.taken.as_deref().unwrap_or(&self.spec.requests)
    }

    /// How important it is.
    pub fn priority(&self) -> i32 {
        self.spec.priority
    }

    /// The names of its claims, in its namespace.
    pub fn claims(&self) -> impl Iterator<Item = Text> {
        self.spec.volumes.iter().filter_map(|volume| match volume {
            PodVolume::PersistentVolumeClaim(name) => Some(name.clone()),
            PodVolume::Ephemeral(volume) => Some(self.claim_of(volume)),
            _ => None,
        })
    }

    /// The name of the claim that is made for a volume of this pod.
    pub fn claim_of(&self, volume: &str) -> Text {
        format!("{}-{volume}", self.name).into()
    }

    /// The same pod on a node.
    #[must_use]
    pub fn on(&self, node: Text) -> Pod {
        Pod {
            node: Some(node),
            ..self.clone()
        }
    }
}
