//! Client of the resource, custom and external metrics APIs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k3_api::{
    quantity::{ParseError as QuantityError, Quantity},
    selector::label::{self, FromObjectError},
    strategy::Tree,
};
use k8s_openapi::{
    api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier},
    jiff::Timestamp,
};
use kube::api::ListParams;
use kubecontroller::{
    resource::{Resource, ResourceScope, push_segment},
    writer::{ApiWriter, ListPage},
};
use serde_json::{Value, json};

use super::{
    error::{
        CustomMetricsError, ExternalMetricsError, FetchCustomMetricsError, PodRequestsError,
        ResourceMetricsError,
    },
    replica_calculator::{MetricSample, MetricSamples},
    target::TargetFinder,
};
use crate::resource::PODS;

pub(super) const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";
/// Supported versions of custom metrics.
const CUSTOM_VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// Window of custom metrics that do not report one.
const STABILIZATION_WINDOW: Duration = Duration::from_mins(1);

static POD_METRICS: Resource = Resource::new(
    "metrics.k8s.io",
    "v1beta1",
    "pods",
    "PodMetrics",
    ResourceScope::Namespaced,
);

pub(super) struct MetricsClient {
    writer: ApiWriter,
    targets: Arc<TargetFinder>,
}

// --- MetricsClient ---

impl MetricsClient {
    pub(super) fn new(writer: &ApiWriter, targets: &Arc<TargetFinder>) -> Self {
        MetricsClient {
            writer: writer.clone(),
            targets: Arc::clone(targets),
        }
    }

    /// Resource usage of pods, total or of one container.
    // upstream: pkg/controller/podautoscaler/metrics/client.go GetResourceMetric
    pub(super) async fn resource(
        &self,
        namespace: &str,
        selector: &str,
        resource: &str,
        container: Option<&str>,
    ) -> Result<MetricSamples, ResourceMetricsError> {
        let parameters = ListParams::default().labels(selector);
        let page: kube::Result<ListPage<Value>> =
            self.writer.list_page(&POD_METRICS, namespace, &parameters).await;
        let page = page.map_err(ResourceMetricsError::Fetch)?;
        if page.items.is_empty() {
            return Err(ResourceMetricsError::Empty);
        }
        let mut samples = MetricSamples::new();
        for metrics in &page.items {
            if let Some(sample) = usage_of(metrics, resource, container)? {
                samples.insert(metrics.at("metadata").text("name").to_owned(), sample);
            }
        }
        Ok(samples)
    }

    /// A custom metric of pods.
    // upstream: pkg/controller/podautoscaler/metrics/client.go GetRawMetric
    pub(super) async fn pods(
        &self,
        namespace: &str,
        selector: &str,
        metric: &MetricIdentifier,
    ) -> Result<MetricSamples, CustomMetricsError> {
        let items = self.custom(namespace, "pods/*", metric, Some(selector)).await?;
        if items.is_empty() {
            return Err(CustomMetricsError::Empty);
        }
        let sample = |item: &Value| {
            let name = item.at("describedObject").text("name").to_owned();
            let sample = MetricSample {
                value: milli_value(item.at("value"))?,
                at: moment(item),
                window: ["windowSeconds", "window"]
                    .iter()
                    .find_map(|field| item.int(field))
                    .map_or(STABILIZATION_WINDOW, |seconds| {
                        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
                    }),
            };
            Ok((name, sample))
        };
        let samples: Result<_, FetchCustomMetricsError> = items.iter().map(sample).collect();
        Ok(samples?)
    }

    /// A custom metric of an object, in milli-units.
    // upstream: pkg/controller/podautoscaler/metrics/client.go GetObjectMetric
    pub(super) async fn object(
        &self,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric: &MetricIdentifier,
    ) -> Result<i64, CustomMetricsError> {
        Ok(self.object_value(namespace, object, metric).await?)
    }

    async fn object_value(
        &self,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric: &MetricIdentifier,
    ) -> Result<i64, FetchCustomMetricsError> {
        let api_version = object.api_version.as_deref().unwrap_or_default();
        // Metrics of a Namespace object are restricted to the autoscaler's own namespace.
        let way = if object.kind == "Namespace" && !api_version.contains('/') {
            "metrics".to_owned()
        } else {
            let resource = self.targets.resource(api_version, &object.kind).await;
            let resource = resource.map_err(|source| {
                let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
                let kind = qualified(&object.kind, group);
                FetchCustomMetricsError::MapKind { kind, source }
            })?;
            format!("{}/{}", qualified(&resource.plural, &resource.group), object.name)
        };
        let items = self.custom(namespace, &way, metric, None).await?;
        match &items[..] {
            [item] => Ok(milli_value(item.at("value"))?),
            items => Err(FetchCustomMetricsError::ResultCount(items.len())),
        }
    }

