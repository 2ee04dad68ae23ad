//! A watch of etcd that returns complete revisions.

use tokio::time::timeout_at;
use tonic::{Status, Streaming};

use super::{
    connection::{WatchOrigin, WatchStream},
    failure::EtcdFailure,
    keyspace::{KeySpan, Keyspace, Role},
    messages::{WatchCreateRequest, WatchEvent, WatchEventKind, WatchResponse},
    session::EtcdSession,
    state::EtcdStoreState,
};
use crate::{Change, Event, Key};

/// A watch of a key range from a revision on.
pub(super) struct EtcdWatcher {
    responses: Streaming<WatchResponse>,
    origin: WatchOrigin,
    /// The etcd revision at the start of the watch.
    pub(super) began_at: i64,
    /// Everything up to here has been returned from `next`.
    after: i64,
    /// The events of a fragmented response that is not complete yet.
    parts: Vec<WatchEvent>,
}

/// The events up to a revision.
pub(super) struct WatchDelivery {
    /// In the order of their revisions, each of which is whole. May be empty.
    pub(super) events: Vec<WatchEvent>,
    /// The etcd revision up to which the events are complete.
    pub(super) upto: i64,
}

/// Why a watch ended.
#[derive(Debug)]
pub(super) enum EtcdWatchError {
    /// The start revision was compacted; contains the compacted revision.
    Compacted(i64),
    /// The member that served it failed or disconnected.
    Lost(EtcdFailure),
}

// --- EtcdWatcher ---

impl EtcdWatcher {
    /// Starts a watch after an etcd revision.
    pub(super) async fn open(
        session: &EtcdSession,
        span: KeySpan,
        after: i64,
    ) -> Result<Self, EtcdWatchError> {
        let create = WatchCreateRequest {
            key: span.start,
            range_end: span.end,
            start_revision: after + 1,
            progress_notify: true,
            fragment: true,
        };
        let WatchStream { responses, origin } = session
            .connection
            .watch(create)
            .await
            .map_err(EtcdWatchError::Lost)?;
        let mut watcher = Self {
            responses,
            origin,
            began_at: 0,
            after,
            parts: Vec::new(),
        };
        match timeout_at(session.deadline(), watcher.receive(session)).await {
            Ok(response) => watcher.began_at = revision(&response?),
            Err(_) => return Err(watcher.lost(session, EtcdFailure::late())),
        }
        Ok(watcher)
    }

    /// Waits for the next batch. Cancel safe.
    pub(super) async fn next(&mut self, session: &EtcdSession) -> Result<WatchDelivery, EtcdWatchError> {
        loop {
            let response = self.receive(session).await?;
            if let Some(delivery) = self.take(response) {
                return Ok(delivery);
            }
        }
    }

    async fn receive(&mut self, session: &EtcdSession) -> Result<WatchResponse, EtcdWatchError> {
        let message = tokio::select! {
            message = self.responses.message() => message,
            () = session.connection.left(&self.origin) => {
                Err(Status::unavailable("the member that served the watch does not answer requests"))
            }
        };
        match message {
            Ok(Some(response)) if response.canceled => Err(self.canceled(session, response).await),
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(self.lost(
                session,
                EtcdFailure::Unknown(Status::unavailable("etcd ended the watch")),
            )),
            Err(status) => Err(self.lost(session, EtcdFailure::new(status))),
        }
    }

    /// Joins the fragments of a response.
    fn take(&mut self, response: WatchResponse) -> Option<WatchDelivery> {
        // An empty response reports how far an idle watch has arrived. It arrives by itself, every ten minutes,
        // and in line with the events: unlike the answer to a progress request it can be trusted.
        let progress = response.events.is_empty() && self.parts.is_empty() && !response.created;
        let reached = revision(&response);
        self.parts.extend(response.events);
        if response.fragment {
            return None;
        }
        let mut events = std::mem::take(&mut self.parts);
        let upto = match events.last() {
            Some(last) => written(last),
            None if progress => reached,
            None => return None,
        };
        if upto <= self.after {
            return None;
        }
        events.retain(|event| written(event) > self.after);
        self.after = upto;
        Some(WatchDelivery { events, upto })
    }

    async fn canceled(&self, session: &EtcdSession, response: WatchResponse) -> EtcdWatchError {
        if response.compact_revision > 0 {
            return EtcdWatchError::Compacted(response.compact_revision);
        }
        // etcd reports "permission denied" also for expired tokens.
        session.connection.discard(&self.origin).await;
        let reason = format!("etcd canceled the watch: {}", response.cancel_reason);
        EtcdWatchError::Lost(EtcdFailure::Unknown(Status::unavailable(reason)))
    }

    fn lost(&self, session: &EtcdSession, failure: EtcdFailure) -> EtcdWatchError {
        session.connection.leave(&self.origin);
        EtcdWatchError::Lost(failure)
    }
}

/// The event of the store that an event of etcd is; `None` for one that is not about an entry.
pub(super) fn event(keys: &Keyspace, state: &EtcdStoreState, event: WatchEvent) -> Option<Event> {
    let kind = event.kind();
    let kv = event.kv?;
    let Role::Entry(name) = keys.role(&kv.key) else {
        return None;
    };
    let Ok(key) = Key::try_new(name) else {
        tracing::warn!(
            name,
            "a key in etcd was not written by this program, and is ignored"
        );
        return None;
    };
    let change = match kind {
        WatchEventKind::Delete => Change::Deleted,
        WatchEventKind::Put if kv.version == 1 => Change::Created(kv.value.into()),
        WatchEventKind::Put => Change::Updated(kv.value.into()),
    };
    Some(Event {
        revision: state.revision(kv.mod_revision),
        key,
        change,
    })
}

fn revision(response: &WatchResponse) -> i64 {
    response.header.as_ref().map_or(0, |header| header.revision)
}

fn written(event: &WatchEvent) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}
