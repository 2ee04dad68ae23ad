//! Subresources that are more than a part of their object.

use k3_api::status::Status;

use super::{Ask, Registry};
use crate::{http::Answer, server::Verb};

// --- Registry ---

impl Registry {
    /// Answers a request for a subresource; `None` if it is a part of its object like any other.
    pub(crate) async fn subresource(
        &self,
        ask: &Ask,
        name: &str,
        verb: Verb,
    ) -> Option<Result<Answer, Status>> {
        let _ = (ask, name, verb);
        None
    }
}
