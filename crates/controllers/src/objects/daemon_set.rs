//! Daemon sets, as controllers see them.

use kubecontroller::selector::Selector;
use serde::Deserialize;

use super::{Projection, RollingUpdate, Template};

/// A daemon set.
pub type DaemonSet = Projection<DaemonSpec, DaemonStatus>;

/// DaemonSet spec.
// upstream: staging/src/k8s.io/api/apps/v1/types.go DaemonSetSpec
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSpec {
    /// The pod selector.
    pub selector: Selector,
    /// The pod template.
    pub template: Template,
    /// How pods of earlier templates are replaced.
    pub update_strategy: DaemonStrategy,
    /// How long a pod is ready before it counts as available.
    pub min_ready_seconds: i32,
    /// revisionHistoryLimit.
    pub revision_history_limit: Option<i32>,
}

/// How pods of earlier templates are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonStrategy {
    /// The strategy.
    #[serde(rename = "type")]
    pub kind: UpdateStrategyKind,
    /// The bounds of a rolling update.
    pub rolling_update: Option<RollingUpdate>,
}

/// Update strategy of DaemonSets and StatefulSets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum UpdateStrategyKind {
    /// Users, whenever they want to.
    OnDelete,
    /// The controller, a few at a time.
    #[default]
    #[serde(other)]
    RollingUpdate,
}

/// DaemonSet status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonStatus {
    /// Nodes that should have a pod, and have one.
    pub current_number_scheduled: i32,
    /// Nodes that have a pod and should not.
    pub number_misscheduled: i32,
    /// Nodes that should have a pod.
    pub desired_number_scheduled: i32,
    /// Of those, where it is ready.
    pub number_ready: i32,
    /// The generation of the spec that this is about.
    pub observed_generation: i64,
    /// Where it is of the template of now.
    pub updated_number_scheduled: i32,
    /// Where it is ready for long enough.
    pub number_available: i32,
    /// Where it is not.
    pub number_unavailable: i32,
    /// How often the hash of a template was that of another one.
    pub collision_count: Option<i32>,
}