    /// Values of an external metric, in milli-units.
    // upstream: pkg/controller/podautoscaler/metrics/client.go GetExternalMetric
    pub(super) async fn external(
        &self,
        namespace: &str,
        metric: &MetricIdentifier,
    ) -> Result<Vec<i64>, ExternalMetricsError> {
        let selector = selector(metric)?;
        let resource = Resource {
            plural: metric.name.clone().into(),
            ..Resource::new(
                EXTERNAL,
                "v1beta1",
                "",
                "ExternalMetricValue",
                ResourceScope::Namespaced,
            )
        };
        let parameters = ListParams::default().labels(&selector);
        let page: kube::Result<ListPage<Value>> =
            self.writer.list_page(&resource, namespace, &parameters).await;
        let page = page.map_err(|source| ExternalMetricsError::Fetch {
            metric: qualified(&metric.name, EXTERNAL),
            source,
        })?;
        if page.items.is_empty() {
            return Err(ExternalMetricsError::Empty);
        }
        let values = page.items.iter().map(|item| milli_value(item.at("value")));
        Ok(values.collect::<Result<_, _>>()?)
    }

    /// Resource requests of pods in milli-units, total or of one container.
    // upstream: pkg/controller/podautoscaler/replica_calculator.go calculateRequests
    pub(super) async fn requests(
        &self,
        namespace: &str,
        selector: &str,
        resource: &str,
        container: Option<&str>,
    ) -> Result<BTreeMap<String, i64>, PodRequestsError> {
        let parameters = ListParams::default().labels(selector);
        let page: kube::Result<ListPage<Value>> = self.writer.list_page(&PODS, namespace, &parameters).await;
        let page = page.map_err(PodRequestsError::List)?;
        let named = |pod: &Value| pod.at("metadata").text("name").to_owned();
        let asked = page
            .items
            .iter()
            .map(|pod| Ok((named(pod), request_of(pod, resource, container)?)));
        asked.collect()
    }

    async fn custom(
        &self,
        namespace: &str,
        way: &str,
        metric: &MetricIdentifier,
        pods: Option<&str>,
    ) -> Result<Vec<Value>, FetchCustomMetricsError> {
        let version = self.custom_version().await?;
        let query = query(pods.unwrap_or_default(), &selector(metric)?);
        let name = &metric.name;
        let mut path = format!("/apis/{CUSTOM}");
        let resource_and_object = way.splitn(2, '/');
        for segment in [version.as_str(), "namespaces", namespace]
            .into_iter()
            .chain(resource_and_object)
            .chain([name.as_str()])
        {
            push_segment(&mut path, segment);
        }
        let path = format!("{path}?{query}");
        let page: kube::Result<ListPage<Value>> = self.writer.get_path(&path, "application/json").await;
        page.map(|page| page.items).map_err(|source| {
            let (resource, object) = way.split_once('/').unwrap_or((way, name));
            let requested = format!("{} {object}", qualified(resource, CUSTOM));
            FetchCustomMetricsError::Request { requested, source }
        })
    }

    async fn custom_version(&self) -> Result<String, FetchCustomMetricsError> {
        let groups: Value = self
            .writer
            .get_path("/apis", "application/json")
            .await
            .map_err(FetchCustomMetricsError::Discovery)?;
        let mut groups = groups.items("groups").iter();
        let Some(group) = groups.find(|group| group.text("name") == CUSTOM) else {
            return Err(FetchCustomMetricsError::NotRegistered);
        };
        let preferred = [group.at("preferredVersion")].into_iter();
        let mut served = preferred
            .chain(group.items("versions"))
            .map(|version| version.text("version"));
        served
            .find(|version| CUSTOM_VERSIONS.contains(version))
            .map(str::to_owned)
            .ok_or(FetchCustomMetricsError::NoKnownVersion)
    }
}

fn query(pods: &str, metric: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let given = [("labelSelector", pods), ("metricLabelSelector", metric)];
    query.extend_pairs(given.into_iter().filter(|(_, selector)| !selector.is_empty()));
    query.finish()
}

/// The usage of a pod, if all its containers report it.
// upstream: pkg/controller/podautoscaler/metrics/client.go getPodMetrics, getContainerMetrics
fn usage_of(
    metrics: &Value,
    resource: &str,
    container: Option<&str>,
) -> Result<Option<MetricSample>, QuantityError> {
    let containers = metrics.items("containers").iter();
    let reported: Vec<_> = containers
        .filter(|reported| container.is_none_or(|name| reported.text("name") == name))
        .map(|reported| reported.at("usage").at(resource))
        .collect();
    if reported.is_empty() || reported.iter().any(|usage| usage.is_null()) {
        return Ok(None);
    }
    let mut value = 0;
    for usage in reported {
        value += milli_value(usage)?;
    }
    let window = metrics.text("window").parse::<k3_duration::Duration>();
    let window = window.map_or(0, |window| u64::try_from(window.nanos()).unwrap_or(0));
    Ok(Some(MetricSample {
        value,
        at: moment(metrics),
        window: Duration::from_nanos(window),
    }))
}

