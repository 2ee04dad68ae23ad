//! What an autoscaler says of itself.

use std::fmt;

use k8s_openapi::{
    api::autoscaling::v2::{HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus, MetricStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use serde_json::{Value, json};

use super::Autoscaler;
use crate::patch_values::truncate_to_second;

/// Whether the target's scale can be read and written, or what holds it back.
pub(super) const ABLE: &str = "AbleToScale";
/// Whether metrics say how many replicas there are to be.
pub(super) const ACTIVE: &str = "ScalingActive";
/// Whether there are to be fewer or more than allowed.
pub(super) const LIMITED: &str = "ScalingLimited";
/// Whether it was the autoscaler that took away the last replica.
pub(super) const TO_ZERO: &str = "ScaledToZero";

/// What an autoscaler said, and will say.
pub(super) struct Standing<'a> {
    autoscaler: &'a Autoscaler,
    now: Timestamp,
    status: HorizontalPodAutoscalerStatus,
}

// --- Standing ---

impl<'a> Standing<'a> {
    pub(super) fn new(autoscaler: &'a Autoscaler, now: Timestamp) -> Self {
        Standing {
            autoscaler,
            now: truncate_to_second(now),
            status: autoscaler.status.clone(),
        }
    }

    /// Sets a condition.
    pub(super) fn set(&mut self, kind: &str, holds: bool, reason: &str, message: impl fmt::Display) {
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
        let status = if holds { "True" } else { "False" };
        if condition.status != status {
            condition.last_transition_time = Some(Time(self.now));
        }
        status.clone_into(&mut condition.status);
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message.to_string());
    }

    /// Whether a condition holds.
    pub(super) fn holds(&self, kind: &str) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.any(|condition| condition.type_ == kind && condition.status == "True")
    }

    /// How many replicas there were to be.
    pub(super) fn desired(&self) -> i32 {
        self.status.desired_replicas
    }

    /// Sets what was found out.
    pub(super) fn found(&mut self, current: i32, desired: i32, metrics: Vec<MetricStatus>) {
        self.status.current_replicas = (current != 0).then_some(current);
        self.status.desired_replicas = desired;
        self.status.current_metrics = (!metrics.is_empty()).then_some(metrics);
        self.status.observed_generation = Some(self.autoscaler.metadata.generation);
    }

    /// The target was scaled now.
    pub(super) fn scaled(&mut self) {
        self.status.last_scale_time = Some(Time(self.now));
    }

    /// The patch that makes it so; `None` if it is.
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
    fn what_is_said_again_is_not_written_again() {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let mut autoscaler = Autoscaler::default();
        autoscaler.metadata.generation = 3;
        let mut standing = Standing::new(&autoscaler, now);
        assert!(standing.patch().is_none());
        standing.set(ABLE, true, "SucceededGetScale", "it was there");
        standing.found(0, 0, Vec::new());
        let patch = standing.patch().unwrap();
        assert_eq!(
            patch["status"],
            json!({
                "conditions": [{"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale",
                    "message": "it was there", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "currentMetrics": null, "currentReplicas": null, "desiredReplicas": 0, "lastScaleTime": null,
                "observedGeneration": 3,
            })
        );
        autoscaler.status = standing.status;
        let mut again = Standing::new(&autoscaler, "2026-01-01T00:01:00Z".parse().unwrap());
        again.set(ABLE, true, "SucceededGetScale", "it was there");
        again.found(0, 0, Vec::new());
        assert!(again.patch().is_none());
        assert!(again.holds(ABLE) && !again.holds(ACTIVE));
    }
}
