//! How fast replicas may come and go, and what was advised lately.

use std::time::Duration;

use k8s_openapi::{
    api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior},
    jiff::{SignedDuration, Timestamp},
};

/// For so long the highest advice holds, unless an autoscaler says otherwise.
const WINDOW: i32 = 300;
/// Without rules of its own a target at most doubles at once, or gets to so many.
const LEAST_LIMIT: i32 = 4;

/// What was advised and done lately for an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// What was advised, and when.
    advice: Vec<(Timestamp, i32)>,
    /// How many replicas came, and when.
    came: Vec<(Timestamp, i32)>,
    /// How many went.
    went: Vec<(Timestamp, i32)>,
}

/// How many replicas there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// At least.
    pub(super) least: i32,
    /// At most.
    pub(super) most: i32,
}

/// What becomes of an advice, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paced {
    /// How many replicas there are to be.
    pub(super) replicas: i32,
    /// Whether what was advised earlier holds it back: a reason and a message.
    pub(super) able: (&'static str, &'static str),
    /// Whether it is held back by bounds or rates.
    pub(super) is_limited: bool,
    /// Which, in the same way.
    pub(super) limit: (&'static str, &'static str),
}

/// The rules for one direction.
struct Rules {
    window: i32,
    policies: Vec<HPAScalingPolicy>,
    select: Select,
}

/// Which of several rules counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Select {
    /// The one that allows most.
    Most,
    /// The one that allows least.
    Least,
    /// No change is allowed.
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

// --- History ---

