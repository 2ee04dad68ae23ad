//! The decision to run a pod on a node.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks::push_invalid,
    name,
    rules::{Circumstances, Errors, Rules, Tree},
};

pub(super) struct Binding;

impl Rules for Binding {
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
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
            push_invalid(node, name::dns1123_subdomain(node), &field_path, errors);
        }
    }
}