/// The request of a pod.
// upstream: pkg/controller/podautoscaler/replica_calculator.go calculatePodLevelRequests, calculatePodRequestsFromContainers
fn request_of(pod: &Value, resource: &str, container: Option<&str>) -> Result<i64, PodRequestsError> {
    let spec = pod.at("spec");
    let name = pod.at("metadata").text("name");
    let own = spec.at("resources").entries("requests");
    if container.is_none() && !own.is_empty() {
        // Pod-level requests take precedence over those of containers.
        return k3_api::kinds::pod_amounts::requests(spec)
            .get(resource)
            .map(Quantity::milli_value)
            .ok_or_else(|| PodRequestsError::NoPodRequest {
                resource: resource.to_owned(),
                pod: name.to_owned(),
            });
    }
    let sidecars = spec.items("initContainers").iter();
    let sidecars = sidecars.filter(|container| container.text("restartPolicy") == "Always");
    let mut meant = spec.items("containers").iter().chain(sidecars);
    let of = |container: &Value| {
        let request = container.at("resources").at("requests").at(resource);
        if request.is_null() {
            return Err(PodRequestsError::NoContainerRequest {
                resource: resource.to_owned(),
                container: container.text("name").to_owned(),
                pod: name.to_owned(),
            });
        }
        // An API server validates requests.
        Ok(milli_value(request).unwrap_or(0))
    };
    match container {
        Some(container) => meant
            .find(|one| one.text("name") == container)
            .ok_or_else(|| PodRequestsError::NoContainer {
                container: container.to_owned(),
                pod: name.to_owned(),
            })
            .and_then(of),
        None => meant.map(of).sum(),
    }
}

/// A value that is absent is zero. One that is not a quantity is an error: as zero it would scale the target down.
fn milli_value(value: &Value) -> Result<i64, QuantityError> {
    Quantity::from_value(value).map(|quantity| quantity.milli_value())
}

/// When a value was measured. Without a valid time it is too old to count for a pod that starts.
fn moment(item: &Value) -> Timestamp {
    item.text("timestamp").parse().unwrap_or_default()
}

/// The metric selector as text.
fn selector(metric: &MetricIdentifier) -> Result<String, FromObjectError> {
    let Some(selector) = &metric.selector else {
        return Ok(String::new());
    };
    let selector = label::from_object(Some(&json!(selector)))?;
    Ok(selector.to_string())
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// The server's message; for a plain 404 or 503 the one of client-go.
pub(super) fn client_go_message(error: &kube::Error, asked: &str) -> String {
    let kube::Error::Api(status) = error else {
        return error.to_string();
    };
    let is_plain = status.reason.is_empty() || status.reason.contains(' ');
    match status.code {
        404 if is_plain || status.message.is_empty() => {
            format!("the server could not find the requested resource (get {asked})")
        }
        503 if is_plain => format!("the server is currently unable to handle the request (get {asked})"),
        _ => status.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_container_usage() {
        let metrics = json!({
            "metadata": {"name": "p"}, "timestamp": "2026-01-01T00:00:00Z", "window": "1m30s",
            "containers": [{"name": "a", "usage": {"cpu": "100m", "memory": "1Ki"}}, {"name": "b", "usage": {"cpu": "1"}}],
        });
        let sample = |resource, container| usage_of(&metrics, resource, container).unwrap();
        let total = sample("cpu", None).unwrap();
        assert_eq!((total.value, total.window), (1100, Duration::from_secs(90)));
        assert_eq!(sample("cpu", Some("a")).unwrap().value, 100);
        assert_eq!(sample("memory", Some("a")).unwrap().value, 1_024_000);
        assert_eq!(sample("memory", None), None);
        assert_eq!(sample("cpu", Some("c")), None);
    }

    #[test]
    fn an_invalid_value_is_an_error_and_not_zero() {
        let metrics = json!({
            "containers": [{"name": "a", "usage": {"cpu": "100m"}}, {"name": "b", "usage": {"cpu": "much"}}],
        });
        assert!(usage_of(&metrics, "cpu", None).is_err());
        assert!(usage_of(&metrics, "cpu", Some("b")).is_err());
        assert_eq!(usage_of(&metrics, "cpu", Some("a")).unwrap().unwrap().value, 100);
    }

    #[test]
    fn sums_container_and_sidecar_requests() {
        let asks = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = asks("s", "300m");
        sidecar["restartPolicy"] = json!("Always");
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [asks("a", "1"), asks("b", "200m")], "initContainers": [asks("i", "9"), sidecar],
        }});
        let request = |pod: &Value, resource, container| {
            request_of(pod, resource, container).map_err(|error| error.to_string())
        };
        assert_eq!(request(&pod, "cpu", None), Ok(1500));
        assert_eq!(request(&pod, "cpu", Some("b")), Ok(200));
        assert_eq!(request(&pod, "cpu", Some("s")), Ok(300));
        assert_eq!(
            request(&pod, "cpu", Some("x")),
            Err("container x not found in Pod p".to_owned())
        );
        assert_eq!(
            request(&pod, "memory", None),
            Err("missing request for memory in container a of Pod p".to_owned())
        );
        pod["spec"]["resources"] = json!({"requests": {"cpu": "4"}});
        assert_eq!(request(&pod, "cpu", None), Ok(4000));
        assert_eq!(request(&pod, "cpu", Some("b")), Ok(200));
    }
}
