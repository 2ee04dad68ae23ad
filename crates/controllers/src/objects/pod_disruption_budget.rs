//! PodDisruptionBudgets, as controllers read them.

use std::collections::BTreeMap;

use k3_workloads::{Condition, IntOrString, StringMap};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::{Projection, RawSelector};

/// A pod disruption budget.
pub type PodDisruptionBudget = Projection<PodDisruptionBudgetSpec, PodDisruptionBudgetStatus>;

/// PodDisruptionBudget spec.
// upstream: staging/src/k8s.io/api/policy/v1/types.go PodDisruptionBudgetSpec
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// minAvailable.
    pub min_available: Option<IntOrString>,
    /// maxUnavailable.
    pub max_unavailable: Option<IntOrString>,
    /// Selects pods; none if not set.
    pub selector: Option<RawSelector>,
}

/// PodDisruptionBudget status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// The generation of the spec that this is about.
    pub observed_generation: i64,
    /// Pods whose eviction was granted and that are not terminating yet, with the time of the grant.
    pub disrupted_pods: BTreeMap<Box<str>, Timestamp>,
    /// How many may be evicted now.
    pub disruptions_allowed: i32,
    /// How many are healthy.
    pub current_healthy: i32,
    /// desiredHealthy.
    pub desired_healthy: i32,
    /// expectedPods.
    pub expected_pods: i32,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

// --- Budget ---

impl PodDisruptionBudget {
    /// Whether pods with these labels match.
    pub fn selects(&self, labels: &StringMap) -> bool {
        let selector = self.spec.selector.as_ref();
        selector.is_some_and(|selector| selector.selector.matches(labels))
    }
}
