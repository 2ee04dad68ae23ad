//! Desired replicas for one metric.

use std::sync::Arc;

use k3_api::quantity::{Format, Quantity};
use k3_workloads::Pod;
use k8s_openapi::{
    api::autoscaling::v2::{
        ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus,
        HorizontalPodAutoscalerBehavior, MetricIdentifier, MetricSpec, MetricStatus, MetricTarget,
        MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource, PodsMetricStatus,
        ResourceMetricStatus,
    },
    apimachinery::pkg::{api::resource::Quantity as Text, apis::meta::v1::LabelSelector},
    jiff::Timestamp,
};
use kubecontroller::selector::read_label_selector;
use serde_json::json;

use super::{
    error::{
        ExternalProposalError, ObjectProposalError, PodsProposalError, ResourceProposalError,
        ResourceReplicasError,
    },
    metrics_client::MetricsClient,
    replica_calculator::{
        MetricSamples, ReplicaCalculator, SampleSource, Tolerances, per_pod_metric_replicas, ratio,
        usage_ratio_replica_count,
    },
};

/// Default tolerance.
const TOLERANCE: f64 = 0.1;

/// The target for which replicas are computed.
pub(super) struct MetricEvaluation<'a> {
    pub(super) metrics: &'a MetricsClient,
    pub(super) namespace: &'a str,
    /// The pods of the target, and their selector.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) selector: &'a str,
    /// spec.replicas and status.replicas of the target.
    pub(super) spec_replicas: i32,
    pub(super) status_replicas: i32,
    pub(super) tolerances: Tolerances,
    pub(super) now: Timestamp,
}

/// The recommendation of a metric.
#[derive(Debug)]
pub(super) struct MetricProposal {
    pub(super) replicas: i32,
    /// Name of the metric in messages.
    pub(super) name: String,
    /// The metric's status.
    pub(super) status: MetricStatus,
}

/// Why a metric has no recommendation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MetricError {
    /// Condition reason.
    pub(super) reason: &'static str,
    /// The message.
    pub(super) error_text: String,
    /// The message in a summary of several failures.
    pub(super) summary: String,
}

// --- MetricEvaluation ---

