//! The kinds of the `apiregistration.k8s.io` group, one file per kind.

mod api_service;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    (kind == "APIService").then_some(&api_service::ApiService as &dyn RestStrategy)
}
