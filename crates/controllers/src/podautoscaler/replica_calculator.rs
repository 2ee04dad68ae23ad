//! The replica calculator: desired replicas from metric samples.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k3_workloads::{Condition, ConditionStatus, Pod, PodPhase};
use k8s_openapi::jiff::Timestamp;

use super::error::ReplicaCountError;

/// cpuInitializationPeriod: CPU samples during this time after the start are ignored.
const CPU_INITIALIZATION_PERIOD: Duration = Duration::from_mins(5);
/// delayOfInitialReadinessStatus: a pod that became unready before was never ready.
const INITIAL_READINESS_DELAY: Duration = Duration::from_secs(30);

/// Metric samples by pod name.
pub(super) type MetricSamples = BTreeMap<String, MetricSample>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MetricSample {
    /// The value in milli-units.
    pub(super) value: i64,
    pub(super) at: Timestamp,
    pub(super) window: Duration,
}

/// Deviation from the target within which nothing is scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    /// For scaling down.
    pub(super) down: f64,
    /// For scaling up.
    pub(super) up: f64,
}

/// Computes replicas from samples of a target's pods.
// upstream: pkg/controller/podautoscaler/replica_calculator.go ReplicaCalculator
pub(super) struct ReplicaCalculator<'a> {
    /// The pods of the target.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) samples: MetricSamples,
    /// Current spec.replicas.
    pub(super) current: i32,
    pub(super) tolerances: Tolerances,
    pub(super) source: SampleSource,
    pub(super) now: Timestamp,
}

/// What samples measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleSource {
    /// CPU, which is ignored for starting pods.
    Cpu,
    Other,
}

/// Resource utilization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResourceUtilization {
    /// In percent of the request.
    pub(super) percent: i32,
    /// Average per pod, in milli-units.
    pub(super) average: i64,
}

