//! The decision to run a pod on a node.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks::push_invalid,
    name,
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree},
};

pub(super) struct Binding;

impl RestStrategy for Binding {
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let target = object.at("target");
        let kind = target.text("kind");
        let node = target.text("name");
        let root = Path::new("target");
        let is_node = matches!(kind, "" | "Node");
        if !is_node {
            let field_path = root.child("kind");
            errors.push(Error::not_supported(&field_path, kind, ["Node", "<empty>"]));
        }
        let field_path = root.child("name");
        if node.is_empty() {
            errors.push(Error::required(&field_path, ""));
        } else if is_node {
            push_invalid(node, name::validate_dns1123_subdomain(node), &field_path, errors);
        }
    }
}
