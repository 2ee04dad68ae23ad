//! What wakes the agent when something changes.
//!
//! A runtime with events tells them. Others do not know the call (containerd before 1.7) or end it at once without a word (CRI-O,
//! unless `enable_pod_events` is set): their lists are compared every second.

use std::{collections::HashMap, time::Duration};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::time::{Instant, interval_at, timeout};
use tonic::Streaming;

use crate::runtime::{Change, Owner, labels};

use super::{
    connection::Connection,
    failure::Failure,
    messages::{self, ContainerEventResponse, method},
};

/// How often lists are compared.
const RELIST: Duration = Duration::from_secs(1);

/// How long a runtime that has no events may take to end the call.
const SILENCE: Duration = Duration::from_millis(200);

/// The first event may be far away. Whether the runtime lives is found by listing.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// Changes until the connection ends.
pub(super) async fn stream(
    connection: &Connection,
    owner: &Owner,
    limit: Duration,
) -> Result<BoxStream<'static, Change>, Failure> {
    match events(connection, owner).await? {
        Some(events) => Ok(events),
        None => compared(connection.clone(), owner.clone(), limit).await,
    }
}

/// The runtime's own events, if it has them.
async fn events(
    connection: &Connection,
    owner: &Owner,
) -> Result<Option<BoxStream<'static, Change>>, Failure> {
    let connection = connection.clone();
    let owner = owner.clone();
    let mut call = Box::pin(async move {
        connection
            .stream(method::GET_CONTAINER_EVENTS, messages::Nothing {}, FOREVER)
            .await
    });
    let Ok(opened) = timeout(SILENCE, &mut call).await else {
        // Servers begin to answer with the first event: silence is what those that have events answer.
        let later = async move {
            call.await
                .map_or_else(|_| stream::empty().boxed(), |events| told(None, events, owner))
        };
        return Ok(Some(stream::once(later).flatten().boxed()));
    };
    let mut events: Streaming<ContainerEventResponse> = match opened {
        Ok(events) => events,
        Err(failure) if failure.is_unimplemented() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    match timeout(SILENCE, events.message()).await {
        Ok(Ok(Some(event))) => Ok(Some(told(Some(event), events, owner))),
        Ok(Ok(None)) => Ok(None),
        Ok(Err(status)) => match Failure::Status(Box::new(status)) {
            failure if failure.is_unimplemented() => Ok(None),
            failure => Err(failure),
        },
        Err(_) => Ok(Some(told(None, events, owner))),
    }
}

fn told(
    first: Option<ContainerEventResponse>,
    events: Streaming<ContainerEventResponse>,
    owner: Owner,
) -> BoxStream<'static, Change> {
    let later = events.take_while(|event| {
        let goes_on = event.is_ok();
        async move { goes_on }
    });
    stream::iter(first)
        .chain(later.filter_map(async |event| event.ok()))
        .filter_map(move |event| {
            let change = change(&event, &owner);
            async move { change }
        })
        .boxed()
}

/// What an event means for us; nothing if it is of somebody else's pod.
fn change(event: &ContainerEventResponse, owner: &Owner) -> Option<Change> {
    // The end of a sandbox comes without its status.
    let Some(sandbox) = &event.pod_sandbox_status else {
        return Some(Change::Any);
    };
    if !owner.owns(|name| sandbox.labels.get(name)) {
        return None;
    }
    let uid = sandbox.metadata.as_ref().map(|pod| pod.uid.clone());
    Some(uid.map_or(Change::Any, |uid| Change::Pod { uid }))
}

/// What differs between lists.
async fn compared(
    connection: Connection,
    owner: Owner,
    limit: Duration,
) -> Result<BoxStream<'static, Change>, Failure> {
    let first = snapshot(&connection, &owner, limit).await?;
    let ticks = interval_at(Instant::now() + RELIST, RELIST);
    let lists = stream::unfold((first, ticks), move |(before, mut ticks)| {
        let connection = connection.clone();
        let owner = owner.clone();
        async move {
            ticks.tick().await;
            // A runtime that cannot be asked ends the stream: whoever listens begins again, and lists.
            let now = snapshot(&connection, &owner, limit).await.ok()?;
            let changes = differences(&before, &now);
            Some((stream::iter(changes), (now, ticks)))
        }
    });
    Ok(lists.flatten().boxed())
}

/// The state and the pod of everything that is ours, by id.
type Snapshot = HashMap<String, (i32, String)>;

async fn snapshot(connection: &Connection, owner: &Owner, limit: Duration) -> Result<Snapshot, Failure> {
    let ours = || std::collections::BTreeMap::from([(labels::NODE.to_owned(), owner.node.clone())]);
    let containers = messages::ListContainersRequest {
        filter: Some(messages::ContainerFilter {
            label_selector: ours(),
            ..messages::ContainerFilter::default()
        }),
    };
    let sandboxes = messages::ListPodSandboxRequest {
        filter: Some(messages::PodSandboxFilter {
            label_selector: ours(),
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

/// The pods of which something came, went or changed its state; each once.
fn differences(before: &Snapshot, now: &Snapshot) -> Vec<Change> {
    let changed = now.iter().filter(|(id, state)| before.get(*id) != Some(state));
    let went = before.iter().filter(|(id, _)| !now.contains_key(*id));
    let mut uids: Vec<&String> = changed.chain(went).map(|(_, (_, uid))| uid).collect();
    uids.sort();
    uids.dedup();
    uids.into_iter()
        .map(|uid| match uid.as_str() {
            "" => Change::Any,
            uid => Change::Pod { uid: uid.to_owned() },
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

    fn pod(uid: &str) -> Change {
        Change::Pod { uid: uid.to_owned() }
    }

    #[test]
    fn what_came_went_or_changed_is_told_once_for_each_pod() {
        let before = snapshot(&[("a", 1, "p"), ("b", 1, "p"), ("c", 0, "q"), ("d", 1, "r")]);
        let now = snapshot(&[("a", 2, "p"), ("c", 0, "q"), ("e", 0, "s")]);
        assert_eq!(differences(&before, &now), [pod("p"), pod("r"), pod("s")]);
        assert!(differences(&now, &now).is_empty());
    }

    #[test]
    fn events_of_others_are_not_told() {
        let owner = Owner::new("n1", "cluster");
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
        assert_eq!(change(&event("n1"), &owner), Some(pod("u")));
        assert_eq!(change(&event("n2"), &owner), None);
        assert_eq!(
            change(&ContainerEventResponse::default(), &owner),
            Some(Change::Any)
        );
    }
}
