//! How many replicas figures ask for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;

use crate::objects::{Condition, ConditionStatus, Pod, PodPhase};

/// For so long after its start a pod may use more than it will.
const STARTING: Duration = Duration::from_mins(5);
/// A pod that was not ready by then has never been.
const FIRST_READY: Duration = Duration::from_secs(30);

/// What was measured of each pod, by name.
pub(super) type Samples = BTreeMap<String, Sample>;

/// What was measured of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// The value, in thousandths.
    pub(super) value: i64,
    /// When.
    pub(super) at: Timestamp,
    /// Over which time.
    pub(super) window: Duration,
}

/// How far what is measured may be from what is wanted before anything is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    /// Below.
    pub(super) down: f64,
    /// Above.
    pub(super) up: f64,
}

/// What replicas are calculated from.
pub(super) struct Figures<'a> {
    /// The pods of the target.
    pub(super) pods: &'a [Arc<Pod>],
    /// What was measured.
    pub(super) samples: Samples,
    /// How many replicas are wanted now.
    pub(super) current: i32,
    /// How far off figures may be.
    pub(super) tolerances: Tolerances,
    /// Whether it is the use of processors, which pods that start do not tell.
    pub(super) is_cpu: bool,
    /// The time.
    pub(super) now: Timestamp,
}

/// How much is used of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Utilization {
    /// In percent.
    pub(super) percent: i32,
    /// By each pod on average, in thousandths.
    pub(super) average: i64,
}

/// The pods of a target by what their samples are worth.
#[derive(Debug, Default, PartialEq, Eq)]
struct Groups {
    ready: i32,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

// --- Tolerances ---

impl Tolerances {
    fn cover(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

// --- Figures ---

impl Figures<'_> {
    /// By what each pod is to use of something on average, in thousandths. Gives what it uses, too.
    pub(super) fn by_usage(self, target: i64) -> Result<(i32, i64), String> {
        self.calculate(
            |_| target,
            |samples| {
                let total: i64 = samples.values().map(|sample| sample.value).sum();
                let usage = total / i64::try_from(samples.len()).unwrap_or(i64::MAX);
                Ok((float(usage) / float(target), usage))
            },
        )
    }

    /// By the percentage that pods are to use of what they asked for, which is in thousandths too.
    pub(super) fn by_utilization(
        self,
        target: i32,
        requests: &BTreeMap<String, i64>,
    ) -> Result<(i32, Utilization), String> {
        // A pod of which nothing is known counts as one that uses all it may when others are about to go.
        let assumed = i64::from(target.max(100));
        self.calculate(
            |pod| requests.get(pod).copied().unwrap_or_default() * assumed / 100,
            |samples| {
                let known = samples
                    .iter()
                    .filter_map(|(pod, sample)| Some((sample.value, *requests.get(pod)?)));
                let (mut used, mut asked, mut count) = (0, 0, 0);
                for (value, request) in known {
                    used += value;
                    asked += request;
                    count += 1;
                }
                if asked == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let percent = i32::try_from(used * 100 / asked).unwrap_or(i32::MAX);
                let utilization = Utilization {
                    percent,
                    average: used / count,
                };
                Ok((f64::from(percent) / f64::from(target), utilization))
            },
        )
    }

    /// Whether there is anything to calculate with; otherwise why not.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.pods.is_empty() {
            return Err(no_pods());
        }
        let groups = self.groups();
        let counts = |pod: &String| !groups.ignored.contains(pod) && !groups.unready.contains(pod);
        if self.samples.keys().any(counts) {
            Ok(())
        } else {
            Err("did not receive metrics for targeted pods (pods might be unready)".to_owned())
        }
    }

    /// Pods of which nothing is known are thought to be what makes the least change, and those that start to use nothing.
    fn calculate<T>(
        self,
        assumed: impl Fn(&str) -> i64,
        measure: impl Fn(&Samples) -> Result<(f64, T), String>,
    ) -> Result<(i32, T), String> {
        self.check()?;
        let groups = self.groups();
        let mut samples = self.samples;
        samples.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
        let (ratio, measured) = measure(&samples)?;
        let grows_with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !grows_with_unready && groups.missing.is_empty() {
            let replicas = if self.tolerances.cover(ratio) {
                self.current
            } else {
                ceil(ratio * f64::from(groups.ready))
            };
            return Ok((replicas, measured));
        }
        let mut assume = |pods: BTreeSet<String>, value: &dyn Fn(&str) -> i64| {
            for pod in pods {
                let value = value(&pod);
                let sample = Sample {
                    value,
                    ..Sample::default()
                };
                samples.insert(pod, sample);
            }
        };
        if ratio < 1.0 {
            assume(groups.missing, &assumed);
        } else if ratio > 1.0 {
            assume(groups.missing, &|_| 0);
        }
        if grows_with_unready {
            assume(groups.unready, &|_| 0);
        }
        let (adjusted, _) = measure(&samples)?;
        let replicas = ceil(adjusted * f64::from(i32::try_from(samples.len()).unwrap_or(i32::MAX)));
        // Neither what is assumed nor how many there are may turn the direction.
        let is_turned = (ratio < 1.0 && adjusted > 1.0)
            || (ratio > 1.0 && adjusted < 1.0)
            || (adjusted < 1.0 && replicas > self.current)
            || (adjusted > 1.0 && replicas < self.current);
        let stays = self.tolerances.cover(adjusted) || is_turned;
        Ok((if stays { self.current } else { replicas }, measured))
    }

