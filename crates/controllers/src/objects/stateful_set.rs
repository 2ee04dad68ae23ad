//! Stateful sets, as controllers see them.

use k3_workloads::{Condition, IntOrString};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Projection, RawSelector, Template, UpdateStrategyKind};

/// A stateful set.
pub type StatefulSet = Projection<StatefulSpec, StatefulStatus>;

/// StatefulSet spec: each pod has an ordinal, and keeps its name and its claims.
// upstream: staging/src/k8s.io/api/apps/v1/types.go StatefulSetSpec
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSpec {
    /// How many.
    #[serde(default = "one")]
    pub replicas: i32,
    /// The pod selector.
    pub selector: RawSelector,
    /// The pod template.
    pub template: Template,
    /// Claims that each pod has for itself.
    pub volume_claim_templates: Vec<ClaimTemplate>,
    /// The service that names the pods.
    pub service_name: Box<str>,
    /// podManagementPolicy.
    pub pod_management_policy: PodManagementPolicy,
    /// How pods of earlier templates are replaced.
    pub update_strategy: StatefulStrategy,
    /// How long a pod is ready before it counts as available.
    pub min_ready_seconds: i32,
    /// revisionHistoryLimit.
    pub revision_history_limit: Option<i32>,
    /// persistentVolumeClaimRetentionPolicy.
    pub persistent_volume_claim_retention_policy: ClaimRetentionPolicy,
    /// How pods are numbered.
    pub ordinals: Ordinals,
}

/// A claim that each pod has for itself.
#[derive(Clone, Debug)]
pub struct ClaimTemplate {
    /// The name of the volume, with which those of the claims begin.
    pub name: Box<str>,
    /// All of it.
    pub text: Box<RawValue>,
}

/// podManagementPolicy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PodManagementPolicy {
    /// All pods are created and deleted at once.
    Parallel,
    /// Each waits for the one before it.
    #[default]
    #[serde(other)]
    OrderedReady,
}

/// How pods of earlier templates are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulStrategy {
    /// The strategy.
    #[serde(rename = "type")]
    pub kind: UpdateStrategyKind,
    /// The bounds of a rolling update.
    pub rolling_update: Option<StatefulRollingUpdate>,
}

/// The bounds of a rolling update of a stateful set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulRollingUpdate {
    /// So many of the first pods stay as they are.
    pub partition: i32,
    /// How many pods may be unavailable; one if not set.
    pub max_unavailable: Option<IntOrString>,
}

/// persistentVolumeClaimRetentionPolicy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRetentionPolicy {
    /// When the set is deleted.
    pub when_deleted: ClaimRetention,
    /// When the set is scaled down.
    pub when_scaled: ClaimRetention,
}

/// Retention of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ClaimRetention {
    /// The claim is deleted.
    Delete,
    /// It stays.
    #[default]
    #[serde(other)]
    Retain,
}

/// How pods are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    /// The first number.
    pub start: i32,
}

/// How many pods there are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulStatus {
    /// The generation of the spec that this is about.
    pub observed_generation: i64,
    /// How many.
    pub replicas: i32,
    /// Ready pods.
    pub ready_replicas: i32,
    /// Those of the revision before the rollout.
    pub current_replicas: i32,
    /// Those of the newest revision.
    pub updated_replicas: i32,
    /// Available pods.
    pub available_replicas: i32,
    /// The revision before the rollout.
    pub current_revision: Box<str>,
    /// The newest revision.
    pub update_revision: Box<str>,
    /// How often the hash of a template was that of another one.
    pub collision_count: Option<i32>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

fn one() -> i32 {
    1
}

// --- ClaimTemplate ---

impl<'de> Deserialize<'de> for ClaimTemplate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct ClaimTemplateFields {
            metadata: ClaimTemplateMeta,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct ClaimTemplateMeta {
            name: Box<str>,
        }
        let text = Box::<RawValue>::deserialize(from)?;
        let written: ClaimTemplateFields =
            kubecontroller::decode::from_str(text.get()).map_err(serde::de::Error::custom)?;
        Ok(ClaimTemplate {
            name: written.metadata.name,
            text,
        })
    }
}

impl PartialEq for ClaimTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.text.get() == other.text.get()
    }
}
