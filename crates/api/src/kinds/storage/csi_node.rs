//! CSINode: the CSI drivers that run on a node.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{core::volume::source::validate_csi_driver_name, field_checks, status_meta},
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row,
    },
    time::Time,
};

const MAX_NODE_ID_LENGTH: usize = 256;

pub(super) struct CsiNode;

// upstream: pkg/registry/storage/csinode/strategy.go csiNodeStrategy
impl RestStrategy for CsiNode {
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
        // `status.storageHealth` belongs to a feature gate that is off.
        if old.at("status").items("storageHealth").is_empty()
            && let Some(status) = new.at_mut("status")
        {
            status.remove("storageHealth");
        }
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateCSINode
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_csi_node_spec(object, errors);
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateCSINodeUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_csi_node_spec(new, errors);
        let at = Path::new("spec");
        let drivers = |object: &'_ Value| -> Vec<Value> {
            let mut drivers = object.at("spec").items("drivers").to_vec();
            for driver in &mut drivers {
                driver.remove("allocatable");
            }
            drivers
        };
        let after = drivers(new);
        // The new drivers by name with their number of occurrences: a malformed list may repeat one many times.
        let mut indexes: HashMap<&Value, usize> = HashMap::new();
        let mut by_name: HashMap<&Value, Vec<(&Value, usize)>> = HashMap::new();
        for driver in &after {
            let same = by_name.entry(driver.at("name")).or_default();
            let index = *indexes.entry(driver).or_insert(same.len());
            match same.get_mut(index) {
                Some((_, times)) => *times += 1,
                None => same.push((driver, 1)),
            }
        }
        for old in drivers(old) {
            let same_name = by_name.get(old.at("name")).into_iter().flatten();
            let differing = same_name.filter(|(new, _)| **new != old);
            for new in differing.flat_map(|(new, times)| std::iter::repeat_n(*new, *times)) {
                if errors.is_full() {
                    return;
                }
                errors.push(Error::invalid(
                    &at.child("drivers"),
                    driver_value(new),
                    field_checks::IMMUTABLE,
                ));
            }
        }
    }

    // upstream: pkg/registry/storage/csinode/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::new(
                "Drivers",
                "integer",
                ColumnDescription::text("Drivers indicates the number of CSI drivers registered on the node"),
            ),
            Column::age(),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printCSINode
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.at("spec").items("drivers").len())])
    }
}

// upstream: pkg/apis/storage/validation/validation.go validateCSINodeSpec, validateCSINodeDrivers
fn validate_csi_node_spec(object: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let at = at.child("drivers");
    let drivers = object.at("spec").items("drivers");
    let mut names = HashSet::new();
    for (index, driver) in drivers.iter().enumerate() {
        let field_path = at.index(index);
        let name = driver.text("name");
        validate_csi_driver_name(name, &field_path.child("name"), errors);
        let id = driver.text("nodeID");
        field_checks::require_fields(driver, &["nodeID"], &field_path, errors);
        if id.len() > MAX_NODE_ID_LENGTH {
            let detail = format!("must be {MAX_NODE_ID_LENGTH} characters or less");
            errors.push(Error::invalid(&field_path.child("nodeID"), id, detail));
        }
        if let Some(count) = driver.at("allocatable").int("count").filter(|count| *count < 0) {
            let field_path = field_path.child("allocatable");
            let detail = "must be greater than or equal to 0";
            errors.push(Error::invalid(&field_path.child("count"), count, detail));
        }
        if !names.insert(name) {
            errors.push(Error::duplicate(&field_path.child("name"), name));
        }
        let mut seen = HashSet::new();
        for key in driver.texts("topologyKeys") {
            if key.is_empty() {
                errors.push(Error::required(&field_path, ""));
            }
            if !seen.insert(key) {
                errors.push(Error::duplicate(&field_path, key));
            }
            field_checks::validate_qualified_name(key, &field_path, errors);
        }
    }
}

/// A driver as the value of an error: the internal type has no JSON tags.
fn driver_value(driver: &Value) -> BadValue {
    BadValue::Printed(format!(
        "{{\"Name\":{},\"NodeID\":{},\"TopologyKeys\":{},\"Allocatable\":null}}",
        go::json_string(driver.text("name")),
        go::json_string(driver.text("nodeID")),
        go::json(driver.at("topologyKeys")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kinds::builtin, strategy::User};

    #[test]
    fn allows_changing_allocatable_only() {
        let node = |id: &str, count: i64| json!({"spec": {"drivers": [{"name": "d", "nodeID": id, "allocatable": {"count": count}}]}});
        let kind = builtin()
            .kind("storage.k8s.io", "v1", "CSINode")
            .expect("it is built in");
        let at = StrategyContext {
            kind,
            now: Time::parse("2026-01-01T00:00:00Z").unwrap(),
            user: &User::default(),
        };
        let mut errors = ErrorList::new();
        CsiNode.validate_update(&node("a", 1), &node("a", 2), &at, &mut errors);
        assert!(errors.is_empty());
        CsiNode.validate_update(&node("b", 1), &node("a", 1), &at, &mut errors);
        assert_eq!(
            errors[0].to_string(),
            "spec.drivers: Invalid value: {\"Name\":\"d\",\"NodeID\":\"b\",\"TopologyKeys\":null,\"Allocatable\":null}: field is immutable"
        );
    }
}
