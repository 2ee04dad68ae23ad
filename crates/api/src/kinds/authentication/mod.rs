//! The kinds of the `authentication.k8s.io` group, a file each.

mod token_request;
pub mod token_review;

use crate::strategy::RestStrategy;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "TokenRequest" => &token_request::TokenRequest,
        _ => return None,
    })
}
