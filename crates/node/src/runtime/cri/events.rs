//! Events of sandboxes and containers.
// upstream: pkg/kubelet/pleg/evented.go EventedPLEG
//!
//! `GetContainerEvents` is unknown to older runtimes (containerd before 1.7), and others end the call at once without an error (CRI-O
//! without `enable_pod_events`): there, lists are compared every second, like the kubelet's generic PLEG.

use std::{collections::HashMap, time::Duration};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::time::{Instant, interval_at, timeout};
use tonic::Streaming;

use crate::runtime::{ContainerOwner, PodLifecycleEvent, labels};

use super::{
    connection::CriConnection,
    error::CriError,
    messages::{self, ContainerEventResponse, method},
};

/// Interval of comparing lists.
const RELIST_PERIOD: Duration = Duration::from_secs(1);

/// Time within which a runtime without events ends the call.
const EVENTS_PROBE: Duration = Duration::from_millis(200);

/// The first event may take arbitrarily long. Listing detects a dead runtime.
const NO_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// Returns events until the connection ends.
pub(super) async fn stream(
    connection: &CriConnection,
    owner: &ContainerOwner,
    limit: Duration,
) -> Result<BoxStream<'static, PodLifecycleEvent>, CriError> {
    match events(connection, owner).await? {
        Some(events) => Ok(events),
        None => compare_lists(connection.clone(), owner.clone(), limit).await,
    }
}

/// Subscribes to the runtime's events; `None` if it has none.
async fn events(
    connection: &CriConnection,
    owner: &ContainerOwner,
) -> Result<Option<BoxStream<'static, PodLifecycleEvent>>, CriError> {
    let connection = connection.clone();
    let owner = owner.clone();
    let mut call = Box::pin(async move {
        connection
            .stream(method::GET_CONTAINER_EVENTS, messages::Empty {}, NO_TIMEOUT)
            .await
    });
    let Ok(opened) = timeout(EVENTS_PROBE, &mut call).await else {
        // gRPC servers send response headers with the first event: silence means that the runtime has events.
        let later_events = async move {
            call.await.map_or_else(
                |_| stream::empty().boxed(),
                |events| convert_events(None, events, owner),
            )
        };
        return Ok(Some(stream::once(later_events).flatten().boxed()));
    };
    let mut events: Streaming<ContainerEventResponse> = match opened {
        Ok(events) => events,
        Err(error) if error.is_unimplemented() => return Ok(None),
        Err(error) => return Err(error),
    };
    match timeout(EVENTS_PROBE, events.message()).await {
        Ok(Ok(Some(event))) => Ok(Some(convert_events(Some(event), events, owner))),
        Ok(Ok(None)) => Ok(None),
        Ok(Err(status)) => match CriError::Status(Box::new(status)) {
            error if error.is_unimplemented() => Ok(None),
            error => Err(error),
        },
        Err(_) => Ok(Some(convert_events(None, events, owner))),
    }
}

fn convert_events(
    first: Option<ContainerEventResponse>,
    events: Streaming<ContainerEventResponse>,
    owner: ContainerOwner,
) -> BoxStream<'static, PodLifecycleEvent> {
    let later_events = events.take_while(|event| {
        let is_ok = event.is_ok();
        async move { is_ok }
    });
    stream::iter(first)
        .chain(later_events.filter_map(async |event| event.ok()))
        .filter_map(move |event| {
            let lifecycle_event = to_pod_lifecycle_event(&event, &owner);
            async move { lifecycle_event }
        })
        .boxed()
}

/// Converts an event; `None` for pods of other owners.
fn to_pod_lifecycle_event(
    event: &ContainerEventResponse,
    owner: &ContainerOwner,
) -> Option<PodLifecycleEvent> {
    // Events of a stopped sandbox lack its status.
    let Some(sandbox) = &event.pod_sandbox_status else {
        return Some(PodLifecycleEvent::Any);
    };
    if !owner.owns(|name| sandbox.labels.get(name)) {
        return None;
    }
    let uid = sandbox.metadata.as_ref().map(|pod| pod.uid.clone());
    Some(uid.map_or(PodLifecycleEvent::Any, |uid| PodLifecycleEvent::Pod { uid }))
}

/// Returns the differences between successive lists.
async fn compare_lists(
    connection: CriConnection,
    owner: ContainerOwner,
    limit: Duration,
) -> Result<BoxStream<'static, PodLifecycleEvent>, CriError> {
    let first = snapshot(&connection, &owner, limit).await?;
    let ticks = interval_at(Instant::now() + RELIST_PERIOD, RELIST_PERIOD);
    let lists = stream::unfold((first, ticks), move |(before, mut ticks)| {
        let connection = connection.clone();
        let owner = owner.clone();
        async move {
            ticks.tick().await;
            // An error ends the stream: the caller subscribes again, and lists.
            let now = snapshot(&connection, &owner, limit).await.ok()?;
            let changes = differences(&before, &now);
            Some((stream::iter(changes), (now, ticks)))
        }
    });
    Ok(lists.flatten().boxed())
}

