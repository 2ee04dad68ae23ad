//! Pods: what is filled in, what may stand in them and change, and what a table shows.

pub(crate) mod resources;

use serde_json::Value;

use crate::{
    field::Path,
    rules::{Errors, Rules},
};

/// The rules of pods.
pub(crate) struct Pod;

impl Rules for Pod {}

/// Fills in what was left out of a pod template.
pub(crate) fn default_template(template: &mut Value) {
    let _ = template;
}

/// Fills in what was left out of the spec of a pod or of a template.
pub(crate) fn default_spec(spec: &mut Value) {
    let _ = spec;
}

/// What is wrong with a pod template.
pub(crate) fn validate_template(template: &Value, at: &Path<'_>, errors: &mut Errors) {
    let _ = (template, at, errors);
}

/// What the user should be told about a valid pod template.
pub(crate) fn template_warnings(template: &Value, at: &Path<'_>, old: Option<&Value>) -> Vec<String> {
    let _ = (template, at, old);
    Vec::new()
}
