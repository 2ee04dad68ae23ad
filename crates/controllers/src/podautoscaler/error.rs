//! Errors of the autoscaler. Their texts are those of upstream's events and conditions.

use k3_api::{go, quantity::ParseError as QuantityError, selector::label};
use kubecontroller::writer::error_message;

use super::metrics_client::{CUSTOM, client_go_message};

// upstream: pkg/controller/podautoscaler/horizontal.go HorizontalController; texts of events and conditions
/// No resource has a kind.
#[derive(Debug, thiserror::Error)]
pub(super) enum FindResourceError {
    #[error("unexpected GroupVersion string: {0}")]
    GroupVersion(String),
    #[error("{}", error_message(.0))]
    Discovery(#[source] kube::Error),
    #[error("no matches for kind {} in group {}", go::quote(kind), go::quote(group))]
    NoMatch { kind: String, group: String },
}

/// The target of an autoscaler was not found.
#[derive(Debug, thiserror::Error)]
pub(super) enum FindTargetError {
    #[error(transparent)]
    Resource(#[from] FindResourceError),
    #[error("could not find scale subresource for {0} in discovery information")]
    NoScale(String),
    #[error("{}", error_message(.0))]
    GetScale(#[source] kube::Error),
}

/// The pods of a target cannot be selected.
#[derive(Debug, thiserror::Error)]
pub(super) enum SelectPodsError {
    #[error("selector is required")]
    Missing,
    #[error("couldn't convert selector into a corresponding internal selector object: {0}")]
    Invalid(#[from] label::ParseError),
    #[error("pods by selector {selector} are controlled by more than one HPA (e.g. [{autoscalers}])")]
    Ambiguous {
        selector: String,
        /// The names of two of them.
        autoscalers: String,
    },
}

/// The resource metrics API has no usage of pods.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResourceMetricsError {
    #[error("unable to fetch metrics from resource metrics API: {}", client_go_message(.0, "pods.metrics.k8s.io"))]
    Fetch(#[source] kube::Error),
    #[error("unable to fetch metrics from resource metrics API: {0}")]
    Quantity(#[from] QuantityError),
    #[error("no metrics returned from resource metrics API")]
    Empty,
}

/// The custom metrics API has no values.
#[derive(Debug, thiserror::Error)]
pub(super) enum CustomMetricsError {
    #[error("unable to fetch metrics from custom metrics API: {0}")]
    Fetch(#[from] FetchCustomMetricsError),
    #[error("no metrics returned from custom metrics API")]
    Empty,
}

/// A request to the custom metrics API failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchCustomMetricsError {
    #[error("{}", error_message(.0))]
    Discovery(#[source] kube::Error),
    #[error("no custom metrics API ({CUSTOM}) registered")]
    NotRegistered,
    #[error("no known available metric versions found")]
    NoKnownVersion,
    #[error(transparent)]
    Selector(#[from] label::FromObjectError),
    #[error("unable to map kind {kind} to resource: {source}")]
    MapKind { kind: String, source: FindResourceError },
    #[error("{}", client_go_message(source, requested))]
    Request {
        /// The resource and the object of client-go's message.
        requested: String,
        source: kube::Error,
    },
    #[error("the custom metrics API server returned {0} results when we asked for exactly one")]
    ResultCount(usize),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
}

/// The external metrics API has no values.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExternalMetricsError {
    #[error(transparent)]
    Selector(#[from] label::FromObjectError),
    #[error(
        "unable to fetch metrics from external metrics API: {}",
        client_go_message(source, metric)
    )]
    Fetch { metric: String, source: kube::Error },
    #[error("unable to fetch metrics from external metrics API: {0}")]
    Quantity(#[from] QuantityError),
    #[error("no metrics returned from external metrics API")]
    Empty,
}

/// The resource requests of pods are unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum PodRequestsError {
    #[error("unable to get pods while calculating replica count: {}", error_message(.0))]
    List(#[source] kube::Error),
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    NoPodRequest { resource: String, pod: String },
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    NoContainerRequest {
        resource: String,
        container: String,
        pod: String,
    },
    #[error("container {container} not found in Pod {pod}")]
    NoContainer { container: String, pod: String },
}

/// Samples do not lead to a number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReplicaCountError {
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    #[error("unable to calculate ready pods: no pods returned by selector while calculating replica count")]
    NoReadyPods,
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoSamples,
    #[error("no metrics returned matched known pods")]
    UnknownPods,
}

/// A resource metric has no recommendation.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResourceProposalError {
    #[error("failed to get {resource} usage: {source}")]
    Usage {
        resource: String,
        source: ResourceReplicasError,
    },
    #[error("failed to get {resource} utilization: {source}")]
    Utilization {
        resource: String,
        source: ResourceReplicasError,
    },
    #[error(
        "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"
    )]
    NoTarget,
}

/// The replicas for a resource metric cannot be computed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResourceReplicasError {
    #[error("unable to get metrics for resource {resource}: {source}")]
    Metrics {
        resource: String,
        source: ResourceMetricsError,
    },
    #[error(transparent)]
    Requests(#[from] PodRequestsError),
    #[error(transparent)]
    Count(#[from] ReplicaCountError),
}

/// A metric of pods has no recommendation.
#[derive(Debug, thiserror::Error)]
pub(super) enum PodsProposalError {
    #[error("unable to get metric {metric}: {source}")]
    Metrics {
        metric: String,
        source: CustomMetricsError,
    },
    #[error(transparent)]
    Count(#[from] ReplicaCountError),
}

/// A metric of an object has no recommendation.
#[derive(Debug, thiserror::Error)]
pub(super) enum ObjectProposalError {
    #[error("unable to get metric {metric} on {object}: {source}")]
    Metrics {
        metric: String,
        /// Kind, namespace and name.
        object: String,
        source: CustomMetricsError,
    },
    #[error(transparent)]
    Count(#[from] ReplicaCountError),
    #[error("invalid object metric source: neither a value target nor an average value target was set")]
    NoTarget,
}

/// An external metric has no recommendation.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExternalProposalError {
    #[error("unable to get external metric {metric}: {source}")]
    Metrics {
        /// Namespace, name and selector.
        metric: String,
        source: ExternalMetricsError,
    },
    #[error(transparent)]
    Count(#[from] ReplicaCountError),
    #[error("invalid external metric source: neither a value target nor an average value target was set")]
    NoTarget,
}
