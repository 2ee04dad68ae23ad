//! Deployments.

use k3_workloads::{Condition, IntOrString};
use kubecontroller::selector::{LabelSelector, Selector};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Projection, Template};

/// A deployment.
pub type Deployment = Projection<DeploymentSpec, DeploymentStatus>;

/// Deployment spec.
// upstream: staging/src/k8s.io/api/apps/v1/types.go DeploymentSpec
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// Desired number of pods.
    #[serde(default = "one")]
    pub replicas: i32,
    /// How long a pod is ready before it counts as available.
    pub min_ready_seconds: i32,
    /// Whether rollouts are paused.
    pub paused: bool,
    /// How long a rollout may show no progress.
    pub progress_deadline_seconds: Option<i32>,
    /// Number of old ReplicaSets to keep.
    pub revision_history_limit: Option<i32>,
    /// The pod selector.
    pub selector: RawSelector,
    /// How pods of earlier templates are replaced.
    pub strategy: DeploymentStrategy,
    /// The pod template.
    pub template: Template,
}

/// How pods of earlier templates are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStrategy {
    /// The way.
    #[serde(rename = "type")]
    pub kind: StrategyKind,
    /// The bounds of a rolling update.
    pub rolling_update: RollingUpdate,
}

/// The way in which pods of earlier templates are replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum StrategyKind {
    /// A few at a time.
    #[default]
    RollingUpdate,
    /// All old pods are deleted before the first new one is created.
    Recreate,
}

/// The bounds of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many pods there may be beyond those wanted.
    pub max_surge: IntOrString,
    /// How many of those wanted may be unavailable.
    pub max_unavailable: IntOrString,
}

/// A selector, with the text it was written in: replica sets get it with one label more.
#[derive(Clone, Debug, Default)]
pub struct RawSelector {
    /// The parsed selector.
    pub selector: Selector,
    /// The text.
    pub text: Box<RawValue>,
}

/// Deployment status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// The generation of the spec that this is about.
    pub observed_generation: i64,
    /// How many pods there are.
    pub replicas: i32,
    /// Pods of the current template.
    pub updated_replicas: i32,
    /// Ready pods.
    pub ready_replicas: i32,
    /// Available pods.
    pub available_replicas: i32,
    /// Unavailable pods.
    pub unavailable_replicas: i32,
    /// Terminating pods.
    pub terminating_replicas: Option<i32>,
    /// Number of template hash collisions.
    pub collision_count: Option<i32>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

fn one() -> i32 {
    1
}

// --- RawSelector ---

impl RawSelector {
    /// The selector as it is written.
    pub fn to_label_selector(&self) -> LabelSelector {
        kubecontroller::decode::from_str(self.text.get()).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for RawSelector {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        let selector = kubecontroller::decode::from_str(text.get()).map_err(serde::de::Error::custom)?;
        Ok(RawSelector { selector, text })
    }
}

impl PartialEq for RawSelector {
    fn eq(&self, other: &Self) -> bool {
        self.text.get() == other.text.get()
    }
}
