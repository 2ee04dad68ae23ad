//! Pods: what is filled in, what may stand in them and change, and what a table shows.

use serde_json::Value;

use crate::{field::Path, rules::Errors};

/// Fills in what was left out of a pod template.
pub(crate) fn default_template(template: &mut Value) {
    let _ = template;
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

/// Names and amounts of resources.
pub(crate) mod resources {
    use crate::{field::Path, rules::Errors};

    /// What is wrong with the name of a resource a container asks for.
    pub(crate) fn validate_container_name(resource: &str, at: &Path<'_>, errors: &mut Errors) {
        let _ = (resource, at, errors);
    }
}

/// Pods as messages show them.
pub(crate) mod internal {
    use serde_json::Value;

    use crate::{field::Shown, go};

    /// An object of a type as errors show it, in one line.
    pub(crate) fn shown(ty: &str, value: &Value) -> Shown {
        let _ = ty;
        Shown::Printed(go::json(value))
    }
}
