//! The decision to run a pod on a node.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::demand::tell,
    name,
    strategy::{StrategyContext, ErrorList, RestStrategy, Tree},
};

/// The rules of bindings.
pub(super) struct Binding;

impl RestStrategy for Binding {
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let target = object.at("target");
        let (kind, node) = (target.text("kind"), target.text("name"));
        let root = Path::new("target");
        let is_node = matches!(kind, "" | "Node");
        if !is_node {
            let place = root.child("kind");
            errors.push(Error::not_supported(&place, kind, ["Node", "<empty>"]));
        }
        let place = root.child("name");
        if node.is_empty() {
            errors.push(Error::required(&place, ""));
        } else if is_node {
            tell(node, name::validate_dns1123_subdomain(node), &place, errors);
        }
    }
}
