//! The kinds of the `authentication.k8s.io` group, one file per kind.

mod token_request;
pub mod token_review;

use crate::rules::Rules;

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "TokenRequest" => &token_request::TokenRequest,
        _ => return None,
    })
}
