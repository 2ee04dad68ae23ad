//! Pods.

use std::sync::Arc;

use kubecontroller::object::SlimMeta;
use serde::Deserialize;

use super::{Owner, PodVolume, RawSpec, Requests, SchedulerObject, Spec, requests::AllocatedStatus};
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
};

/// What is read of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodFields {
    /// What it is to be.
    pub spec: RawSpec,
    /// What it is.
    pub status: RawStatus,
}

/// The status of a pod as far as scheduling reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawStatus {
    /// Where it may be placed soon.
    pub nominated_node_name: String,
    /// Since when it runs.
    pub start_time: Option<String>,
    /// What holds of it.
    pub conditions: Vec<RawCondition>,
    /// What was given to it.
    #[serde(flatten)]
    pub allocated: AllocatedStatus,
}

/// A condition as it stands in an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawCondition {
    /// What it is about.
    pub r#type: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in a word.
    pub reason: String,
    /// Why.
    pub message: String,
    /// Of which generation.
    pub observed_generation: i64,
}

/// The `PodScheduled` condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether it is placed: True or False.
    pub status: Text,
    /// Why not, in a word.
    pub reason: Text,
    /// Why not.
    pub message: Box<str>,
    /// Of which generation.
    pub generation: i64,
}

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
    pub start: Option<Box<str>>,
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
    type Fields = PodFields;

    fn read(meta: &SlimMeta, fields: &PodFields, interner: &mut StringInterner) -> Self {
        let namespace = interner.text(&meta.namespace);
        let spec = Spec::read(&fields.spec, &namespace, interner);
        let status = &fields.status;
        let condition = |name: &str| {
            status
                .conditions
                .iter()
                .find(|condition| condition.r#type == name)
        };
        let node = (!fields.spec.node_name.is_empty()).then(|| interner.text(&fields.spec.node_name));
        let infeasible =
            condition("PodResizePending").is_some_and(|condition| condition.reason == "Infeasible");
        let allocated = &status.allocated;
        let taken = if infeasible {
            let allocated = AllocatedStatus {
                infeasible,
                ..allocated.clone()
            };
            Requests::of_running(&fields.spec, &allocated, interner)
        } else {
            Requests::of_running(&fields.spec, allocated, interner)
        };
        let taken = taken
            .filter(|taken| node.is_some() && *taken != spec.requests)
            .map(Box::new);
        let terminating = meta.deletion_timestamp.is_some();
        let disrupted = condition("DisruptionTarget");
        let preempted =
            |found: &RawCondition| found.status == "True" && found.reason == "PreemptionByScheduler";
        let scheduled = condition("PodScheduled").filter(|_| node.is_none());
        let scheduled = scheduled.map(|raw| Condition {
            status: interner.text(&raw.status),
            reason: interner.text(&raw.reason),
            message: raw.message.as_str().into(),
            generation: raw.observed_generation,
        });
        let labels = Labels::read(meta.labels.iter(), interner);
        let nominated_node_name = &status.nominated_node_name;
        Pod {
            name: meta.name.as_str().into(),
            uid: meta.uid.as_str().into(),
            version: meta.resource_version.as_str().into(),
            generation: meta.generation.unwrap_or(0),
            labels: interner.labels.share(labels),
            spec: interner.specs.share(spec),
            owner: Owner::of(meta, interner),
            node,
            nominated_node_name: (!nominated_node_name.is_empty())
                .then(|| interner.text(nominated_node_name)),
            start: status.start_time.as_deref().map(Into::into),
            terminating,
            preempted: terminating && disrupted.is_some_and(preempted),
            taken,
            condition: scheduled.map(Box::new),
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