impl MetricEvaluation<'_> {
    /// The recommendation of a metric.
    // upstream: pkg/controller/podautoscaler/horizontal.go computeReplicasForMetric
    pub(super) async fn evaluate(&self, spec: &MetricSpec) -> Result<MetricProposal, MetricError> {
        match spec {
            MetricSpec {
                object: Some(source), ..
            } if spec.type_ == "Object" => self.object(source).await,
            MetricSpec {
                pods: Some(source), ..
            } if spec.type_ == "Pods" => self.pods_metric(source).await,
            MetricSpec {
                resource: Some(source),
                ..
            } if spec.type_ == "Resource" => {
                let name = source.name.as_str();
                let found = self.resource(&source.target, name, None).await;
                let (replicas, current, name_of) = found.map_err(|error| MetricError {
                    reason: "FailedGetResourceMetric",
                    summary: format!("failed to get {name} resource metric value: {error}"),
                    error_text: error.to_string(),
                })?;
                let status = ResourceMetricStatus {
                    name: name.to_owned(),
                    current,
                };
                Ok(MetricProposal {
                    replicas,
                    name: name_of,
                    status: MetricStatus {
                        type_: spec.type_.clone(),
                        resource: Some(status),
                        ..MetricStatus::default()
                    },
                })
            }
            MetricSpec {
                container_resource: Some(source),
                ..
            } if spec.type_ == "ContainerResource" => {
                let container = source.container.as_str();
                let found = self.resource(&source.target, &source.name, Some(container)).await;
                let (replicas, current, name) = found.map_err(|error| MetricError {
                    reason: "FailedGetContainerResourceMetric",
                    summary: format!("failed to get {container} container metric value: {error}"),
                    error_text: error.to_string(),
                })?;
                let status = ContainerResourceMetricStatus {
                    container: container.to_owned(),
                    name: source.name.clone(),
                    current,
                };
                Ok(MetricProposal {
                    replicas,
                    name,
                    status: MetricStatus {
                        type_: spec.type_.clone(),
                        container_resource: Some(status),
                        ..MetricStatus::default()
                    },
                })
            }
            MetricSpec {
                external: Some(source),
                ..
            } if spec.type_ == "External" => self.external(source).await,
            _ => {
                let error_text = format!("unknown metric source type {}", k3_api::go::quote(&spec.type_));
                Err(MetricError {
                    reason: "InvalidMetricSourceType",
                    summary: error_text.clone(),
                    error_text,
                })
            }
        }
    }

    /// Scales on resource usage, as value or utilization.
    // upstream: pkg/controller/podautoscaler/horizontal.go computeStatusForResourceMetricGeneric, computeStatusForResourceMetric, computeStatusForContainerResourceMetric
    async fn resource(
        &self,
        target: &MetricTarget,
        resource: &str,
        container: Option<&str>,
    ) -> Result<(i32, MetricValueStatus, String), ResourceProposalError> {
        let read = async || {
            let samples = self
                .metrics
                .resource(self.namespace, self.selector, resource, container);
            samples.await.map_err(|source| ResourceReplicasError::Metrics {
                resource: resource.to_owned(),
                source,
            })
        };
        let value = |average: i64| {
            let format = if resource == "memory" {
                Format::BinarySi
            } else {
                Format::DecimalSi
            };
            Some(Text(Quantity::milli(average, format).to_string()))
        };
        let source = match resource {
            "cpu" => SampleSource::Cpu,
            _ => SampleSource::Other,
        };
        if let Some(spec_replicas) = &target.average_value {
            let found = async {
                let calculator = self.replica_calculator(read().await?, source);
                Ok(calculator.raw_value_replicas(milli_value(spec_replicas))?)
            };
            let (replicas, average) = found.await.map_err(|source| ResourceProposalError::Usage {
                resource: resource.to_owned(),
                source,
            })?;
            let current = MetricValueStatus {
                average_value: value(average),
                ..MetricValueStatus::default()
            };
            return Ok((replicas, current, format!("{resource} resource")));
        }
        let Some(spec_replicas) = target.average_utilization else {
            return Err(ResourceProposalError::NoTarget);
        };
        let found = async {
            let informer_metrics = self.replica_calculator(read().await?, source);
            let requests = async || {
                let requests = self
                    .metrics
                    .requests(self.namespace, self.selector, resource, container);
                requests.await
            };
            informer_metrics.check()?;
            Ok(informer_metrics.resource_replicas(spec_replicas, &requests().await?)?)
        };
        let (replicas, utilization) = found.await.map_err(|source| ResourceProposalError::Utilization {
            resource: resource.to_owned(),
            source,
        })?;
        let current = MetricValueStatus {
            average_utilization: Some(utilization.percent),
            average_value: value(utilization.average),
            ..MetricValueStatus::default()
        };
        let of = if container.is_some() {
            "container resource"
        } else {
            "resource"
        };
        Ok((
            replicas,
            current,
            format!("{resource} {of} utilization (percentage of request)"),
        ))
    }

    // upstream: pkg/controller/podautoscaler/horizontal.go computeStatusForPodsMetric
    async fn pods_metric(&self, source: &PodsMetricSource) -> Result<MetricProposal, MetricError> {
        let name = &source.metric.name;
        let found = async {
            let samples = self.metrics.pods(self.namespace, self.selector, &source.metric);
            let samples = samples.await.map_err(|source| PodsProposalError::Metrics {
                metric: name.clone(),
                source,
            })?;
            let spec_replicas = source.target.average_value.as_ref().map_or(0, milli_value);
            let calculator = self.replica_calculator(samples, SampleSource::Other);
            Ok(calculator.raw_value_replicas(spec_replicas)?)
        };
        let (replicas, average) = found.await.map_err(|error: PodsProposalError| MetricError {
            reason: "FailedGetPodsMetric",
            summary: format!("failed to get pods metric value: {error}"),
            error_text: error.to_string(),
        })?;
        let status = PodsMetricStatus {
            metric: source.metric.clone(),
            current: averaged(average),
        };
        Ok(MetricProposal {
            replicas,
            name: format!("pods metric {name}"),
            status: MetricStatus {
                type_: "Pods".to_owned(),
                pods: Some(status),
                ..MetricStatus::default()
            },
        })
    }

    // upstream: pkg/controller/podautoscaler/horizontal.go computeStatusForObjectMetric
    async fn object(&self, source: &ObjectMetricSource) -> Result<MetricProposal, MetricError> {
        let ObjectMetricSource {
            described_object: object,
            metric,
            target,
        } = source;
        let failed = |error: ObjectProposalError, within: &str| MetricError {
            reason: "FailedGetObjectMetric",
            summary: format!("failed to get object metric value: {within}{error}"),
            error_text: error.to_string(),
        };
        let read = async || {
            let value = self.metrics.object(self.namespace, object, metric);
            value.await.map_err(|source| ObjectProposalError::Metrics {
                metric: metric.name.clone(),
                object: format!("{} {}/{}", object.kind, self.namespace, object.name),
                source,
            })
        };
        let (replicas, current, name) = match (&*target.type_, &target.value, &target.average_value) {
            ("Value", Some(spec_replicas), _) => {
                let found = async {
                    let usage = read().await?;
                    let ratio = ratio(usage, milli_value(spec_replicas));
                    Ok((
                        usage_ratio_replica_count(self.pods, self.spec_replicas, ratio, self.tolerances)?,
                        usage,
                    ))
                };
                let (replicas, usage) = found.await.map_err(|why| failed(why, ""))?;
                let name = format!("{} metric {}", object.kind, metric.name);
                (replicas, valued(usage), name)
            }
            ("AverageValue", _, Some(spec_replicas)) => {
                let within = format!("failed to get {} object metric: ", metric.name);
                let usage = read().await.map_err(|why| failed(why, &within))?;
                let (replicas, average) = per_pod_metric_replicas(
                    self.status_replicas,
                    usage,
                    milli_value(spec_replicas),
                    self.tolerances,
                );
                (replicas, averaged(average), external_name(metric))
            }
            _ => {
                return Err(failed(ObjectProposalError::NoTarget, ""));
            }
        };
        let status = ObjectMetricStatus {
            current,
            described_object: object.clone(),
            metric: metric.clone(),
        };
        Ok(MetricProposal {
            replicas,
            name,
            status: MetricStatus {
                type_: "Object".to_owned(),
                object: Some(status),
                ..MetricStatus::default()
            },
        })
    }

    // upstream: pkg/controller/podautoscaler/horizontal.go computeStatusForExternalMetric
    async fn external(&self, source: &ExternalMetricSource) -> Result<MetricProposal, MetricError> {
        let ExternalMetricSource { metric, target } = source;
        let name = &metric.name;
        let failed = |error: ExternalProposalError, within: &str| MetricError {
            reason: "FailedGetExternalMetric",
            summary: format!("failed to get {name} external metric value: {within}{error}"),
            error_text: error.to_string(),
        };
        let read = async || {
            let values = self.metrics.external(self.namespace, metric).await;
            let values = values.map_err(|source| {
                let namespace = self.namespace;
                let selector = format_selector(metric.selector.as_ref());
                let metric = format!("{namespace}/{name}/{selector}");
                ExternalProposalError::Metrics { metric, source }
            })?;
            Ok(values.into_iter().fold(0_i64, i64::saturating_add))
        };
        let (replicas, current) = match (&target.average_value, &target.value) {
            (Some(spec_replicas), _) => {
                let within = format!("failed to get {name} external metric: ");
                let usage = read().await.map_err(|why| failed(why, &within))?;
                let (replicas, average) = per_pod_metric_replicas(
                    self.status_replicas,
                    usage,
                    milli_value(spec_replicas),
                    self.tolerances,
                );
                (replicas, averaged(average))
            }
            (None, Some(spec_replicas)) => {
                let found = async {
                    let usage = read().await?;
                    let ratio = ratio(usage, milli_value(spec_replicas));
                    Ok((
                        usage_ratio_replica_count(self.pods, self.spec_replicas, ratio, self.tolerances)?,
                        usage,
                    ))
                };
                let within = format!("failed to get external metric {name}: ");
                let (replicas, usage) = found.await.map_err(|why| failed(why, &within))?;
                (replicas, valued(usage))
            }
            (None, None) => {
                return Err(failed(ExternalProposalError::NoTarget, ""));
            }
        };
        let status = ExternalMetricStatus {
            current,
            metric: metric.clone(),
        };
        Ok(MetricProposal {
            replicas,
            name: external_name(metric),
            status: MetricStatus {
                type_: "External".to_owned(),
                external: Some(status),
                ..MetricStatus::default()
            },
        })
    }

    fn replica_calculator(&self, samples: MetricSamples, source: SampleSource) -> ReplicaCalculator<'_> {
        ReplicaCalculator {
            pods: self.pods,
            samples,
            current: self.spec_replicas,
            tolerances: self.tolerances,
            source,
            now: self.now,
        }
    }
}

