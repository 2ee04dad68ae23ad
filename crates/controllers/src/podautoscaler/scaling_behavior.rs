//! Stabilization windows and scaling policies (spec.behavior).

use std::time::Duration;

use k8s_openapi::{
    api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior},
    jiff::{SignedDuration, Timestamp},
};

/// Default scale down stabilization window, in seconds (kube-controller-manager --horizontal-pod-autoscaler-downscale-stabilization).
const STABILIZATION_WINDOW: i32 = 300;
/// Without policies a target at most doubles, or reaches this number (scaleUpLimitMinimum).
const SCALE_UP_LIMIT_MINIMUM: i32 = 4;

/// Recommendations and scale events of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScaleHistory {
    /// Recommendations with their time.
    recommendations: Vec<(Timestamp, i32)>,
    /// Replicas added, with their time.
    added: Vec<(Timestamp, i32)>,
    /// Replicas removed, with their time.
    removed: Vec<(Timestamp, i32)>,
}

/// `minReplicas` and `maxReplicas` of the autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicaBounds {
    pub(super) min_replicas: i32,
    pub(super) max_replicas: i32,
}

/// The normalized recommendation, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NormalizedReplicas {
    /// Desired replicas.
    pub(super) replicas: i32,
    /// Reason and message of AbleToScale: whether stabilization applied.
    pub(super) able: (&'static str, &'static str),
    /// Whether bounds or policies limited it.
    pub(super) is_limited: bool,
    /// Reason and message of ScalingLimited.
    pub(super) limit: (&'static str, &'static str),
}

/// The scaling rules of one direction.
struct ScalingRules {
    window: i32,
    policies: Vec<HPAScalingPolicy>,
    select: SelectPolicy,
}

/// `selectPolicy` of scaling rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SelectPolicy {
    /// The policy that allows the largest change.
    Max,
    /// The policy that allows the smallest change.
    Min,
    Disabled,
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const WITHIN: (&str, &str) = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const TOO_MANY: (&str, &str) = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const TOO_FEW: (&str, &str) = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);
const TOO_FAST_UP: (&str, &str) = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const TOO_FAST_DOWN: (&str, &str) = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

// --- ScaleHistory ---

