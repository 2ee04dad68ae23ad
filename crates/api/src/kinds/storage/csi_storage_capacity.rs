//! CSI storage capacities: how much a class can still give to some nodes.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::{
        core::{demand, node_selector},
        label_selector,
    },
    name::Rule,
    rules::{Circumstances, Column, Errors, Row, Rules, Tree},
    selector::label::{InvalidValues, UnknownOperators, validate as validate_selector},
    time::Time,
};

/// The rules of CSI storage capacities.
pub(super) struct CsiStorageCapacity;

impl Rules for CsiStorageCapacity {
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(object, InvalidValues::Refused, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let mut faults = Errors::new();
        topology(old, InvalidValues::Refused, &mut faults);
        let values = if faults.is_empty() {
            InvalidValues::Refused
        } else {
            InvalidValues::Taken
        };
        validate(new, values, errors);
        let topology = "nodeTopology";
        if new.at(topology) != old.at(topology) {
            let shown = label_selector::shown(new.at(topology));
            errors.push(Error::invalid(&Path::new(topology), shown, demand::IMMUTABLE));
        }
        let class = "storageClassName";
        if new.text(class) != old.text(class) {
            errors.push(Error::invalid(
                &Path::new(class),
                new.text(class),
                demand::IMMUTABLE,
            ));
        }
    }

    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let (topology, at) = (new.at("nodeTopology"), Path::new("nodeTopology"));
        node_selector::warnings(topology, &at, &mut warnings);
        for label in topology.entries("matchLabels").keys() {
            if let Some(detail) = node_selector::deprecated(label) {
                warnings.push(format!("nodeTopology.matchLabels.{label}: {detail}"));
            }
        }
        warnings
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::field("StorageClassName", "storageClassName"),
            Column::field("Capacity", "capacity"),
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, _: Time) -> Row {
        Row::new(vec![
            json!(object.at("metadata").text("name")),
            json!(object.text("storageClassName")),
            json!(object.at("capacity").as_str().unwrap_or("<unset>")),
        ])
    }
}

fn topology(object: &Value, values: InvalidValues, errors: &mut Errors) {
    if object.has("nodeTopology") {
        errors.extend(validate_selector(
            &Path::new("nodeTopology"),
            object.at("nodeTopology"),
            values,
            UnknownOperators::Refused,
        ));
    }
}

fn validate(object: &Value, values: InvalidValues, errors: &mut Errors) {
    topology(object, values, errors);
    let class = object.text("storageClassName");
    let place = Path::new("storageClassName");
    demand::faults(class, Rule::Subdomain.name(class), &place, errors);
    let capacity = demand::amount(object.at("capacity"));
    if capacity.sign().is_lt() {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(
            &Path::new("capacity"),
            capacity.to_string(),
            detail,
        ));
    }
}