// --- Tolerances ---

impl Tolerances {
    /// The tolerances of an autoscaler.
    // upstream: pkg/controller/podautoscaler/horizontal.go tolerancesForHpa
    pub(super) fn of(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> Self {
        let own = |rules: Option<&k8s_openapi::api::autoscaling::v2::HPAScalingRules>| {
            let text = rules?.tolerance.as_ref()?;
            Quantity::from_value(&json!(text.0))
                .ok()
                .map(|quantity| quantity.to_f64())
        };
        Tolerances {
            down: own(behavior.and_then(|behavior| behavior.scale_down.as_ref())).unwrap_or(TOLERANCE),
            up: own(behavior.and_then(|behavior| behavior.scale_up.as_ref())).unwrap_or(TOLERANCE),
        }
    }
}

fn milli_value(text: &Text) -> i64 {
    Quantity::from_value(&json!(text.0)).map_or(0, |quantity| quantity.milli_value())
}

fn amount(thousandths: i64) -> Text {
    Text(Quantity::milli(thousandths, Format::DecimalSi).to_string())
}

fn averaged(thousandths: i64) -> MetricValueStatus {
    MetricValueStatus {
        average_value: Some(amount(thousandths)),
        ..MetricValueStatus::default()
    }
}

fn valued(thousandths: i64) -> MetricValueStatus {
    MetricValueStatus {
        value: Some(amount(thousandths)),
        ..MetricValueStatus::default()
    }
}

fn external_name(metric: &MetricIdentifier) -> String {
    format!(
        "external metric {}({})",
        metric.name,
        format_selector(metric.selector.as_ref())
    )
}

/// A selector in the form of upstream's messages.
fn format_selector(selector: Option<&LabelSelector>) -> String {
    selector.map_or_else(
        || "nil".to_owned(),
        |selector| read_label_selector(selector).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_selectors_like_upstream() {
        assert_eq!(format_selector(None), "nil");
        let selector = serde_json::from_value(json!({
            "matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}],
        }));
        assert_eq!(
            format_selector(Some(&selector.unwrap())),
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[d e],},},}"
        );
    }

    #[test]
    fn reads_tolerances() {
        let behavior = serde_json::from_value(json!({"scaleUp": {"tolerance": "50m"}})).unwrap();
        assert_eq!(
            Tolerances::of(Some(&behavior)),
            Tolerances { down: 0.1, up: 0.05 }
        );
    }
}
