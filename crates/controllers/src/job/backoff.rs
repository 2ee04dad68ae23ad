//! Backoff for replacing failed pods: exponential in the number of failures since the last success.

use std::time::Duration;

use k3_workloads::{Condition, ConditionStatus, Pod};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::Backoff;

const BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(10), Duration::from_mins(10));

/// Failures of a job since its last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BackoffRecord {
    pub count: u32,
    /// When the last one finished.
    pub last: Option<Timestamp>,
}

// --- BackoffRecord ---

impl BackoffRecord {
    /// Adds pods that finished since.
    // upstream: pkg/controller/job/backoff_utils.go newBackoffRecord
    #[must_use]
    pub(super) fn with<'p>(
        self,
        succeeded: impl IntoIterator<Item = &'p Pod>,
        failed: impl IntoIterator<Item = &'p Pod>,
    ) -> Self {
        let success = succeeded.into_iter().map(finish_time).max();
        let before = if success.is_some() {
            BackoffRecord::default()
        } else {
            self
        };
        let since = failed
            .into_iter()
            .map(finish_time)
            .filter(|failure| Some(*failure) > success);
        // The last counted failure may be later than one observed now; the latest finish time decides.
        let (count, last) = since.fold((0, None), |(count, last), at| (count + 1, last.max(Some(at))));
        BackoffRecord {
            count: before.count + count,
            last: last.or(before.last),
        }
    }

    /// Remaining backoff before a pod may be created.
    // upstream: pkg/controller/job/backoff_utils.go getRemainingTime, getRemainingTimeForFailuresCount
    pub(super) fn wait(self, now: Timestamp) -> Duration {
        let Some(last) = self.last.filter(|_| self.count > 0) else {
            return Duration::ZERO;
        };
        let wait = BACKOFF.after(self.count);
        let until = i128::from(last.as_second()) * 1_000_000_000
            + i128::from(last.subsec_nanosecond())
            + i128::try_from(wait.as_nanos()).unwrap_or(i128::MAX);
        let rest = until - now.as_nanosecond();
        Duration::from_nanos(u64::try_from(rest).unwrap_or(0))
    }
}

/// When a pod finished: from its containers, else from the Ready condition, else from the deletion timestamp, else from the
/// creation timestamp.
// upstream: pkg/controller/job/backoff_utils.go getFinishedTime
pub(super) fn finish_time(pod: &Pod) -> Timestamp {
    let unready = || {
        let ready = Condition::find(&pod.status.conditions, "Ready")?;
        ready
            .last_transition_time
            .filter(|_| ready.status == ConditionStatus::False)
    };
    let deleted = || {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let terminating = pod.metadata.deletion_timestamp?;
        Timestamp::new(terminating.as_second() - grace, terminating.subsec_nanosecond()).ok()
    };
    let ended = finish_time_from_containers(pod).or_else(unready).or_else(deleted);
    // A server sets creationTimestamp.
    ended.or(pod.metadata.creation_timestamp).unwrap_or_default()
}

/// When the last container finished; `None` if one has not. Sidecars finish after the others and are not considered.
// upstream: pkg/controller/job/backoff_utils.go getFinishTimeFromContainers
fn finish_time_from_containers(pod: &Pod) -> Option<Timestamp> {
    let status = &pod.status;
    let sidecars = status.init_container_statuses.iter();
    let sidecars = sidecars.filter(|status| pod.is_sidecar(&status.name));
    let ends = status.container_statuses.iter().chain(sidecars);
    let ends = ends.map(|status| status.state.terminated.as_ref()?.finished_at);
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(object: Value) -> Pod {
        serde_json::from_value(object).unwrap()
    }

    fn ended(second: i64) -> Pod {
        pod(json!({"metadata": {"creationTimestamp": at(second)}}))
    }

    #[test]
    fn backoff_doubles_from_ten_seconds_to_ten_minutes() {
        for (count, wait) in [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (60, 600)] {
            let failures = BackoffRecord {
                count,
                last: Some(at(1000)),
            };
            assert_eq!(failures.wait(at(1000)), Duration::from_secs(wait), "{count}");
            let later = at(1000) + Duration::from_millis(wait * 1000 + 1);
            assert_eq!(failures.wait(later), Duration::ZERO);
        }
    }

    #[test]
    fn counts_failures_since_last_success() {
        let before = BackoffRecord {
            count: 3,
            last: Some(at(10)),
        };
        for (succeeded, failed, count, last) in [
            (&[][..], &[][..], 3, Some(10)),
            (&[], &[30, 20], 5, Some(30)),
            (&[20], &[], 0, None),
            (&[20], &[15, 20], 0, None),
            (&[20, 12], &[15, 25, 22], 2, Some(25)),
        ] {
            let pods = |seconds: &[i64]| seconds.iter().map(|second| ended(*second)).collect::<Vec<_>>();
            let succeeded = pods(succeeded);
            let failed = pods(failed);
            let last = last.map(at);
            assert_eq!(before.with(&succeeded, &failed), BackoffRecord { count, last });
        }
    }

    #[test]
    fn finish_time_is_that_of_the_last_container() {
        let done = |name: &str, second: i64| json!({"name": name, "state": {"terminated": {"exitCode": 1, "finishedAt": at(second)}}});
        let running = json!({"name": "c", "state": {"running": {}}});
        let metadata = json!({"creationTimestamp": at(1), "deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30});
        let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(7)}]);
        for (spec, status, second) in [
            (
                json!({}),
                json!({"containerStatuses": [done("a", 20), done("b", 22)]}),
                22,
            ),
            (
                json!({"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]}),
                json!({"containerStatuses": [done("a", 20)], "initContainerStatuses": [done("i", 50), done("s", 25)]}),
                25,
            ),
            (
                json!({}),
                json!({"containerStatuses": [done("a", 20), running], "conditions": unready}),
                7,
            ),
            (json!({}), json!({"containerStatuses": [running]}), 10),
        ] {
            let pod = pod(json!({"metadata": metadata, "spec": spec, "status": status}));
            assert_eq!(finish_time(&pod), at(second));
        }
        assert_eq!(finish_time(&ended(3)), at(3));
    }
}