impl ScaleHistory {
    /// The initial replica count counts as a recommendation: the target is not scaled down because the controller has just started.
    // upstream: pkg/controller/podautoscaler/horizontal.go recordInitialRecommendation
    pub(super) fn record_initial_recommendation(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((now, current));
        }
    }

    /// Normalizes a recommendation with spec.behavior: stabilization windows for scale up and scale down, then scaling policies.
    // upstream: pkg/controller/podautoscaler/horizontal.go normalizeDesiredReplicasWithBehaviors, stabilizeRecommendationWithBehaviors
    pub(super) fn normalize(
        &mut self,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        current: i32,
        recommendation: i32,
        bounds: ReplicaBounds,
        now: Timestamp,
    ) -> NormalizedReplicas {
        let Some(behavior) = behavior else {
            return self.normalize_without_behavior(current, recommendation, bounds, now);
        };
        let up = ScalingRules::up(behavior.scale_up.as_ref());
        let down = ScalingRules::down(behavior.scale_down.as_ref());
        let lowest = self
            .recommendations_since(now, up.window)
            .fold(recommendation, i32::min);
        let highest = self
            .recommendations_since(now, down.window)
            .fold(recommendation, i32::max);
        // Current replicas, raised to the minimum of the scale-up window, lowered to the maximum of the scale-down window.
        let stabilized = current.max(lowest).min(highest);
        self.store_recommendation(recommendation, up.window.max(down.window), now);
        let able = match stabilized {
            _ if stabilized == recommendation => READY,
            _ if recommendation >= current => UP_STABILIZED,
            _ => DOWN_STABILIZED,
        };
        let (replicas, limit) = self.limit(&up, &down, current, stabilized, bounds, now);
        NormalizedReplicas {
            replicas,
            able,
            is_limited: replicas != stabilized,
            limit,
        }
    }

    /// Normalizes a recommendation without spec.behavior: scale down stabilization (the highest recommendation of the window), and
    /// at most twice the current replicas.
    // upstream: pkg/controller/podautoscaler/horizontal.go normalizeDesiredReplicas, stabilizeRecommendation
    fn normalize_without_behavior(
        &mut self,
        current: i32,
        recommendation: i32,
        bounds: ReplicaBounds,
        now: Timestamp,
    ) -> NormalizedReplicas {
        let cutoff = now - SignedDuration::from_secs(i64::from(STABILIZATION_WINDOW));
        let recent = self.recommendations.iter().filter(|(at, _)| *at >= cutoff);
        let stabilized = recent
            .map(|(_, recent_recommendation)| *recent_recommendation)
            .fold(recommendation, i32::max);
        self.store_recommendation(recommendation, STABILIZATION_WINDOW, now);
        let rate = current.saturating_mul(2).max(SCALE_UP_LIMIT_MINIMUM);
        let (max_replicas, limit) = if bounds.max_replicas > rate {
            (rate, TOO_FAST_UP)
        } else {
            (bounds.max_replicas, TOO_MANY)
        };
        let (replicas, limit) = if stabilized < bounds.min_replicas {
            (bounds.min_replicas, TOO_FEW)
        } else if stabilized > max_replicas {
            (max_replicas, limit)
        } else {
            (stabilized, WITHIN)
        };
        NormalizedReplicas {
            replicas,
            able: if stabilized == recommendation {
                READY
            } else {
                DOWN_STABILIZED
            },
            is_limited: replicas != stabilized,
            limit,
        }
    }

    // upstream: pkg/controller/podautoscaler/horizontal.go convertDesiredReplicasWithBehaviorRate
    fn limit(
        &self,
        up: &ScalingRules,
        down: &ScalingRules,
        current: i32,
        stabilized: i32,
        bounds: ReplicaBounds,
        now: Timestamp,
    ) -> (i32, (&'static str, &'static str)) {
        if stabilized > current {
            let rate = self
                .policy_limit(up, ScaleDirection::Up, current, now)
                .max(current);
            let (max_replicas, limit) = if bounds.max_replicas > rate {
                (rate, TOO_FAST_UP)
            } else {
                (bounds.max_replicas, TOO_MANY)
            };
            if stabilized > max_replicas {
                return (max_replicas, limit);
            }
        } else if stabilized < current {
            let rate = self
                .policy_limit(down, ScaleDirection::Down, current, now)
                .min(current);
            let (min_replicas, limit) = if bounds.min_replicas < rate {
                (rate, TOO_FAST_DOWN)
            } else {
                (bounds.min_replicas, TOO_FEW)
            };
            if stabilized < min_replicas {
                return (min_replicas, limit);
            }
        }
        (stabilized, WITHIN)
    }

    /// The limit of the policies of a direction.
    // upstream: pkg/controller/podautoscaler/horizontal.go calculateScaleUpLimitWithScalingRules, calculateScaleDownLimitWithBehaviors
    fn policy_limit(
        &self,
        rules: &ScalingRules,
        direction: ScaleDirection,
        current: i32,
        now: Timestamp,
    ) -> i32 {
        let of_policy = |policy: &HPAScalingPolicy| {
            let added = changed(&self.added, policy.period_seconds, now);
            let removed = changed(&self.removed, policy.period_seconds, now);
            let before = i64::from(current) - added + removed;
            let value = i64::from(policy.value);
            let percent = policy.type_ == "Percent";
            let reached = match (direction, percent) {
                (ScaleDirection::Up, false) => before + value,
                // Rounded up: otherwise small counts would never grow.
                (ScaleDirection::Up, true) => (before * (100 + value) + 99).div_euclid(100),
                (ScaleDirection::Down, false) => before - value,
                (ScaleDirection::Down, true) => before * (100 - value) / 100,
            };
            i32::try_from(reached).unwrap_or(if reached > 0 { i32::MAX } else { i32::MIN })
        };
        let reached = rules.policies.iter().map(of_policy);
        let reached = match (rules.select, direction) {
            (SelectPolicy::Disabled, _) => return current,
            (SelectPolicy::Max, ScaleDirection::Up) | (SelectPolicy::Min, ScaleDirection::Down) => {
                reached.max()
            }
            (SelectPolicy::Min, ScaleDirection::Up) | (SelectPolicy::Max, ScaleDirection::Down) => {
                reached.min()
            }
        };
        reached.unwrap_or(current)
    }

    /// Records added or removed replicas.
    // upstream: pkg/controller/podautoscaler/horizontal.go storeScaleEvent
    pub(super) fn record_scale_event(
        &mut self,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        from: i32,
        to: i32,
        now: Timestamp,
    ) {
        let Some(behavior) = behavior else {
            return;
        };
        let longest = |rules: ScalingRules| rules.policies.iter().map(|policy| policy.period_seconds).max();
        let (changes, period) = if to > from {
            (
                &mut self.added,
                longest(ScalingRules::up(behavior.scale_up.as_ref())),
            )
        } else {
            (
                &mut self.removed,
                longest(ScalingRules::down(behavior.scale_down.as_ref())),
            )
        };
        forget(changes, period.unwrap_or(0), now);
        changes.push((now, (to - from).abs()));
    }

    /// Recommendations within a window.
    fn recommendations_since(&self, now: Timestamp, window: i32) -> impl Iterator<Item = i32> {
        let cutoff = now - SignedDuration::from_secs(i64::from(window));
        let recent = self.recommendations.iter().filter(move |(at, _)| *at > cutoff);
        recent.map(|(_, recommendation)| *recommendation)
    }

    fn store_recommendation(&mut self, recommendation: i32, window: i32, now: Timestamp) {
        forget(&mut self.recommendations, window, now);
        self.recommendations.push((now, recommendation));
    }
}

