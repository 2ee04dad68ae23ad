//! One look at a container, of any kind, and what is told of it.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, Probe};
use kubecontroller::events::{EventRecorder, EventType};
use tokio::sync::watch;

use super::{ProbeKind, exec, grpc, http, port, tcp};
use crate::runtime::{ContainerId, Runtime};

/// How often a look is tried that could not be done.
const TRIES: usize = 3;

/// What one look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is well, and said this.
    Well(String),
    /// It is well, but users should know this.
    Warning(String),
    /// It is not well, because of this.
    Unwell(String),
}

/// What is looked at: one run of a container.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) pod: Arc<Pod>,
    pub(super) container: Arc<Container>,
    pub(super) id: ContainerId,
    /// The address of its pod.
    pub(super) address: String,
    pub(super) kind: ProbeKind,
    pub(super) probe: Probe,
}

/// What looks are done with.
#[derive(Clone)]
pub(super) struct Hands {
    pub(super) runtime: watch::Receiver<Option<Arc<dyn Runtime>>>,
    pub(super) recorder: EventRecorder,
}

// --- Subject ---

impl Subject {
    /// Looks once, and tells what is not well. `None` if it could not look.
    pub(super) async fn look(&self, hands: &Hands) -> Option<bool> {
        let mut found = Err(String::new());
        for _ in 0..TRIES {
            found = self.try_to_look(hands).await;
            if found.is_ok() {
                break;
            }
        }
        let kind = self.kind;
        let (well, reason, words) = match found {
            Ok(Found::Well(_)) => return Some(true),
            Ok(Found::Warning(words)) => (
                Some(true),
                "ProbeWarning",
                format!("{kind} probe warning: {words}"),
            ),
            Ok(Found::Unwell(words)) => (Some(false), "Unhealthy", format!("{kind} probe failed: {words}")),
            Err(why) => (
                None,
                "Unhealthy",
                format!("{kind} probe errored and resulted in unknown state: {why}"),
            ),
        };
        hands
            .recorder
            .event(&self.reference(), EventType::Warning, reason, "", words);
        well
    }

    async fn try_to_look(&self, hands: &Hands) -> Result<Found, String> {
        let limit = seconds(self.probe.timeout_seconds, 1);
        let container = &self.container;
        if let Some(action) = &self.probe.exec {
            let runtime = hands.runtime.borrow().clone();
            let runtime = runtime.ok_or("no container runtime is reachable")?;
            return exec::look(&*runtime, &self.id, container, action, limit).await;
        }
        if let Some(action) = &self.probe.http_get {
            return http::get(action, container, &self.address, http::Purpose::Probe, limit).await;
        }
        if let Some(action) = &self.probe.tcp_socket {
            let port = port::number(&action.port, container)?;
            let host = action.host.as_deref().filter(|host| !host.is_empty());
            return Ok(tcp::look(host.unwrap_or(&self.address), port, limit).await);
        }
        if let Some(action) = &self.probe.grpc {
            let port =
                u16::try_from(action.port).map_err(|_| format!("invalid port number: {}", action.port))?;
            let service = action.service.as_deref().unwrap_or_default();
            return Ok(grpc::look(&self.address, port, service, limit).await);
        }
        let meta = &self.pod.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let name = text(&meta.name);
        let namespace = text(&meta.namespace);
        let uid = text(&meta.uid);
        Err(format!(
            "missing probe handler for {name}_{namespace}({uid}):{}",
            container.name
        ))
    }

    /// The container as events name it.
    fn reference(&self) -> ObjectReference {
        let meta = &self.pod.metadata;
        let regular = self.pod.spec.iter().flat_map(|spec| &spec.containers);
        let list = if regular.into_iter().any(|one| one.name == self.container.name) {
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

/// A time of a probe's spec, at least a second.
pub(super) fn seconds(field: Option<i32>, default: u64) -> Duration {
    let given = field
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0);
    Duration::from_secs(given.unwrap_or(default))
}

/// A time as Go writes it.
pub(super) fn length(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    let seconds = time.as_secs() % 60;
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}
