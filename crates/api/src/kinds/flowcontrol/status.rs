//! Status strategy of FlowSchemas and PriorityLevelConfigurations.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree, TreeMut},
};

/// A write of the status changes only the status and managedFields.
// upstream: pkg/registry/flowcontrol/flowschema/strategy.go flowSchemaStatusStrategy
pub(super) fn prepare_status_for_update(new: &mut Value, old: &Value) {
    let metadata = new.at("metadata").clone();
    new.copy_from("spec", old);
    new.copy_from("metadata", old);
    new.ensure_object("metadata")
        .copy_from("managedFields", &metadata);
    new.ensure_object("metadata")
        .copy_from("resourceVersion", &metadata);
}

/// Each condition type may occur once.
// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchemaStatus, ValidatePriorityLevelConfigurationStatus
pub(super) fn validate_status_conditions(object: &Value, errors: &mut ErrorList) {
    let status = Path::new("status");
    let at = status.child("conditions");
    let conditions = object.at("status").items("conditions");
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let field_path = at.index(index);
        let field_path = field_path.child("type");
        let kind = condition.text("type");
        if !seen.insert(kind) {
            errors.push(Error::duplicate(&field_path, kind));
        }
        if kind.is_empty() {
            errors.push(Error::required(&field_path, ""));
        }
    }
}
