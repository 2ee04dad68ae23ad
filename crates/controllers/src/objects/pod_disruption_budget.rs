//! How many pods may be missed at once: pod disruption budgets.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::{Condition, IntOrPercent, Projection, RawSelector};

/// A pod disruption budget.
pub type PodDisruptionBudget = Projection<PodDisruptionBudgetSpec, PodDisruptionBudgetStatus>;

/// How many pods may be missed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// So many are to be there.
    pub min_available: Option<IntOrPercent>,
    /// So many may be away.
    pub max_unavailable: Option<IntOrPercent>,
    /// Which pods are meant; none if it is not said.
    pub selector: Option<RawSelector>,
}

/// How many pods may be missed now.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// The generation of the spec that this is about.
    pub observed_generation: i64,
    /// Pods whose eviction was allowed and that are not going yet, and when that was.
    pub disrupted_pods: BTreeMap<Box<str>, Timestamp>,
    /// How many may be evicted now.
    pub disruptions_allowed: i32,
    /// How many are healthy.
    pub current_healthy: i32,
    /// How many are to be.
    pub desired_healthy: i32,
    /// How many there are to be in all.
    pub expected_pods: i32,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

// --- Budget ---

impl PodDisruptionBudget {
    /// Whether pods with these labels are meant.
    pub fn selects(&self, labels: &BTreeMap<Box<str>, Box<str>>) -> bool {
        let selector = self.spec.selector.as_ref();
        selector.is_some_and(|selector| selector.selector.matches(labels))
    }
}
