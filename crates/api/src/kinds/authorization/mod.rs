//! The kinds of the `authorization.k8s.io` group: access reviews.

mod review;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group. A `SelfSubjectRulesReview` has no validation here: its handler requires the namespace.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "LocalSubjectAccessReview" => &review::Review::Local,
        "SelfSubjectAccessReview" => &review::Review::Own,
        "SubjectAccessReview" => &review::Review::Any,
        _ => return None,
    })
}
