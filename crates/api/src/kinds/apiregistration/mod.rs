//! The kinds of the `apiregistration.k8s.io` group, one file per kind.

mod api_service;

use crate::rules::Rules;

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    (kind == "APIService").then_some(&api_service::ApiService as &dyn Rules)
}