/// Pods grouped by readiness and samples.
#[derive(Debug, Default, PartialEq, Eq)]
struct PodGroups {
    ready: i32,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

// --- Tolerances ---

impl Tolerances {
    // upstream: pkg/controller/podautoscaler/replica_calculator.go isWithin
    fn is_within(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

// --- ReplicaCalculator ---

impl ReplicaCalculator<'_> {
    /// Scales on the average value per pod, in milli-units. Also returns the current average.
    // upstream: pkg/controller/podautoscaler/replica_calculator.go GetRawResourceReplicas, GetMetricReplicas
    pub(super) fn raw_value_replicas(self, target: i64) -> Result<(i32, i64), ReplicaCountError> {
        self.plain_metric_replicas(
            |_| target,
            |samples| {
                let total: i64 = samples.values().map(|sample| sample.value).sum();
                let usage = total / i64::try_from(samples.len()).unwrap_or(i64::MAX);
                Ok((float(usage) / float(target), usage))
            },
        )
    }

    /// Scales on utilization in percent of the requests, which are in milli-units too.
    // upstream: pkg/controller/podautoscaler/replica_calculator.go GetResourceReplicas
    pub(super) fn resource_replicas(
        self,
        target: i32,
        requests: &BTreeMap<String, i64>,
    ) -> Result<(i32, ResourceUtilization), ReplicaCountError> {
        // When scaling down, a pod without a sample counts as using its target fully.
        let assumed = i64::from(target.max(100));
        self.plain_metric_replicas(
            |pod| requests.get(pod).copied().unwrap_or_default() * assumed / 100,
            |samples| {
                let known = samples
                    .iter()
                    .filter_map(|(pod, sample)| Some((sample.value, *requests.get(pod)?)));
                let mut used = 0;
                let mut asked = 0;
                let mut count = 0;
                for (value, request) in known {
                    used += value;
                    asked += request;
                    count += 1;
                }
                if asked == 0 {
                    return Err(ReplicaCountError::UnknownPods);
                }
                let percent = i32::try_from(used * 100 / asked).unwrap_or(i32::MAX);
                let utilization = ResourceUtilization {
                    percent,
                    average: used / count,
                };
                Ok((f64::from(percent) / f64::from(target), utilization))
            },
        )
    }

    /// Whether there are samples.
    pub(super) fn check(&self) -> Result<(), ReplicaCountError> {
        if self.pods.is_empty() {
            return Err(ReplicaCountError::NoPods);
        }
        let groups = self.group_pods();
        let counts = |pod: &String| !groups.ignored.contains(pod) && !groups.unready.contains(pod);
        if self.samples.keys().any(counts) {
            Ok(())
        } else {
            Err(ReplicaCountError::NoSamples)
        }
    }

    /// Pods without samples are assumed to use what causes the least change, starting pods to use nothing.
    // upstream: pkg/controller/podautoscaler/replica_calculator.go calcPlainMetricReplicas
    fn plain_metric_replicas<T>(
        self,
        assumed: impl Fn(&str) -> i64,
        measure: impl Fn(&MetricSamples) -> Result<(f64, T), ReplicaCountError>,
    ) -> Result<(i32, T), ReplicaCountError> {
        self.check()?;
        let groups = self.group_pods();
        let mut samples = self.samples;
        samples.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
        let (ratio, measured) = measure(&samples)?;
        let grows_with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !grows_with_unready && groups.missing.is_empty() {
            let replicas = if self.tolerances.is_within(ratio) {
                self.current
            } else {
                ceil(ratio * f64::from(groups.ready))
            };
            return Ok((replicas, measured));
        }
        let mut assume = |pods: BTreeSet<String>, value: &dyn Fn(&str) -> i64| {
            for pod in pods {
                let value = value(&pod);
                let sample = MetricSample {
                    value,
                    ..MetricSample::default()
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
        // Neither the assumptions nor the number of pods may reverse the direction.
        let is_turned = (ratio < 1.0 && adjusted > 1.0)
            || (ratio > 1.0 && adjusted < 1.0)
            || (adjusted < 1.0 && replicas > self.current)
            || (adjusted > 1.0 && replicas < self.current);
        let stays = self.tolerances.is_within(adjusted) || is_turned;
        Ok((if stays { self.current } else { replicas }, measured))
    }

    // upstream: pkg/controller/podautoscaler/replica_calculator.go groupPods
    fn group_pods(&self) -> PodGroups {
        let mut groups = PodGroups::default();
        for pod in self.pods {
            let name = pod.metadata.name.to_string();
            if pod.metadata.is_terminating() || pod.status.phase == PodPhase::Failed {
                groups.ignored.insert(name);
            } else if pod.status.phase == PodPhase::Pending {
                groups.unready.insert(name);
            } else if let Some(sample) = self.samples.get(&name) {
                if self.source == SampleSource::Cpu && is_starting(pod, *sample, self.now) {
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

/// Whether a pod's sample is ignored: it is starting, or was never ready.
// upstream: pkg/controller/podautoscaler/replica_calculator.go groupPods
fn is_starting(pod: &Pod, sample: MetricSample, now: Timestamp) -> bool {
    let ready = Condition::find(&pod.status.conditions, "Ready");
    let (Some(ready), Some(start)) = (ready, pod.status.start_time) else {
        return true;
    };
    let is_unready = ready.status == ConditionStatus::False;
    let since = ready.last_transition_time.unwrap_or_default();
    if start + CPU_INITIALIZATION_PERIOD > now {
        is_unready || sample.at < since + sample.window
    } else {
        is_unready && start + INITIAL_READINESS_DELAY > since
    }
}

/// Scales on the ratio of a value to its target for all replicas together. With zero replicas the ratio is the replica count.
// upstream: pkg/controller/podautoscaler/replica_calculator.go getUsageRatioReplicaCount, getReadyPodsCount
pub(super) fn usage_ratio_replica_count(
    pods: &[Arc<Pod>],
    current: i32,
    ratio: f64,
    tolerances: Tolerances,
) -> Result<i32, ReplicaCountError> {
    if current == 0 {
        return Ok(ceil(ratio));
    }
    if tolerances.is_within(ratio) {
        return Ok(current);
    }
    if pods.is_empty() {
        return Err(ReplicaCountError::NoReadyPods);
    }
    let is_ready = |pod: &&Arc<Pod>| pod.status.phase == PodPhase::Running && pod.is_ready();
    let ready = i32::try_from(pods.iter().filter(is_ready).count()).unwrap_or(i32::MAX);
    Ok(ceil(ratio * f64::from(ready)))
}

/// Scales on a value per replica, in milli-units. Also returns the current average.
// upstream: pkg/controller/podautoscaler/replica_calculator.go GetObjectPerPodMetricReplicas, GetExternalPerPodMetricReplicas
pub(super) fn per_pod_metric_replicas(
    current: i32,
    usage: i64,
    target: i64,
    tolerances: Tolerances,
) -> (i32, i64) {
    let ratio = float(usage) / (float(target) * f64::from(current));
    let replicas = if tolerances.is_within(ratio) {
        current
    } else {
        ceil(float(usage) / float(target))
    };
    (replicas, ceil_long(float(usage) / f64::from(current)))
}

/// Ratio of a value to its target.
// upstream: pkg/controller/podautoscaler/metrics/utilization.go GetMetricUsageRatio
pub(super) fn ratio(usage: i64, target: i64) -> f64 {
    float(usage) / float(target)
}

#[expect(clippy::cast_precision_loss, reason = "values that large are not exact")]
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

    fn replica_calculator<'a>(pods: &'a [Arc<Pod>], values: &[i64]) -> ReplicaCalculator<'a> {
        let sample = |value: &i64| MetricSample {
            value: *value,
            at: now(),
            window: Duration::from_mins(1),
        };
        let samples = values.iter().enumerate();
        ReplicaCalculator {
            pods,
            samples: samples
                .map(|(number, value)| (format!("p{number}"), sample(value)))
                .collect(),
            current: i32::try_from(pods.len()).unwrap(),
            tolerances: TEN,
            source: SampleSource::Cpu,
            now: now(),
        }
    }

    fn requests(count: usize, each: i64) -> BTreeMap<String, i64> {
        (0..count).map(|number| (format!("p{number}"), each)).collect()
    }

    #[test]
    fn scales_with_utilization() {
        for (values, target, expected, percent) in [
            // All of what was asked for is used, and half of it should be.
            (&[1000, 1000, 1000][..], 50, 6, 100),
            (&[300, 300, 300], 50, 2, 30),
            // Within the tolerance.
            (&[540, 540, 540], 50, 3, 54),
            (&[460, 460, 460], 50, 3, 46),
        ] {
            let pods = running(3);
            let (replicas, utilization) = replica_calculator(&pods, values)
                .resource_replicas(target, &requests(3, 1000))
                .unwrap();
            assert_eq!((replicas, utilization.percent), (expected, percent), "{values:?}");
        }
    }

    #[test]
    fn missing_samples_dampen_the_change() {
        let pods = running(4);
        // Two are far below; the others count as if they used all they may.
        let (replicas, _) = replica_calculator(&pods, &[100, 100])
            .resource_replicas(50, &requests(4, 1000))
            .unwrap();
        assert_eq!(replicas, 4);
        // Two are far above; the others count as if they used nothing.
        let (replicas, _) = replica_calculator(&pods, &[2000, 2000])
            .resource_replicas(50, &requests(4, 1000))
            .unwrap();
        assert_eq!(replicas, 8);
    }

    #[test]
    fn starting_pods_count_as_idle_on_scale_up() {
        let mut pods = running(2);
        pods.push(pod("p2", "Pending", "False"));
        let (replicas, usage) = replica_calculator(&pods, &[900, 900, 5000])
            .raw_value_replicas(300)
            .unwrap();
        assert_eq!((replicas, usage), (6, 900));
        let (replicas, usage) = replica_calculator(&pods, &[100, 100, 5000])
            .raw_value_replicas(400)
            .unwrap();
        assert_eq!((replicas, usage), (1, 100));
    }

    #[test]
    fn fails_without_samples() {
        let unready = vec![pod("p0", "Pending", "False")];
        assert_eq!(
            replica_calculator(&unready, &[1])
                .raw_value_replicas(1)
                .unwrap_err(),
            ReplicaCountError::NoSamples
        );
        assert_eq!(
            replica_calculator(&[], &[1]).raw_value_replicas(1).unwrap_err(),
            ReplicaCountError::NoPods
        );
        assert_eq!(
            replica_calculator(&running(1), &[1])
                .resource_replicas(1, &BTreeMap::new())
                .unwrap_err(),
            ReplicaCountError::UnknownPods
        );
    }

    #[test]
    fn divides_total_values_among_replicas() {
        let pods = running(3);
        assert_eq!(usage_ratio_replica_count(&pods, 3, 2.0, TEN), Ok(6));
        assert_eq!(usage_ratio_replica_count(&pods, 3, 1.05, TEN), Ok(3));
        assert_eq!(usage_ratio_replica_count(&[], 0, 2.5, TEN), Ok(3));
        assert_eq!(usage_ratio_replica_count(&[], 0, 0.0, TEN), Ok(0));
        assert!(usage_ratio_replica_count(&[], 3, 2.0, TEN).is_err());
        assert_eq!(per_pod_metric_replicas(3, 9000, 1500, TEN), (6, 3000));
        assert_eq!(per_pod_metric_replicas(3, 4500, 1500, TEN), (3, 1500));
    }

    #[test]
    fn ignores_samples_from_before_readiness() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let sample = |text: &str| MetricSample {
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