    fn groups(&self) -> Groups {
        let mut groups = Groups::default();
        for pod in self.pods {
            let name = pod.metadata.name.to_string();
            if pod.metadata.is_going() || pod.status.phase == PodPhase::Failed {
                groups.ignored.insert(name);
            } else if pod.status.phase == PodPhase::Pending {
                groups.unready.insert(name);
            } else if let Some(sample) = self.samples.get(&name) {
                if self.is_cpu && is_starting(pod, *sample, self.now) {
                    groups.unready.insert(name);
                } else {
                    groups.ready += 1;
                }
            } else {
                groups.missing.insert(name);
            }
        }
        groups
    }
}

/// Whether what a pod uses is not what it will: it starts, or was never ready.
fn is_starting(pod: &Pod, sample: Sample, now: Timestamp) -> bool {
    let ready = Condition::find(&pod.status.conditions, "Ready");
    let (Some(ready), Some(start)) = (ready, pod.status.start_time) else {
        return true;
    };
    let is_unready = ready.status == ConditionStatus::False;
    let since = ready.last_transition_time.unwrap_or_default();
    if start + STARTING > now {
        is_unready || sample.at < since + sample.window
    } else {
        is_unready && start + FIRST_READY > since
    }
}

/// By the ratio of what is measured to what is wanted, of all replicas together. Without replicas it is how many are wanted.
pub(super) fn by_ratio(
    pods: &[Arc<Pod>],
    current: i32,
    ratio: f64,
    tolerances: Tolerances,
) -> Result<i32, String> {
    if current == 0 {
        return Ok(ceil(ratio));
    }
    if tolerances.cover(ratio) {
        return Ok(current);
    }
    if pods.is_empty() {
        return Err(format!("unable to calculate ready pods: {}", no_pods()));
    }
    let is_ready = |pod: &&Arc<Pod>| pod.status.phase == PodPhase::Running && pod.is_ready();
    let ready = i32::try_from(pods.iter().filter(is_ready).count()).unwrap_or(i32::MAX);
    Ok(ceil(ratio * f64::from(ready)))
}

/// By what each replica is to have of something, in thousandths. Gives what it has, too.
pub(super) fn per_replica(current: i32, usage: i64, target: i64, tolerances: Tolerances) -> (i32, i64) {
    let ratio = float(usage) / (float(target) * f64::from(current));
    let replicas = if tolerances.cover(ratio) {
        current
    } else {
        ceil(float(usage) / float(target))
    };
    (replicas, ceil_long(float(usage) / f64::from(current)))
}

/// The ratio of what is measured to what is wanted.
pub(super) fn ratio(usage: i64, target: i64) -> f64 {
    float(usage) / float(target)
}

fn no_pods() -> String {
    "no pods returned by selector while calculating replica count".to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "figures that large are not exact")]