impl History {
    /// The first thing that is known of a target counts as advised: it does not shrink because this has just begun.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.advice.is_empty() {
            self.advice.push((now, current));
        }
    }

    /// What becomes of an advice.
    pub(super) fn pace(
        &mut self,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        current: i32,
        advised: i32,
        bounds: Bounds,
        now: Timestamp,
    ) -> Paced {
        let Some(behavior) = behavior else {
            return self.pace_plainly(current, advised, bounds, now);
        };
        let (up, down) = (
            Rules::up(behavior.scale_up.as_ref()),
            Rules::down(behavior.scale_down.as_ref()),
        );
        let lowest = self.since(now, up.window).fold(advised, i32::min);
        let highest = self.since(now, down.window).fold(advised, i32::max);
        // What is now, raised to what was advised all the time, and lowered to what was advised at any time.
        let stable = current.max(lowest).min(highest);
        self.remember(advised, up.window.max(down.window), now);
        let able = match stable {
            _ if stable == advised => READY,
            _ if advised >= current => UP_STABILIZED,
            _ => DOWN_STABILIZED,
        };
        let (replicas, limit) = self.limit(&up, &down, current, stable, bounds, now);
        Paced {
            replicas,
            able,
            is_limited: replicas != stable,
            limit,
        }
    }

    /// Without rules of its own: the highest advice of some minutes, and no more than twice as many.
    fn pace_plainly(&mut self, current: i32, advised: i32, bounds: Bounds, now: Timestamp) -> Paced {
        let cutoff = now - SignedDuration::from_secs(i64::from(WINDOW));
        let recent = self.advice.iter().filter(|(at, _)| *at >= cutoff);
        let stable = recent.map(|(_, advice)| *advice).fold(advised, i32::max);
        self.remember(advised, WINDOW, now);
        let rate = current.saturating_mul(2).max(LEAST_LIMIT);
        let (most, limit) = if bounds.most > rate {
            (rate, TOO_FAST_UP)
        } else {
            (bounds.most, TOO_MANY)
        };
        let (replicas, limit) = if stable < bounds.least {
            (bounds.least, TOO_FEW)
        } else if stable > most {
            (most, limit)
        } else {
            (stable, WITHIN)
        };
        Paced {
            replicas,
            able: if stable == advised { READY } else { DOWN_STABILIZED },
            is_limited: replicas != stable,
            limit,
        }
    }

    fn limit(
        &self,
        up: &Rules,
        down: &Rules,
        current: i32,
        stable: i32,
        bounds: Bounds,
        now: Timestamp,
    ) -> (i32, (&'static str, &'static str)) {
        if stable > current {
            let rate = self.rate(up, Direction::Up, current, now).max(current);
            let (most, limit) = if bounds.most > rate {
                (rate, TOO_FAST_UP)
            } else {
                (bounds.most, TOO_MANY)
            };
            if stable > most {
                return (most, limit);
            }
        } else if stable < current {
            let rate = self.rate(down, Direction::Down, current, now).min(current);
            let (least, limit) = if bounds.least < rate {
                (rate, TOO_FAST_DOWN)
            } else {
                (bounds.least, TOO_FEW)
            };
            if stable < least {
                return (least, limit);
            }
        }
        (stable, WITHIN)
    }

    /// How far policies let a target go in a direction.
    fn rate(&self, rules: &Rules, direction: Direction, current: i32, now: Timestamp) -> i32 {
        let of_policy = |policy: &HPAScalingPolicy| {
            let (came, went) = (
                changed(&self.came, policy.period_seconds, now),
                changed(&self.went, policy.period_seconds, now),
            );
            let before = i64::from(current) - came + went;
            let (value, percent) = (i64::from(policy.value), policy.type_ == "Percent");
            let reached = match (direction, percent) {
                (Direction::Up, false) => before + value,
                // Rounded up, or a few would never become more.
                (Direction::Up, true) => (before * (100 + value) + 99).div_euclid(100),
                (Direction::Down, false) => before - value,
                (Direction::Down, true) => before * (100 - value) / 100,
            };
            i32::try_from(reached).unwrap_or(if reached > 0 { i32::MAX } else { i32::MIN })
        };
        let reached = rules.policies.iter().map(of_policy);
        let reached = match (rules.select, direction) {
            (Select::Disabled, _) => return current,
            (Select::Most, Direction::Up) | (Select::Least, Direction::Down) => reached.max(),
            (Select::Least, Direction::Up) | (Select::Most, Direction::Down) => reached.min(),
        };
        reached.unwrap_or(current)
    }

    /// Remembers how many replicas came or went.
    pub(super) fn scaled(
        &mut self,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        from: i32,
        to: i32,
        now: Timestamp,
    ) {
        let Some(behavior) = behavior else {
            return;
        };
        let longest = |rules: Rules| rules.policies.iter().map(|policy| policy.period_seconds).max();
        let (changes, period) = if to > from {
            (&mut self.came, longest(Rules::up(behavior.scale_up.as_ref())))
        } else {
            (&mut self.went, longest(Rules::down(behavior.scale_down.as_ref())))
        };
        forget(changes, period.unwrap_or(0), now);
        changes.push((now, (to - from).abs()));
    }

    /// What was advised in a window.
    fn since(&self, now: Timestamp, window: i32) -> impl Iterator<Item = i32> {
        let cutoff = now - SignedDuration::from_secs(i64::from(window));
        let recent = self.advice.iter().filter(move |(at, _)| *at > cutoff);
        recent.map(|(_, advice)| *advice)
    }

    fn remember(&mut self, advised: i32, window: i32, now: Timestamp) {
        forget(&mut self.advice, window, now);
        self.advice.push((now, advised));
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

/// How many came or went in a period.
fn changed(changes: &[(Timestamp, i32)], period: i32, now: Timestamp) -> i64 {
    let cutoff = now - SignedDuration::from_secs(i64::from(period));
    let recent = changes.iter().filter(|(at, _)| *at > cutoff);
    recent.map(|(_, count)| i64::from(*count)).sum()
}

fn forget(entries: &mut Vec<(Timestamp, i32)>, window: i32, now: Timestamp) {
    let window = Duration::from_secs(u64::try_from(window).unwrap_or(0));
    entries.retain(|(at, _)| *at + window >= now);
}

// --- Rules ---

impl Rules {
    fn up(rules: Option<&HPAScalingRules>) -> Self {
        let policies = [("Pods", LEAST_LIMIT), ("Percent", 100)];
        Rules::new(rules, 0, &policies)
    }

    fn down(rules: Option<&HPAScalingRules>) -> Self {
        Rules::new(rules, WINDOW, &[("Percent", 100)])
    }

    /// What is not said is as the server would say it.
    fn new(rules: Option<&HPAScalingRules>, window: i32, policies: &[(&str, i32)]) -> Self {
        let usual = |(kind, value): &(&str, i32)| HPAScalingPolicy {
            type_: (*kind).to_owned(),
            value: *value,
            period_seconds: 15,
        };
        let own = rules.and_then(|rules| rules.policies.clone());
        let select = rules.and_then(|rules| rules.select_policy.as_deref());
        Rules {
            window: rules
                .and_then(|rules| rules.stabilization_window_seconds)
                .unwrap_or(window),
            policies: own
                .filter(|own| !own.is_empty())
                .unwrap_or_else(|| policies.iter().map(usual).collect()),
            select: match select {
                Some("Disabled") => Select::Disabled,
                Some("Min") => Select::Least,
                _ => Select::Most,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const BOUNDS: Bounds = Bounds { least: 1, most: 20 };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn behavior(text: Value) -> HorizontalPodAutoscalerBehavior {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn without_rules_a_target_at_most_doubles_and_shrinks_late() {
        let mut history = History::default();
        history.begin(3, at(0));
        let up = history.pace(None, 3, 15, BOUNDS, at(0));
        assert_eq!(
            (up.replicas, up.limit.0, up.is_limited),
            (6, "ScaleUpLimit", true)
        );
        let more = history.pace(None, 15, 100, BOUNDS, at(1));
        assert_eq!(
            (more.replicas, more.limit.0, more.able.0),
            (20, "TooManyReplicas", "ReadyForNewScale")
        );
        let mut history = History::default();
        history.begin(5, at(0));
        let held = history.pace(None, 5, 2, BOUNDS, at(60));
        assert_eq!((held.replicas, held.able.0), (5, "ScaleDownStabilized"));
        let held = history.pace(None, 5, 3, BOUNDS, at(300));
        assert_eq!(held.replicas, 5);
        let down = history.pace(None, 5, 0, BOUNDS, at(301));
        assert_eq!((down.replicas, down.able.0), (3, "ScaleDownStabilized"));
        let down = history.pace(None, 5, 0, BOUNDS, at(700));
        assert_eq!((down.replicas, down.limit.0), (1, "TooFewReplicas"));
    }

    #[test]
    fn policies_limit_how_many_come_and_go_in_a_time() {
        let rules = behavior(json!({
            "scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}, {"type": "Percent", "value": 50, "periodSeconds": 60}]},
            "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]},
        }));
        let mut history = History::default();
        let first = history.pace(Some(&rules), 3, 15, BOUNDS, at(0));
        assert_eq!((first.replicas, first.limit.0), (5, "ScaleUpLimit"));
        history.scaled(Some(&rules), 3, 5, at(0));
        // The minute is not over.
        assert_eq!(history.pace(Some(&rules), 5, 15, BOUNDS, at(30)).replicas, 5);
        assert_eq!(history.pace(Some(&rules), 5, 15, BOUNDS, at(60)).replicas, 8);
        let down = history.pace(Some(&rules), 8, 1, BOUNDS, at(200));
        assert_eq!((down.replicas, down.limit.0), (5, "ScaleDownLimit"));
    }

    #[test]
    fn a_direction_can_be_closed_and_the_smallest_change_chosen() {
        let policies = json!([{"type": "Pods", "value": 1, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]);
        for (select, expected) in [("Disabled", 4), ("Min", 5), ("Max", 8)] {
            let rules = behavior(json!({"scaleUp": {"selectPolicy": select, "policies": policies}}));
            let paced = History::default().pace(Some(&rules), 4, 15, BOUNDS, at(0));
            assert_eq!(paced.replicas, expected, "{select}");
        }
    }

    #[test]
    fn advice_is_held_back_until_it_lasts() {
        let rules = behavior(json!({"scaleUp": {"stabilizationWindowSeconds": 60}}));
        let mut history = History::default();
        history.begin(2, at(0));
        let held = history.pace(Some(&rules), 2, 4, BOUNDS, at(30));
        assert_eq!((held.replicas, held.able.0), (2, "ScaleUpStabilized"));
        let up = history.pace(Some(&rules), 2, 5, BOUNDS, at(61));
        assert_eq!((up.replicas, up.able.0), (4, "ScaleUpStabilized"));
    }
}
