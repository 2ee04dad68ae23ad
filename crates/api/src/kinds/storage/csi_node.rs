//! CSI nodes: which drivers run on a node.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::{
    field::{Error, Path, Shown},
    go,
    kinds::{core::volume::source::driver_name, field_checks, status_meta},
    rules::{Circumstances, Column, Description, Errors, Row, Rules, Tree, TreeMut, named_row},
    time::Time,
};

const ID_LENGTH: usize = 256;

/// The rules of CSI nodes.
pub(super) struct CsiNode;

impl Rules for CsiNode {
    fn prepare_status(&self, new: &mut Value, old: &Value, _: &Circumstances<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
        // The health of storage belongs to a feature that is off.
        if old.at("status").items("storageHealth").is_empty()
            && let Some(status) = new.at_mut("status")
        {
            status.remove("storageHealth");
        }
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(new, errors);
        let at = Path::new("spec");
        let drivers = |object: &'_ Value| -> Vec<Value> {
            let mut drivers = object.at("spec").items("drivers").to_vec();
            for driver in &mut drivers {
                driver.remove("allocatable");
            }
            drivers
        };
        let after = drivers(new);
        // The drivers of a name, each with how often it is there: all may be the same.
        let mut places: HashMap<&Value, usize> = HashMap::new();
        let mut by_name: HashMap<&Value, Vec<(&Value, usize)>> = HashMap::new();
        for driver in &after {
            let same = by_name.entry(driver.at("name")).or_default();
            let field_path = *places.entry(driver).or_insert(same.len());
            match same.get_mut(field_path) {
                Some((_, times)) => *times += 1,
                None => same.push((driver, 1)),
            }
        }
        for old in drivers(old) {
            let known = by_name.get(old.at("name")).into_iter().flatten();
            let differing = known.filter(|(new, _)| **new != old);
            for new in differing.flat_map(|(new, times)| std::iter::repeat_n(*new, *times)) {
                if errors.is_full() {
                    return;
                }
                errors.push(Error::invalid(
                    &at.child("drivers"),
                    printed(new),
                    field_checks::IMMUTABLE,
                ));
            }
        }
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::new(
                "Drivers",
                "integer",
                Description::text("Drivers indicates the number of CSI drivers registered on the node"),
            ),
            Column::age(),
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.at("spec").items("drivers").len())])
    }
}

fn validate(object: &Value, errors: &mut Errors) {
    let at = Path::new("spec");
    let at = at.child("drivers");
    let drivers = object.at("spec").items("drivers");
    let mut names = HashSet::new();
    for (index, driver) in drivers.iter().enumerate() {
        let field_path = at.index(index);
        let name = driver.text("name");
        driver_name(name, &field_path.child("name"), errors);
        let id = driver.text("nodeID");
        field_checks::require_fields(driver, &["nodeID"], &field_path, errors);
        if id.len() > ID_LENGTH {
            let detail = format!("must be {ID_LENGTH} characters or less");
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

/// A driver as errors show it.
fn printed(driver: &Value) -> Shown {
    Shown::Printed(format!(
        "{{\"Name\":{},\"NodeID\":{},\"TopologyKeys\":{},\"Allocatable\":null}}",
        go::json_string(driver.text("name")),
        go::json_string(driver.text("nodeID")),
        go::json(driver.at("topologyKeys")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kinds::builtin, rules::User};

    #[test]
    fn a_driver_may_change_how_much_it_takes_and_nothing_else() {
        let node = |id: &str, count: i64| json!({"spec": {"drivers": [{"name": "d", "nodeID": id, "allocatable": {"count": count}}]}});
        let kind = builtin()
            .kind("storage.k8s.io", "v1", "CSINode")
            .expect("it is built in");
        let at = Circumstances {
            kind,
            now: Time::parse("2026-01-01T00:00:00Z").unwrap(),
            user: &User::default(),
        };
        let mut errors = Errors::new();
        CsiNode.validate_update(&node("a", 1), &node("a", 2), &at, &mut errors);
        assert!(errors.is_empty());
        CsiNode.validate_update(&node("b", 1), &node("a", 1), &at, &mut errors);
        assert_eq!(
            errors[0].to_string(),
            "spec.drivers: Invalid value: {\"Name\":\"d\",\"NodeID\":\"b\",\"TopologyKeys\":null,\"Allocatable\":null}: field is immutable"
        );
    }
}
