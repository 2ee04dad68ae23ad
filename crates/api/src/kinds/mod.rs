//! The built-in kinds: names, scope, verbs and subresources as data, and one file per kind with its defaulting, validation,
//! strategy and table columns.
//!
//! Promises: every resource of the stable API is here, in the order discovery lists them; a kind is found by
//! group, version and kind, or by group, version and resource.

mod admissionregistration;
pub(crate) mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
pub mod autoscaling;
mod batch;
mod certificates;
mod condition;
mod condition_status;
mod coordination;
pub(crate) mod core;
mod counts;
mod discovery;
mod events;
mod field_checks;
mod flowcontrol;
mod go_values;
mod immutable;
mod int_or_string;
mod kinds_table;
mod label_selector;
mod networking;
mod node;
mod pod_template;
mod policy;
mod rbac;
mod registry;
mod reset_fields;
mod resource;
mod scheduling;
mod status_meta;
mod storage;
mod storagemigration;
#[cfg(test)]
mod tests;
mod unified_diff;
pub(crate) mod url;
mod webhook_client;

use crate::strategy::RestStrategy;

pub use self::apiextensions::non_structural_schema_message;
pub(crate) use self::apiextensions::{GoRegexpError, go_regexp_error, resolve_field_path};
pub use self::{
    apiextensions::{get_api_approval_state, is_invalid_ca_bundle},
    authentication::token_review,
    certificates::{
        CertificateRequestInfo, SubjectAltNameKind, certificate_not_after, parse_certificate_request,
    },
    core::{
        event,
        persistent_volume_claim::class_of as storage_class_of,
        pod::resources::{
            is_extended as is_extended_resource, requests as pod_requests, total as pod_amounts,
        },
        service,
    },
    registry::{Kind, KindRef, Persistence, Registry, Scope, Subresource, builtin},
};

/// The strategy of the kind that a subresource takes, if it is a kind of its own, as with `scale`, `token` and `eviction`.
pub fn strategy_of_subresource(part: &Subresource) -> Option<&'static dyn RestStrategy> {
    strategy(&part.group, &part.kind)
}

/// The strategy of a built-in kind, by group and name.
// upstream: pkg/controlplane/instance.go StorageProviders; each group lists its resources there
pub(crate) fn strategy(group: &str, kind: &str) -> Option<&'static dyn RestStrategy> {
    match group {
        "admissionregistration.k8s.io" => admissionregistration::strategy(kind),
        "apiextensions.k8s.io" => apiextensions::strategy(kind),
        "apiregistration.k8s.io" => apiregistration::strategy(kind),
        "apps" => apps::strategy(kind),
        "authentication.k8s.io" => authentication::strategy(kind),
        "authorization.k8s.io" => authorization::strategy(kind),
        "autoscaling" => autoscaling::strategy(kind),
        "batch" => batch::strategy(kind),
        "certificates.k8s.io" => certificates::strategy(kind),
        "coordination.k8s.io" => coordination::strategy(kind),
        "" => core::strategy(kind),
        "discovery.k8s.io" => discovery::strategy(kind),
        "events.k8s.io" => events::strategy(kind),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::strategy(kind),
        "networking.k8s.io" => networking::strategy(kind),
        "node.k8s.io" => node::strategy(kind),
        "policy" => policy::strategy(kind),
        "rbac.authorization.k8s.io" => rbac::strategy(kind),
        "resource.k8s.io" => resource::strategy(kind),
        "scheduling.k8s.io" => scheduling::strategy(kind),
        "storage.k8s.io" => storage::strategy(kind),
        "storagemigration.k8s.io" => storagemigration::strategy(kind),
        _ => None,
    }
}
