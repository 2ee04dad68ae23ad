//! The kinds of the `admissionregistration.k8s.io` group.
//!
//! The mutating and validating variants of webhooks, policies and bindings share most of their rules; shared parts have a file of
//! their own.

mod binding;
mod expression;
mod matching;
mod policy;
mod rule;
mod static_suffix;
mod webhook;

use crate::strategy::RestStrategy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdmissionType {
    /// Mutating admission.
    Mutating,
    /// Validating admission.
    Validating,
}

/// The strategy of a kind of this group.
// upstream: pkg/registry/admissionregistration/rest/storage_apiserver.go RESTStorageProvider
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "MutatingAdmissionPolicy" => &policy::AdmissionPolicy(AdmissionType::Mutating),
        "MutatingAdmissionPolicyBinding" => &binding::AdmissionPolicyBinding(AdmissionType::Mutating),
        "MutatingWebhookConfiguration" => &webhook::WebhookConfiguration(AdmissionType::Mutating),
        "ValidatingAdmissionPolicy" => &policy::AdmissionPolicy(AdmissionType::Validating),
        "ValidatingAdmissionPolicyBinding" => &binding::AdmissionPolicyBinding(AdmissionType::Validating),
        "ValidatingWebhookConfiguration" => &webhook::WebhookConfiguration(AdmissionType::Validating),
        _ => return None,
    })
}