/// State and pod UID of all owned sandboxes and containers, by ID.
type Snapshot = HashMap<String, (i32, String)>;

async fn snapshot(
    connection: &CriConnection,
    owner: &ContainerOwner,
    limit: Duration,
) -> Result<Snapshot, CriError> {
    let node_selector = || std::collections::BTreeMap::from([(labels::NODE.to_owned(), owner.node.clone())]);
    let containers = messages::ListContainersRequest {
        filter: Some(messages::ContainerFilter {
            label_selector: node_selector(),
            ..messages::ContainerFilter::default()
        }),
    };
    let sandboxes = messages::ListPodSandboxRequest {
        filter: Some(messages::PodSandboxFilter {
            label_selector: node_selector(),
            ..messages::PodSandboxFilter::default()
        }),
    };
    let containers: messages::ListContainersResponse = connection
        .call(method::LIST_CONTAINERS, containers, limit)
        .await?;
    let sandboxes: messages::ListPodSandboxResponse = connection
        .call(method::LIST_POD_SANDBOX, sandboxes, limit)
        .await?;
    let uid = |labels: std::collections::BTreeMap<String, String>| {
        labels.get(labels::POD_UID).cloned().unwrap_or_default()
    };
    let containers = containers
        .containers
        .into_iter()
        .filter(|container| owner.owns(|name| container.labels.get(name)))
        .map(|container| (container.id, (container.state, uid(container.labels))));
    let sandboxes = sandboxes
        .items
        .into_iter()
        .filter(|sandbox| owner.owns(|name| sandbox.labels.get(name)))
        .map(|sandbox| (sandbox.id, (sandbox.state, uid(sandbox.labels))));
    Ok(containers.chain(sandboxes).collect())
}

/// Returns one event for each pod with an added, removed or changed sandbox or container.
// upstream: pkg/kubelet/pleg/generic.go GenericPLEG, computeEvents
fn differences(before: &Snapshot, now: &Snapshot) -> Vec<PodLifecycleEvent> {
    let changed = now.iter().filter(|(id, state)| before.get(*id) != Some(state));
    let removed = before.iter().filter(|(id, _)| !now.contains_key(*id));
    let mut uids: Vec<&String> = changed.chain(removed).map(|(_, (_, uid))| uid).collect();
    uids.sort();
    uids.dedup();
    uids.into_iter()
        .map(|uid| match uid.as_str() {
            "" => PodLifecycleEvent::Any,
            uid => PodLifecycleEvent::Pod { uid: uid.to_owned() },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(of: &[(&str, i32, &str)]) -> Snapshot {
        of.iter()
            .map(|(id, state, uid)| ((*id).to_owned(), (*state, (*uid).to_owned())))
            .collect()
    }

    fn pod(uid: &str) -> PodLifecycleEvent {
        PodLifecycleEvent::Pod { uid: uid.to_owned() }
    }

    #[test]
    fn reports_each_changed_pod_once() {
        let before = snapshot(&[("a", 1, "p"), ("b", 1, "p"), ("c", 0, "q"), ("d", 1, "r")]);
        let now = snapshot(&[("a", 2, "p"), ("c", 0, "q"), ("e", 0, "s")]);
        assert_eq!(differences(&before, &now), [pod("p"), pod("r"), pod("s")]);
        assert!(differences(&now, &now).is_empty());
    }

    #[test]
    fn ignores_events_of_other_owners() {
        let owner = ContainerOwner::new("n1", "cluster");
        let event = |node: &str| ContainerEventResponse {
            pod_sandbox_status: Some(messages::PodSandboxStatus {
                metadata: Some(messages::PodSandboxMetadata {
                    uid: "u".to_owned(),
                    ..messages::PodSandboxMetadata::default()
                }),
                labels: [
                    (labels::NODE.to_owned(), node.to_owned()),
                    (labels::CLUSTER.to_owned(), "cluster".to_owned()),
                ]
                .into(),
                ..messages::PodSandboxStatus::default()
            }),
            ..ContainerEventResponse::default()
        };
        assert_eq!(to_pod_lifecycle_event(&event("n1"), &owner), Some(pod("u")));
        assert_eq!(to_pod_lifecycle_event(&event("n2"), &owner), None);
        assert_eq!(
            to_pod_lifecycle_event(&ContainerEventResponse::default(), &owner),
            Some(PodLifecycleEvent::Any)
        );
    }
}
