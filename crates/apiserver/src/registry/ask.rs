//! A request for a resource.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use k3_api::{kinds::KindRef, rules::User, time::Time};

use crate::{
    http::{Accepted, Format},
    request::{Query, Target},
};

/// A request for a resource, with all that the verbs need of it.
pub(crate) struct Ask {
    /// What it is about.
    pub target: Target,
    /// The options in the URL.
    pub query: Query,
    /// Who asks.
    pub user: User,
    /// The program that asks.
    pub agent: String,
    /// How the body is written, as the client says; empty if it does not.
    pub media: String,
    /// The body.
    pub body: Bytes,
    /// The form of the answer.
    pub accepted: Accepted,
    /// When it came.
    pub now: Time,
    /// What the audit log is told of it besides, by those it passes.
    pub notes: Notes,
}

/// Notes about a request for the audit log, by key. A copy is the same notes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<BTreeMap<String, String>>>);

/// An answer in the making: what the client is told besides.
#[derive(Debug, Default)]
pub(crate) struct Warnings(pub Vec<String>);

// --- Ask ---

impl Ask {
    /// A request that the server makes itself: to create an object of a kind.
    pub(crate) fn own(kind: impl Into<KindRef>, namespace: &str, user: User, now: Time) -> Self {
        Ask {
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
            accepted: Accepted::default(),
            now,
            notes: Notes::default(),
        }
    }

    /// How the body is written; `None` if it is nothing we read.
    pub(crate) fn format(&self) -> Option<Format> {
        Format::of_media(&self.media)
    }
}

// --- Notes ---

impl Notes {
    /// Writes a note; the first one under a key stays.
    pub(crate) fn add(&self, key: &str, text: impl Into<String>) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.entry(key.to_owned()).or_insert_with(|| text.into());
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