fn float(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, which is meant")]
fn ceil(number: f64) -> i32 {
    number.ceil() as i32
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, which is meant")]
fn ceil_long(number: f64) -> i64 {
    number.ceil() as i64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEN: Tolerances = Tolerances { down: 0.1, up: 0.1 };

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    fn pod(name: &str, phase: &str, ready: &str) -> Arc<Pod> {
        let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:01Z"});
        let status = json!({"phase": phase, "startTime": "2026-01-01T00:00:00Z", "conditions": [ready]});
        let pod = json!({"metadata": {"name": name}, "status": status});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn running(count: usize) -> Vec<Arc<Pod>> {
        (0..count)
            .map(|number| pod(&format!("p{number}"), "Running", "True"))
            .collect()
    }

    fn figures<'a>(pods: &'a [Arc<Pod>], values: &[i64]) -> Figures<'a> {
        let sample = |value: &i64| Sample {
            value: *value,
            at: now(),
            window: Duration::from_mins(1),
        };
        let samples = values.iter().enumerate();
        Figures {
            pods,
            samples: samples
                .map(|(number, value)| (format!("p{number}"), sample(value)))
                .collect(),
            current: i32::try_from(pods.len()).unwrap(),
            tolerances: TEN,
            is_cpu: true,
            now: now(),
        }
    }

    fn requests(count: usize, each: i64) -> BTreeMap<String, i64> {
        (0..count).map(|number| (format!("p{number}"), each)).collect()
    }

    #[test]
    fn replicas_follow_the_utilization() {
        for (values, target, expected, percent) in [
            // All of what was asked for is used, and half of it should be.
            (&[1000, 1000, 1000][..], 50, 6, 100),
            (&[300, 300, 300], 50, 2, 30),
            // Within the tolerance.
            (&[540, 540, 540], 50, 3, 54),
            (&[460, 460, 460], 50, 3, 46),
        ] {
            let pods = running(3);
            let (replicas, utilization) = figures(&pods, values)
                .by_utilization(target, &requests(3, 1000))
                .unwrap();
            assert_eq!((replicas, utilization.percent), (expected, percent), "{values:?}");
        }
    }

    #[test]
    fn pods_that_say_nothing_make_the_change_smaller() {
        let pods = running(4);
        // Two are far below; the others count as if they used all they may.
        let (replicas, _) = figures(&pods, &[100, 100])
            .by_utilization(50, &requests(4, 1000))
            .unwrap();
        assert_eq!(replicas, 4);
        // Two are far above; the others count as if they used nothing.
        let (replicas, _) = figures(&pods, &[2000, 2000])
            .by_utilization(50, &requests(4, 1000))
            .unwrap();
        assert_eq!(replicas, 8);
    }

    #[test]
    fn pods_that_start_count_for_nothing_when_more_are_needed() {
        let mut pods = running(2);
        pods.push(pod("p2", "Pending", "False"));
        let (replicas, usage) = figures(&pods, &[900, 900, 5000]).by_usage(300).unwrap();
        assert_eq!((replicas, usage), (6, 900));
        let (replicas, usage) = figures(&pods, &[100, 100, 5000]).by_usage(400).unwrap();
        assert_eq!((replicas, usage), (1, 100));
    }

    #[test]
    fn without_figures_nothing_is_calculated() {
        let unready = vec![pod("p0", "Pending", "False")];
        assert_eq!(
            figures(&unready, &[1]).by_usage(1).unwrap_err(),
            "did not receive metrics for targeted pods (pods might be unready)"
        );
        assert_eq!(
            figures(&[], &[1]).by_usage(1).unwrap_err(),
            "no pods returned by selector while calculating replica count"
        );
        assert_eq!(
            figures(&running(1), &[1])
                .by_utilization(1, &BTreeMap::new())
                .unwrap_err(),
            "no metrics returned matched known pods"
        );
    }

    #[test]
    fn figures_of_all_replicas_together_are_divided_among_them() {
        let pods = running(3);
        assert_eq!(by_ratio(&pods, 3, 2.0, TEN), Ok(6));
        assert_eq!(by_ratio(&pods, 3, 1.05, TEN), Ok(3));
        assert_eq!(by_ratio(&[], 0, 2.5, TEN), Ok(3));
        assert_eq!(by_ratio(&[], 0, 0.0, TEN), Ok(0));
        assert!(by_ratio(&[], 3, 2.0, TEN).is_err());
        assert_eq!(per_replica(3, 9000, 1500, TEN), (6, 3000));
        assert_eq!(per_replica(3, 4500, 1500, TEN), (3, 1500));
    }

    #[test]
    fn a_sample_from_before_a_pod_was_ready_is_not_counted() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let sample = |text: &str| Sample {
            value: 1,
            at: at(text),
            window: Duration::from_secs(30),
        };
        let young = at("2026-01-01T00:02:00Z");
        let pod = |ready: &str| pod("p", "Running", ready);
        assert!(is_starting(&pod("True"), sample("2026-01-01T00:00:20Z"), young));
        assert!(!is_starting(&pod("True"), sample("2026-01-01T00:00:40Z"), young));
        assert!(is_starting(&pod("False"), sample("2026-01-01T00:00:40Z"), young));
        assert!(is_starting(&pod("False"), sample("2026-01-01T00:59:00Z"), now()));
        assert!(!is_starting(&pod("True"), sample("2026-01-01T00:59:00Z"), now()));
    }
}
