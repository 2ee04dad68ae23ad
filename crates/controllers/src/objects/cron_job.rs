//! Cron jobs, as controllers see them.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Projection, Template};

/// A cron job.
pub type CronJob = Projection<CronJobSpec, CronJobStatus>;

/// CronJob spec.
// upstream: staging/src/k8s.io/api/batch/v1/types.go CronJobSpec
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    /// When.
    pub schedule: Box<str>,
    /// The time zone.
    pub time_zone: Option<Box<str>>,
    /// How late a job may be begun.
    pub starting_deadline_seconds: Option<i64>,
    /// concurrencyPolicy.
    pub concurrency_policy: ConcurrencyPolicy,
    /// Whether it is suspended.
    pub suspend: Option<bool>,
    /// The jobs.
    pub job_template: Template,
    /// Number of succeeded jobs to keep.
    pub successful_jobs_history_limit: Option<i32>,
    /// How many that have failed.
    pub failed_jobs_history_limit: Option<i32>,
}

/// concurrencyPolicy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ConcurrencyPolicy {
    /// The new one is not begun.
    Forbid,
    /// The old one is ended.
    Replace,
    /// Both run.
    #[default]
    #[serde(other)]
    Allow,
}

/// Active jobs and times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// The jobs that run.
    pub active: Vec<JobReference>,
    /// The time for which a job was begun last.
    pub last_schedule_time: Option<Timestamp>,
    /// When a job succeeded last.
    pub last_successful_time: Option<Timestamp>,
}

/// A job that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobReference {
    /// The kind.
    pub kind: Box<str>,
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The uid.
    pub uid: Box<str>,
    /// Group and version.
    pub api_version: Box<str>,
    /// The version it was seen at.
    pub resource_version: Box<str>,
}
