//! Marks of a node that keep pods away which do not tolerate them.

use serde_json::Value;

use crate::{
    field::{Error, Path, BadValue},
    kinds::{
        demand::{self, tell},
        printed,
    },
    name,
    strategy::{ErrorList, Tree},
};

/// What a taint can do.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// What is wrong with taints: each has its own key and effect.
pub(super) fn taints(errors: &mut ErrorList, at: &Path<'_>, taints: &[Value]) {
    let repeated = demand::repeated(
        taints
            .iter()
            .map(|taint| (taint.text("key"), taint.text("effect"))),
    );
    for (index, taint) in taints.iter().enumerate() {
        let place = at.index(index);
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        tell(key, name::validate_label_key(key), &place.child("key"), errors);
        let faults = name::validate_label_value(value);
        if !faults.is_empty() {
            errors.push(Error::invalid(&place.child("value"), value, faults.join(";")));
        }
        if effect.is_empty() {
            errors.push(Error::required(&place.child("effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            let shown = printed::word(effect);
            errors.push(Error::not_supported(&place.child("effect"), shown, EFFECTS));
        }
        if repeated[index] {
            let shown = BadValue::Printed(printed::go_struct("core", "Taint", taint));
            errors.push(Error {
                detail: "taints must be unique by key and effect pair".to_owned(),
                ..Error::duplicate(&place, shown)
            });
        }
    }
}
