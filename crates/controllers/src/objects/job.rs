//! Jobs, as controllers see them.

use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::selector::Selector;
use serde::Deserialize;

use super::{Projection, Template};

/// A job.
pub type Job = Projection<JobSpec, JobStatus>;

/// Job spec.
// upstream: staging/src/k8s.io/api/batch/v1/types.go JobSpec
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// How many pods run at the same time.
    pub parallelism: Option<i32>,
    /// Number of pods that have to succeed; without it, the first success completes the work.
    pub completions: Option<i32>,
    /// Whether each pod has a completion index.
    pub completion_mode: CompletionMode,
    /// How many pods may fail.
    pub backoff_limit: Option<i32>,
    /// How many pods of an index may fail.
    pub backoff_limit_per_index: Option<i32>,
    /// How many indexes may fail.
    pub max_failed_indexes: Option<i32>,
    /// What failures of pods mean.
    pub pod_failure_policy: Option<FailurePolicy>,
    /// When the work is done before all of it is.
    pub success_policy: Option<SuccessPolicy>,
    /// When pods are replaced.
    pub pod_replacement_policy: PodReplacementPolicy,
    /// Whether it is suspended.
    pub suspend: Option<bool>,
    /// How long it may take.
    pub active_deadline_seconds: Option<i64>,
    /// Time to keep the job after it finished.
    pub ttl_seconds_after_finished: Option<i32>,
    /// The managing controller; the built-in one if not set.
    pub managed_by: Option<Box<str>>,
    /// Its pods.
    pub selector: Selector,
    /// The pod template.
    pub template: Template,
}

/// Whether each pod has a completion index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum CompletionMode {
    /// All pods are alike.
    #[default]
    NonIndexed,
    /// Each pod has an index.
    Indexed,
    /// An unsupported mode.
    #[serde(other)]
    Unknown,
}

/// When pods are replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PodReplacementPolicy {
    /// When they have failed.
    Failed,
    /// When they are terminating or have failed.
    #[default]
    #[serde(other)]
    TerminatingOrFailed,
}

/// What failures of pods mean: the first matching rule applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FailurePolicy {
    /// The rules.
    pub rules: Vec<FailureRule>,
}

/// A rule for failures of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureRule {
    /// What the failure means.
    pub action: FailureAction,
    /// It is for containers that ended so.
    pub on_exit_codes: Option<ExitCodes>,
    /// It is for pods of which one of these holds.
    pub on_pod_conditions: Option<Vec<PodCondition>>,
}

/// What a failure means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum FailureAction {
    /// The job has failed.
    FailJob,
    /// The index has failed.
    FailIndex,
    /// Nothing: the pod is replaced, and the failure is not counted.
    Ignore,
    /// One more failure.
    Count,
    /// An unsupported action.
    #[default]
    #[serde(other)]
    Unknown,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExitCodes {
    /// The container; any if not set.
    pub container_name: Option<Box<str>>,
    /// `In` or `NotIn`.
    pub operator: Box<str>,
    /// The codes.
    pub values: Vec<i32>,
}

/// A condition of a pod that is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// The type.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// Whether it holds.
    pub status: ConditionStatus,
}

/// When the work is done before all of it is: when one of the rules is met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SuccessPolicy {
    /// The rules.
    pub rules: Vec<SuccessRule>,
}

/// A rule for success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRule {
    /// Indexes that count; all if not set.
    pub succeeded_indexes: Option<Box<str>>,
    /// How many of them have to succeed; all if not set.
    pub succeeded_count: Option<i32>,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// When it began; not while it rests.
    pub start_time: Option<Timestamp>,
    /// When it was done.
    pub completion_time: Option<Timestamp>,
    /// How many pods work.
    pub active: i32,
    /// How many of them are ready.
    pub ready: Option<i32>,
    /// Number of terminating pods.
    pub terminating: Option<i32>,
    /// How many pods have succeeded.
    pub succeeded: i32,
    /// How many have failed.
    pub failed: i32,
    /// The indexes that are done.
    pub completed_indexes: Box<str>,
    /// The indexes that have failed.
    pub failed_indexes: Option<Box<str>>,
    /// Pods that have ended and are not in the counts yet.
    pub uncounted_terminated_pods: Option<UncountedTerminatedPods>,
}

/// Pods that have ended and are not in the counts yet, by uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UncountedTerminatedPods {
    /// Those that have succeeded.
    pub succeeded: Vec<Box<str>>,
    /// Those that have failed.
    pub failed: Vec<Box<str>>,
}

// --- Job ---

impl Job {
    /// The condition Complete or Failed, if it is true.
    // upstream: pkg/controller/job/util/utils.go FinishedCondition
    pub fn finished(&self) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| {
            matches!(&*condition.kind, "Complete" | "Failed") && condition.status == ConditionStatus::True
        })
    }

    /// Whether it has finished well.
    // upstream: pkg/controller/job/util/utils.go IsJobSucceeded
    pub fn has_succeeded(&self) -> bool {
        Condition::holds(&self.status.conditions, "Complete")
    }
}
