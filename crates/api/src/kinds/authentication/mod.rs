//! The kinds of the `authentication.k8s.io` group, one file per kind.

mod token_request;
pub mod token_review;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "TokenRequest" => &token_request::TokenRequest,
        _ => return None,
    })
}
