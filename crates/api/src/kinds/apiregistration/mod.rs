//! The kinds of the `apiregistration.k8s.io` group, a file each.

mod api_service;

use crate::strategy::RestStrategy;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    (kind == "APIService").then_some(&api_service::ApiService as &dyn RestStrategy)
}
