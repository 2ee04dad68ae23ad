//! Pods: what is filled in, what may stand in them and change, and what a table shows.

use serde_json::Value;

use crate::{
    field::{Path, Shown},
    go,
    rules::Errors,
};

/// The rules that are relaxed. By default, none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options;

impl Options {
    /// What the old template has, the new one may have.
    pub(crate) fn template_update(old: &Value) -> Self {
        let _ = old;
        Options
    }
}

/// Fills in what was left out of a pod template.
pub(crate) fn default_template(template: &mut Value) {
    let _ = template;
}

/// Drops what is not offered from a pod template; `old` is `null` if it is new.
pub(crate) fn drop_from_template(template: &mut Value, old: &Value) {
    let _ = (template, old);
}

/// What is wrong with a pod template; `options` says which rules are relaxed for an update.
pub(crate) fn validate_template_with(
    template: &Value,
    options: &Options,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let _ = (template, options, at, errors);
}

/// What the user should be told about a valid pod template.
pub(crate) fn template_warnings(template: &Value, at: &Path<'_>, old: Option<&Value>) -> Vec<String> {
    let _ = (template, at, old);
    Vec::new()
}

/// An object of a type as errors show it, in one line.
pub(crate) fn shown(ty: &str, value: &Value) -> Shown {
    let _ = ty;
    Shown::Printed(go::json(value))
}

/// Names and amounts of resources.
pub(crate) mod resources {
    use crate::{field::Path, rules::Errors};

    /// What is wrong with the name of a resource a container asks for.
    pub(crate) fn validate_container_name(resource: &str, at: &Path<'_>, errors: &mut Errors) {
        let _ = (resource, at, errors);
    }
}
