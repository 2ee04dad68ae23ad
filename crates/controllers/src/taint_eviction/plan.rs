//! What taints mean for a pod.

use std::time::Duration;

use tokio::time::Instant;

use crate::objects::{Node, Taint, Toleration};

const NO_EXECUTE: &str = "NoExecute";

/// The taints of a node that drive pods away.
pub(super) fn driving(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec
        .taints
        .iter()
        .filter(|taint| &*taint.effect == NO_EXECUTE)
}

/// For how long a pod may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// For ever.
    Forever,
    /// For a while, from when it is first seen there.
    For(Duration),
    /// Not at all.
    No,
}

/// What is to be done with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// It stays, whatever was planned.
    Keep,
    /// It goes then.
    At(Instant),
    /// It goes now. `cancels` what was planned for later.
    Now {
        /// Whether there was something planned.
        cancels: bool,
    },
}

// --- Stay ---

impl Stay {
    /// For how long a pod with these tolerations may stay where these taints are. Of the tolerations the first counts that bears
    /// a taint; of the taints the one that is borne for the shortest time.
    pub(super) fn of<'a>(taints: impl Iterator<Item = &'a Taint>, tolerations: &[Toleration]) -> Self {
        let mut shortest: Option<i64> = None;
        for taint in taints {
            let Some(toleration) = tolerations.iter().find(|toleration| toleration.tolerates(taint)) else {
                return Stay::No;
            };
            shortest = match (shortest, toleration.toleration_seconds) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        match shortest {
            None => Stay::Forever,
            Some(seconds) => Stay::For(Duration::from_secs(seconds.try_into().unwrap_or(0))),
        }
    }
}

// --- Plan ---

impl Plan {
    /// What is to be done with a pod for which `planned` is the time at which it goes. A time that is set stays.
    pub(super) fn new(stay: Stay, planned: Option<Instant>, now: Instant) -> Self {
        match (stay, planned) {
            (Stay::Forever, _) => Plan::Keep,
            (Stay::No, _) => Plan::Now {
                cancels: planned.is_some_and(|at| at > now),
            },
            (Stay::For(_), Some(at)) if at > now => Plan::At(at),
            (Stay::For(time), None) if !time.is_zero() => Plan::At(now + time),
            (Stay::For(_), _) => Plan::Now { cancels: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_stays_as_long_as_it_bears_all_taints() {
        let tolerates = |key: &str, seconds: Option<i64>| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let seconds = |seconds| Stay::For(Duration::from_secs(seconds));
        let cases = [
            (vec![], vec![], Stay::Forever),
            (vec!["a"], vec![], Stay::No),
            (vec!["a"], vec![tolerates("a", None)], Stay::Forever),
            (vec!["a", "b"], vec![tolerates("a", None)], Stay::No),
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
            assert_eq!(Stay::of(taints.iter(), &tolerations), expected, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_is_set_stays_until_there_is_no_reason_for_it() {
        let now = Instant::now();
        let after = |seconds| Duration::from_secs(seconds);
        let (soon, late) = (now + after(5), now + after(300));
        let cases = [
            (Stay::Forever, None, Plan::Keep),
            (Stay::Forever, Some(soon), Plan::Keep),
            (Stay::No, None, Plan::Now { cancels: false }),
            (Stay::No, Some(soon), Plan::Now { cancels: true }),
            (Stay::For(after(300)), None, Plan::At(late)),
            (Stay::For(after(300)), Some(soon), Plan::At(soon)),
            (Stay::For(after(5)), Some(late), Plan::At(late)),
            (Stay::For(after(5)), Some(now), Plan::Now { cancels: false }),
            (Stay::For(after(0)), None, Plan::Now { cancels: false }),
        ];
        for (stay, planned, expected) in cases {
            assert_eq!(Plan::new(stay, planned, now), expected, "{stay:?} {planned:?}");
        }
    }
}
