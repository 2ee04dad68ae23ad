//! The kinds of the `admissionregistration.k8s.io` group.
//!
//! Webhooks of both sorts, policies of both sorts and bindings of both sorts share most of their rules; what they have
//! in common stands in a file named after it.

mod binding;
mod expression;
mod json_path;
mod matching;
mod policy;
mod reserved;
mod rule;
mod webhook;

use crate::rules::Rules;

/// What admission does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// Changes it.
    Mutating,
    /// Judges it.
    Validating,
}

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "MutatingAdmissionPolicy" => &policy::Policy(Sort::Mutating),
        "MutatingAdmissionPolicyBinding" => &binding::Binding(Sort::Mutating),
        "MutatingWebhookConfiguration" => &webhook::Configuration(Sort::Mutating),
        "ValidatingAdmissionPolicy" => &policy::Policy(Sort::Validating),
        "ValidatingAdmissionPolicyBinding" => &binding::Binding(Sort::Validating),
        "ValidatingWebhookConfiguration" => &webhook::Configuration(Sort::Validating),
        _ => return None,
    })
}
