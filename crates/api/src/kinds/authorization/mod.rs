//! The kinds of the `authorization.k8s.io` group: questions about who may do what.

mod review;

use crate::strategy::RestStrategy;

/// The rules of a kind of this group. Nothing is asked of a `SelfSubjectRulesReview` but a namespace, and who answers
/// it looks for that.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "LocalSubjectAccessReview" => &review::Review::Local,
        "SelfSubjectAccessReview" => &review::Review::Own,
        "SubjectAccessReview" => &review::Review::Any,
        _ => return None,
    })
}
