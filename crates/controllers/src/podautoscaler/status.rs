//! Conditions and status of an autoscaler.

use std::fmt;

use k3_workloads::ConditionStatus;
use k8s_openapi::{
    api::autoscaling::v2::{HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus, MetricStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use serde_json::{Value, json};

use super::AutoscalerProjection;
use crate::patch_values::truncate_to_second;

/// Whether the target's scale can be read and written, and whether stabilization applies.
pub(super) const ABLE: &str = "AbleToScale";
/// Whether metrics are available.
pub(super) const ACTIVE: &str = "ScalingActive";
/// Whether bounds or policies limit the recommendation.
pub(super) const LIMITED: &str = "ScalingLimited";
/// Whether the autoscaler removed the last replica.
pub(super) const TO_ZERO: &str = "ScaledToZero";

/// The stored status and the new one.
pub(super) struct AutoscalerStatus<'a> {
    autoscaler: &'a AutoscalerProjection,
    now: Timestamp,
    status: HorizontalPodAutoscalerStatus,
}

// --- AutoscalerStatus ---

impl<'a> AutoscalerStatus<'a> {
    pub(super) fn new(autoscaler: &'a AutoscalerProjection, now: Timestamp) -> Self {
        AutoscalerStatus {
            autoscaler,
            now: truncate_to_second(now),
            status: autoscaler.status.clone(),
        }
    }

    // upstream: pkg/controller/podautoscaler/horizontal.go setConditionInList
    pub(super) fn set(
        &mut self,
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl fmt::Display,
    ) {
        let conditions = self.status.conditions.get_or_insert_default();
        let position = conditions.iter().position(|condition| condition.type_ == kind);
        let position = position.unwrap_or_else(|| {
            conditions.push(HorizontalPodAutoscalerCondition {
                type_: kind.to_owned(),
                ..HorizontalPodAutoscalerCondition::default()
            });
            conditions.len() - 1
        });
        let condition = &mut conditions[position];
        let status = status.as_str();
        if condition.status != status {
            condition.last_transition_time = Some(Time(self.now));
        }
        status.clone_into(&mut condition.status);
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message.to_string());
    }

    /// Whether a condition is true.
    pub(super) fn is_condition_true(&self, kind: &str) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.any(|condition| condition.type_ == kind && condition.status == "True")
    }

    /// status.desiredReplicas.
    pub(super) fn desired(&self) -> i32 {
        self.status.desired_replicas
    }

    /// Sets replica counts and metrics.
    // upstream: pkg/controller/podautoscaler/horizontal.go setStatus
    pub(super) fn set_status(&mut self, current: i32, desired: i32, metrics: Vec<MetricStatus>) {
        self.status.current_replicas = (current != 0).then_some(current);
        self.status.desired_replicas = desired;
        self.status.current_metrics = (!metrics.is_empty()).then_some(metrics);
        self.status.observed_generation = Some(self.autoscaler.metadata.generation);
    }

    /// Records that the target was scaled now.
    pub(super) fn record_scale_event(&mut self) {
        self.status.last_scale_time = Some(Time(self.now));
    }

    /// The patch for the status; `None` if nothing changes.
    pub(super) fn patch(&self) -> Option<Value> {
        if self.status == self.autoscaler.status {
            return None;
        }
        let mut status = json!({
            "conditions": null, "currentMetrics": null, "currentReplicas": null, "lastScaleTime": null,
        });
        let fields = json!(self.status);
        for (field, value) in fields.as_object().into_iter().flatten() {
            status[field] = value.clone();
        }
        let version = &self.autoscaler.metadata.resource_version;
        Some(json!({"metadata": {"resourceVersion": version}, "status": status}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_not_rewrite_an_unchanged_status() {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let mut autoscaler = AutoscalerProjection::default();
        autoscaler.metadata.generation = 3;
        let mut status_update = AutoscalerStatus::new(&autoscaler, now);
        assert!(status_update.patch().is_none());
        status_update.set(ABLE, ConditionStatus::True, "SucceededGetScale", "it was there");
        status_update.set_status(0, 0, Vec::new());
        let patch = status_update.patch().unwrap();
        assert_eq!(
            patch["status"],
            json!({
                "conditions": [{"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale",
                    "message": "it was there", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "currentMetrics": null, "currentReplicas": null, "desiredReplicas": 0, "lastScaleTime": null,
                "observedGeneration": 3,
            })
        );
        autoscaler.status = status_update.status;
        let mut again = AutoscalerStatus::new(&autoscaler, "2026-01-01T00:01:00Z".parse().unwrap());
        again.set(ABLE, ConditionStatus::True, "SucceededGetScale", "it was there");
        again.set_status(0, 0, Vec::new());
        assert!(again.patch().is_none());
        assert!(again.is_condition_true(ABLE) && !again.is_condition_true(ACTIVE));
    }
}
