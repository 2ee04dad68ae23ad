//! The context of a request for a resource: options, user, warnings, audit annotations, cancellation.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use k3_api::{kinds::KindRef, status::Status, strategy::User, time::Time};
use parking_lot::Mutex;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use crate::{
    http::{Format, NegotiatedMediaType},
    request::{Query, Target},
};

/// A request for a resource, with all that the verbs need of it.
pub(crate) struct RequestContext {
    /// What it is about.
    pub target: Target,
    /// The options in the URL.
    pub query: Query,
    /// Who asks.
    pub user: User,
    /// The program that asks.
    pub agent: String,
    /// The `Content-Type` of the body; empty if missing.
    pub media: String,
    pub body: Bytes,
    /// The form of the answer.
    pub accepted: NegotiatedMediaType,
    /// When the request was received.
    pub now: Time,
    /// When the client is answered at the latest; `None` for requests of the server itself, and for connections.
    pub deadline: Option<Instant>,
    /// Audit annotations added while the request is processed.
    pub notes: AuditAnnotations,
    /// Whether the answer is still wanted.
    pub cancellation: Cancellation,
    /// The memory that the body takes, of what there is for all bodies.
    #[expect(dead_code, reason = "it is held for as long as the body is")]
    pub body_memory: Option<OwnedSemaphorePermit>,
}

/// Whether the client of a request has left, or its time is over. A copy is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

/// Cancels a request when it is dropped.
pub(crate) struct CancelOnDrop(Cancellation);

/// Notes about a request for the audit log, by key. A copy is the same notes.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditAnnotations(Arc<Mutex<BTreeMap<String, String>>>);

/// Warnings for the response.
#[derive(Debug, Default)]
pub(crate) struct Warnings(pub Vec<String>);

// --- RequestContext ---

impl RequestContext {
    /// A request that the server makes itself: to create an object of a kind.
    pub(crate) fn own(kind: impl Into<KindRef>, namespace: &str, user: User, now: Time) -> Self {
        RequestContext {
            target: Target {
                kind: kind.into(),
                namespace: namespace.to_owned(),
                name: String::new(),
                subresource: None,
                watch: false,
            },
            query: Query::default(),
            user,
            agent: String::new(),
            media: String::new(),
            body: Bytes::new(),
            accepted: NegotiatedMediaType::default(),
            now,
            deadline: None,
            notes: AuditAnnotations::default(),
            cancellation: Cancellation::default(),
            body_memory: None,
        }
    }

    /// Returns an error after the client disconnected or the request timed out. Called between the stages of a request and between the objects of a list, and
    /// never after a write.
    pub(crate) fn check_cancelled(&self) -> Result<(), Status> {
        if self.cancellation.is_cancelled() {
            let why = "request did not complete within the allotted timeout";
            return Err(Status::timeout(why, 0));
        }
        Ok(())
    }

    /// How the body is written; `None` if it is nothing we read.
    pub(crate) fn format(&self) -> Option<Format> {
        Format::of_media(&self.media)
    }
}

// --- Cancellation ---

impl Cancellation {
    /// Cancels when what is returned is dropped.
    pub(crate) fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Relaxed);
    }
}

// --- AuditAnnotations ---

impl AuditAnnotations {
    /// Writes a note; the first one under a key stays.
    pub(crate) fn add(&self, key: &str, text: impl Into<String>) {
        let mut notes = self.0.lock();
        notes.entry(key.to_owned()).or_insert_with(|| text.into());
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        self.0.lock().clone()
    }
}