#[derive(Clone, Copy)]
enum ScaleDirection {
    Up,
    Down,
}

/// Replicas added or removed within a period.
// upstream: pkg/controller/podautoscaler/horizontal.go getReplicasChangePerPeriod
fn changed(changes: &[(Timestamp, i32)], period: i32, now: Timestamp) -> i64 {
    let cutoff = now - SignedDuration::from_secs(i64::from(period));
    let recent = changes.iter().filter(|(at, _)| *at > cutoff);
    recent.map(|(_, count)| i64::from(*count)).sum()
}

fn forget(entries: &mut Vec<(Timestamp, i32)>, window: i32, now: Timestamp) {
    let window = Duration::from_secs(u64::try_from(window).unwrap_or(0));
    entries.retain(|(at, _)| *at + window >= now);
}

// --- ScalingRules ---

impl ScalingRules {
    fn up(rules: Option<&HPAScalingRules>) -> Self {
        let policies = [("Pods", SCALE_UP_LIMIT_MINIMUM), ("Percent", 100)];
        ScalingRules::new(rules, 0, &policies)
    }

    fn down(rules: Option<&HPAScalingRules>) -> Self {
        ScalingRules::new(rules, STABILIZATION_WINDOW, &[("Percent", 100)])
    }

    /// With defaults for missing fields.
    fn new(rules: Option<&HPAScalingRules>, window: i32, policies: &[(&str, i32)]) -> Self {
        let usual = |(kind, value): &(&str, i32)| HPAScalingPolicy {
            type_: (*kind).to_owned(),
            value: *value,
            period_seconds: 15,
        };
        let custom_policies = rules.and_then(|rules| rules.policies.clone());
        let select = rules.and_then(|rules| rules.select_policy.as_deref());
        ScalingRules {
            window: rules
                .and_then(|rules| rules.stabilization_window_seconds)
                .unwrap_or(window),
            policies: custom_policies
                .filter(|policies| !policies.is_empty())
                .unwrap_or_else(|| policies.iter().map(usual).collect()),
            select: match select {
                Some("Disabled") => SelectPolicy::Disabled,
                Some("Min") => SelectPolicy::Min,
                _ => SelectPolicy::Max,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const BOUNDS: ReplicaBounds = ReplicaBounds {
        min_replicas: 1,
        max_replicas: 20,
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn behavior(text: Value) -> HorizontalPodAutoscalerBehavior {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn limits_scaling_without_behavior() {
        let mut history = ScaleHistory::default();
        history.record_initial_recommendation(3, at(0));
        let up = history.normalize(None, 3, 15, BOUNDS, at(0));
        assert_eq!(
            (up.replicas, up.limit.0, up.is_limited),
            (6, "ScaleUpLimit", true)
        );
        let more = history.normalize(None, 15, 100, BOUNDS, at(1));
        assert_eq!(
            (more.replicas, more.limit.0, more.able.0),
            (20, "TooManyReplicas", "ReadyForNewScale")
        );
        let mut history = ScaleHistory::default();
        history.record_initial_recommendation(5, at(0));
        let held = history.normalize(None, 5, 2, BOUNDS, at(60));
        assert_eq!((held.replicas, held.able.0), (5, "ScaleDownStabilized"));
        let held = history.normalize(None, 5, 3, BOUNDS, at(300));
        assert_eq!(held.replicas, 5);
        let down = history.normalize(None, 5, 0, BOUNDS, at(301));
        assert_eq!((down.replicas, down.able.0), (3, "ScaleDownStabilized"));
        let down = history.normalize(None, 5, 0, BOUNDS, at(700));
        assert_eq!((down.replicas, down.limit.0), (1, "TooFewReplicas"));
    }

    #[test]
    fn policies_limit_changes_per_period() {
        let rules = behavior(json!({
            "scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}, {"type": "Percent", "value": 50, "periodSeconds": 60}]},
            "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]},
        }));
        let mut history = ScaleHistory::default();
        let first = history.normalize(Some(&rules), 3, 15, BOUNDS, at(0));
        assert_eq!((first.replicas, first.limit.0), (5, "ScaleUpLimit"));
        history.record_scale_event(Some(&rules), 3, 5, at(0));
        // The minute is not over.
        assert_eq!(history.normalize(Some(&rules), 5, 15, BOUNDS, at(30)).replicas, 5);
        assert_eq!(history.normalize(Some(&rules), 5, 15, BOUNDS, at(60)).replicas, 8);
        let down = history.normalize(Some(&rules), 8, 1, BOUNDS, at(200));
        assert_eq!((down.replicas, down.limit.0), (5, "ScaleDownLimit"));
    }

    #[test]
    fn supports_disabled_and_min_policies() {
        let policies = json!([{"type": "Pods", "value": 1, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]);
        for (select, expected) in [("Disabled", 4), ("Min", 5), ("Max", 8)] {
            let rules = behavior(json!({"scaleUp": {"selectPolicy": select, "policies": policies}}));
            let paced = ScaleHistory::default().normalize(Some(&rules), 4, 15, BOUNDS, at(0));
            assert_eq!(paced.replicas, expected, "{select}");
        }
    }

    #[test]
    fn stabilizes_recommendations() {
        let rules = behavior(json!({"scaleUp": {"stabilizationWindowSeconds": 60}}));
        let mut history = ScaleHistory::default();
        history.record_initial_recommendation(2, at(0));
        let held = history.normalize(Some(&rules), 2, 4, BOUNDS, at(30));
        assert_eq!((held.replicas, held.able.0), (2, "ScaleUpStabilized"));
        let up = history.normalize(Some(&rules), 2, 5, BOUNDS, at(61));
        assert_eq!((up.replicas, up.able.0), (4, "ScaleUpStabilized"));
    }
}
