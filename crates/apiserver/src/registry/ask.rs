//! A request for a resource.

use bytes::Bytes;
use k3_api::{rules::User, time::Time};

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
}

/// An answer in the making: what the client is told besides.
#[derive(Debug, Default)]
pub(crate) struct Warnings(pub Vec<String>);

// --- Ask ---

impl Ask {
    /// How the body is written; `None` if it is nothing we read.
    pub(crate) fn format(&self) -> Option<Format> {
        Format::of_media(&self.media)
    }
}
