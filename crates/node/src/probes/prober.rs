//! Runs a probe once, with retries, and records events about failures.
// upstream: pkg/kubelet/prober/prober.go prober

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, Probe};
use kubecontroller::events::{EventRecorder, EventType};
use tokio::sync::watch;

use super::{ProbeType, ResolvePortError, http::HttpGetError, kinds::PROBE_KINDS, probe_kind::ProbeContext};
use crate::{
    identity::format_pod,
    runtime::{ContainerId, Runtime, RuntimeError},
};

/// Attempts to run a probe that ends in an error, as opposed to a failure.
const MAX_PROBE_RETRIES: usize = 3;

/// The result of one attempt, with its output.
// upstream: pkg/probe/probe.go Result
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAttempt {
    /// The container is healthy.
    Success(String),
    /// The container is healthy; the output is recorded as an event.
    Warning(String),
    /// The container is unhealthy, for this reason.
    Failure(String),
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeResult {
    Success,
    Failure,
}

/// Why a probe could not run, which is neither success nor failure. The message is recorded as an event.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    /// The port of the probe is unknown or invalid.
    #[error(transparent)]
    Port(#[from] ResolvePortError),
    /// The HTTP request is invalid, or its response is incomplete.
    #[error(transparent)]
    HttpGet(#[from] HttpGetError),
    /// The runtime is not reachable.
    #[error("no container runtime is reachable")]
    NoRuntime,
    /// The command could not be run in the container.
    #[error(transparent)]
    Exec(RuntimeError),
    /// The probe has no action.
    #[error("missing probe handler for {pod}:{container}")]
    MissingHandler { pod: String, container: String },
}

/// What to probe: one running container.
#[derive(Clone)]
pub(super) struct ProbeTarget {
    pub(super) pod: Arc<Pod>,
    pub(super) container: Arc<Container>,
    pub(super) id: ContainerId,
    /// Address of the pod.
    pub(super) address: String,
    pub(super) kind: ProbeType,
    pub(super) probe: Probe,
}

/// Runs probes.
#[derive(Clone)]
pub(super) struct Prober {
    pub(super) runtime: watch::Receiver<Option<Arc<dyn Runtime>>>,
    pub(super) recorder: EventRecorder,
}

// --- Prober ---

impl Prober {
    /// Probes a container and records an event unless it succeeds. `None` if the probe could not run.
    // upstream: pkg/kubelet/prober/prober.go probe
    pub(super) async fn probe(&self, target: &ProbeTarget) -> Option<ProbeResult> {
        let kind = target.kind;
        let (result, reason, message) = match self.run_probe_with_retries(target).await {
            Ok(ProbeAttempt::Success(_)) => return Some(ProbeResult::Success),
            Ok(ProbeAttempt::Warning(output)) => (
                Some(ProbeResult::Success),
                "ProbeWarning",
                format!("{kind} probe warning: {output}"),
            ),
            Ok(ProbeAttempt::Failure(output)) => {
                let message = format!("{kind} probe failed: {output}");
                (Some(ProbeResult::Failure), "Unhealthy", message)
            }
            Err(error) => (
                None,
                "Unhealthy",
                format!("{kind} probe errored and resulted in unknown state: {error}"),
            ),
        };
        self.recorder
            .event(&target.reference(), EventType::Warning, reason, "", message);
        result
    }

    /// Retries errors only: a failure is a result.
    // upstream: pkg/kubelet/prober/prober.go runProbeWithRetries
    async fn run_probe_with_retries(&self, target: &ProbeTarget) -> Result<ProbeAttempt, ProbeError> {
        for _ in 1..MAX_PROBE_RETRIES {
            if let Ok(attempt) = self.run_probe(target).await {
                return Ok(attempt);
            }
        }
        self.run_probe(target).await
    }

    // upstream: pkg/kubelet/prober/prober.go runProbe
    async fn run_probe(&self, target: &ProbeTarget) -> Result<ProbeAttempt, ProbeError> {
        let runtime = self.runtime.borrow().clone();
        let context = ProbeContext {
            target,
            runtime: runtime.as_deref(),
            limit: positive_seconds(target.probe.timeout_seconds, 1),
        };
        if let Some(attempt) = PROBE_KINDS.iter().find_map(|kind| kind.probe(context)) {
            return attempt.await;
        }
        Err(ProbeError::MissingHandler {
            pod: format_pod(&target.pod),
            container: target.container.name.clone(),
        })
    }
}

// --- ProbeTarget ---

impl ProbeTarget {
    /// Reference to the container, for events.
    fn reference(&self) -> ObjectReference {
        let meta = &self.pod.metadata;
        let mut regular = self.pod.spec.iter().flat_map(|spec| &spec.containers);
        let list = if regular.any(|container| container.name == self.container.name) {
            "containers"
        } else {
            "initContainers"
        };
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path: Some(format!("spec.{list}{{{}}}", self.container.name)),
        }
    }
}

/// A duration of the probe spec; `default` if it is not set or not positive.
pub(super) fn positive_seconds(field: Option<i32>, default: u64) -> Duration {
    let seconds = field
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0);
    Duration::from_secs(seconds.unwrap_or(default))
}
