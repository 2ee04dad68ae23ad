//! StorageVersionMigration: asks to rewrite all stored objects of a resource (KEP-4192).

use serde_json::{Value, json};

use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{condition, field_checks, status_meta},
    name,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut},
    time::Time,
};

pub(super) struct StorageVersionMigration;

// upstream: pkg/registry/storagemigration/storagemigration/strategy.go strategy
impl RestStrategy for StorageVersionMigration {
    // upstream: pkg/registry/storagemigration/storagemigration/strategy.go statusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
    }

    // upstream: pkg/apis/storagemigration/validation/validation.go ValidateStorageVersionMigration
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_resource(object, errors);
    }

    // upstream: pkg/apis/storagemigration/validation/validation.go ValidateStorageVersionMigrationUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_resource(new, errors);
        if new.at("spec") != old.at("spec") {
            let resource = new.at_path("spec.resource");
            let spec = format!(
                "{{\"Resource\":{{\"group\":{},\"resource\":{}}}}}",
                go::json_string(resource.text("group")),
                go::json_string(resource.text("resource")),
            );
            errors.push(Error::invalid(
                &Path::new("spec"),
                BadValue::Printed(spec),
                field_checks::IMMUTABLE,
            ));
        }
    }

    // upstream: pkg/apis/storagemigration/validation/validation.go ValidateStorageVersionMigrationStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status_update(new.at("status"), old.at("status"), errors);
    }

    // upstream: pkg/registry/storagemigration/storagemigration/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::field("Name", "metadata.name"),
            Column::text("Resource", "GroupResource to migrate"),
            Column::text("Status", "Status of the migration"),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printStorageVersionMigration
    fn row(&self, object: &Value, _: Time) -> Row {
        let resource = object.at_path("spec.resource");
        let resource = match (resource.text("group"), resource.text("resource")) {
            ("", name) => name.to_owned(),
            (group, name) => format!("{name}.{group}"),
        };
        let state = object
            .at("status")
            .items("conditions")
            .iter()
            .filter(|condition| condition.text("status") == "True")
            .map(|condition| condition.text("type"))
            .rfind(|kind| matches!(*kind, "Running" | "Failed" | "Succeeded"));
        Row::new(vec![
            json!(object.at("metadata").text("name")),
            json!(resource),
            json!(state.unwrap_or("Unknown")),
        ])
    }
}

// upstream: pkg/apis/storagemigration/validation/validation.go ValidateStorageVersionMigration
fn validate_resource(object: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let at = at.child("resource");
    let resource = object.at_path("spec.resource");
    let field_path = at.child("resource");
    match resource.text("resource") {
        "" => errors.push(Error::required(&field_path, "resource is required to be set")),
        value => push_joined(value, &name::validate_dns1035_label(value), &field_path, errors),
    }
    match resource.text("group") {
        "" => {}
        value => push_joined(
            value,
            &name::validate_dns1123_subdomain(value),
            &at.child("group"),
            errors,
        ),
    }
}

/// Reports all messages of a name check in one error.
fn push_joined(value: &str, msgs: &[String], at: &Path<'_>, errors: &mut ErrorList) {
    if !msgs.is_empty() {
        errors.push(Error::invalid(at, value, msgs.join(",")));
    }
}

// upstream: pkg/apis/storagemigration/validation/validation.go ValidateStorageVersionMigrationStatusUpdate
fn validate_status_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let at = Path::new("status");
    let version = new.text("resourceVersion");
    let field_path = at.child("resourceVersion");
    let is_well_formed = !version.starts_with('0') && version.bytes().all(|b| b.is_ascii_digit());
    if !version.is_empty() && !is_well_formed {
        let detail = format!("resource version is not well formed: {version}");
        errors.push(Error::invalid(&field_path, version, detail));
    }
    let field_path = at.child("conditions");
    condition::validate_conditions(new.items("conditions"), &field_path, errors);
    let before = old.text("resourceVersion");
    if !before.is_empty() && before != version {
        let field_path = at.child("resourceVersion");
        errors.push(Error::invalid(&field_path, version, field_checks::IMMUTABLE));
    }
    let mut reject = |detail: &str| {
        errors.push(Error::invalid(
            &field_path,
            conditions_value(new.items("conditions")),
            detail,
        ));
    };
    if is_condition_true(new, "Succeeded") && is_condition_true(new, "Failed") {
        reject("Both success and failed conditions cannot be true at the same time");
    }
    if is_condition_true(old, "Succeeded") && !is_condition_true(new, "Succeeded") {
        reject("Success condition cannot be set to false once it is true");
    }
    if is_condition_true(old, "Failed") && !is_condition_true(new, "Failed") {
        reject("Failed condition cannot be set to false once it is true");
    }
}

fn is_condition_true(status: &Value, kind: &str) -> bool {
    status
        .items("conditions")
        .iter()
        .find(|condition| condition.text("type") == kind)
        .is_some_and(|condition| condition.text("status") == "True")
}

/// Conditions as the value of an error: in the order of the Go struct.
fn conditions_value(conditions: &[Value]) -> BadValue {
    if conditions.is_empty() {
        return BadValue::Json(Value::Null);
    }
    let texts: Vec<_> = conditions
        .iter()
        .map(|condition| {
            let generation = match condition.int("observedGeneration") {
                None | Some(0) => String::new(),
                Some(generation) => format!("\"observedGeneration\":{generation},"),
            };
            format!(
                "{{\"type\":{},\"status\":{},{generation}\"lastTransitionTime\":{},\"reason\":{},\"message\":{}}}",
                go::json_string(condition.text("type")),
                go::json_string(condition.text("status")),
                go::json(condition.at("lastTransitionTime")),
                go::json_string(condition.text("reason")),
                go::json_string(condition.text("message")),
            )
        })
        .collect();
    BadValue::Printed(format!("[{}]", texts.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_removal_of_a_terminal_condition() {
        let met = |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "t"}]});
        let mut errors = ErrorList::new();
        validate_status_update(&met("Succeeded"), &met("Running"), &mut errors);
        assert!(errors.is_empty());
        validate_status_update(&met("Running"), &met("Failed"), &mut errors);
        assert_eq!(
            errors[0].detail,
            "Failed condition cannot be set to false once it is true"
        );
    }

    #[test]
    fn row_shows_resource_and_state() {
        let migration = json!({
            "metadata": {"name": "m"},
            "spec": {"resource": {"group": "apps", "resource": "deployments"}},
            "status": {"conditions": [{"type": "Running", "status": "True"}]},
        });
        let now = Time::parse("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(
            Value::Array(StorageVersionMigration.row(&migration, now).cells),
            json!(["m", "deployments.apps", "Running"])
        );
    }
}
