//! How long a pod tolerates the taints of its node.

use std::time::Duration;

use k3_workloads::{Node, Taint, Toleration};
use tokio::time::Instant;

const NO_EXECUTE: &str = "NoExecute";

/// NoExecute taints of a node.
// upstream: pkg/controller/tainteviction/taint_eviction.go getNoExecuteTaints
pub(super) fn no_execute_taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec
        .taints
        .iter()
        .filter(|taint| &*taint.effect == NO_EXECUTE)
}

/// How long a pod may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TolerationTime {
    Forever,
    /// For a time from when the taint is first observed.
    For(Duration),
    /// Not at all.
    No,
}

/// What to do with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodDecision {
    /// Keep it, and cancel a scheduled deletion.
    Keep,
    /// Delete it at that time.
    At(Instant),
    /// Delete it now. `cancels` a later deletion.
    Now {
        /// Whether a deletion was scheduled.
        cancels: bool,
    },
}

// --- TolerationTime ---

impl TolerationTime {
    /// The minimum tolerationSeconds: how long a pod with these tolerations may stay on a node with these taints. The first matching toleration counts for each
    /// taint; the minimum over all taints applies.
    // upstream: pkg/controller/tainteviction/taint_eviction.go getMinTolerationTime
    pub(super) fn of<'a>(taints: impl Iterator<Item = &'a Taint>, tolerations: &[Toleration]) -> Self {
        let mut shortest: Option<i64> = None;
        for taint in taints {
            let Some(toleration) = tolerations.iter().find(|toleration| toleration.tolerates(taint)) else {
                return TolerationTime::No;
            };
            shortest = match (shortest, toleration.toleration_seconds) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        match shortest {
            None => TolerationTime::Forever,
            Some(seconds) => TolerationTime::For(Duration::from_secs(seconds.try_into().unwrap_or(0))),
        }
    }
}

// --- PodDecision ---

impl PodDecision {
    /// Decides for a pod with a deletion `scheduled` at a time. A scheduled time is kept.
    // upstream: pkg/controller/tainteviction/taint_eviction.go processPodOnNode
    pub(super) fn new(stay: TolerationTime, scheduled: Option<Instant>, now: Instant) -> Self {
        match (stay, scheduled) {
            (TolerationTime::Forever, _) => PodDecision::Keep,
            (TolerationTime::No, _) => PodDecision::Now {
                cancels: scheduled.is_some_and(|at| at > now),
            },
            (TolerationTime::For(_), Some(at)) if at > now => PodDecision::At(at),
            (TolerationTime::For(time), None) if !time.is_zero() => PodDecision::At(now + time),
            (TolerationTime::For(_), _) => PodDecision::Now { cancels: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn computes_minimum_toleration_time() {
        let tolerates = |key: &str, seconds: Option<i64>| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let seconds = |seconds| TolerationTime::For(Duration::from_secs(seconds));
        let cases = [
            (vec![], vec![], TolerationTime::Forever),
            (vec!["a"], vec![], TolerationTime::No),
            (vec!["a"], vec![tolerates("a", None)], TolerationTime::Forever),
            (vec!["a", "b"], vec![tolerates("a", None)], TolerationTime::No),
            (
                vec!["a", "b"],
                vec![tolerates("a", Some(9)), tolerates("b", Some(5))],
                seconds(5),
            ),
            (
                vec!["a", "b"],
                vec![tolerates("a", Some(9)), tolerates("b", None)],
                seconds(9),
            ),
            (
                vec!["a"],
                vec![tolerates("a", Some(9)), tolerates("a", Some(5))],
                seconds(9),
            ),
            (vec!["a"], vec![tolerates("a", Some(-1))], seconds(0)),
        ];
        for (taints, tolerations, expected) in cases {
            let text = format!("{taints:?} {tolerations:?}");
            let taints: Vec<Taint> = taints
                .into_iter()
                .map(|key| serde_json::from_value(json!({"key": key, "effect": NO_EXECUTE})).unwrap())
                .collect();
            let tolerations: Vec<Toleration> = tolerations
                .into_iter()
                .map(|toleration| serde_json::from_value(toleration).unwrap())
                .collect();
            assert_eq!(
                TolerationTime::of(taints.iter(), &tolerations),
                expected,
                "{text}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_a_scheduled_deletion() {
        let now = Instant::now();
        let after = |seconds| Duration::from_secs(seconds);
        let soon = now + after(5);
        let late = now + after(300);
        let cases = [
            (TolerationTime::Forever, None, PodDecision::Keep),
            (TolerationTime::Forever, Some(soon), PodDecision::Keep),
            (TolerationTime::No, None, PodDecision::Now { cancels: false }),
            (TolerationTime::No, Some(soon), PodDecision::Now { cancels: true }),
            (TolerationTime::For(after(300)), None, PodDecision::At(late)),
            (TolerationTime::For(after(300)), Some(soon), PodDecision::At(soon)),
            (TolerationTime::For(after(5)), Some(late), PodDecision::At(late)),
            (
                TolerationTime::For(after(5)),
                Some(now),
                PodDecision::Now { cancels: false },
            ),
            (
                TolerationTime::For(after(0)),
                None,
                PodDecision::Now { cancels: false },
            ),
        ];
        for (stay, scheduled, expected) in cases {
            assert_eq!(
                PodDecision::new(stay, scheduled, now),
                expected,
                "{stay:?} {scheduled:?}"
            );
        }
    }
}
