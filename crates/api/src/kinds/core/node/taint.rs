//! Marks of a node that keep pods away which do not tolerate them.

use serde_json::Value;

use crate::{
    field::{BadValue, Error, Path},
    kinds::{
        field_checks::{self, push_invalid},
        go_values,
    },
    name,
    strategy::{ErrorList, Tree},
};

/// What a taint can do.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// What is wrong with taints: each has its own key and effect.
pub(super) fn taints(errors: &mut ErrorList, at: &Path<'_>, taints: &[Value]) {
    let repeated = field_checks::duplicate_flags(
        taints
            .iter()
            .map(|taint| (taint.text("key"), taint.text("effect"))),
    );
    for (index, taint) in taints.iter().enumerate() {
        let field_path = at.index(index);
        let key = taint.text("key");
        let value = taint.text("value");
        let effect = taint.text("effect");
        push_invalid(
            key,
            name::validate_label_key(key),
            &field_path.child("key"),
            errors,
        );
        let msgs = name::validate_label_value(value);
        if !msgs.is_empty() {
            errors.push(Error::invalid(&field_path.child("value"), value, msgs.join(";")));
        }
        if effect.is_empty() {
            errors.push(Error::required(&field_path.child("effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            let shown = go_values::typed_string(effect);
            errors.push(Error::not_supported(&field_path.child("effect"), shown, EFFECTS));
        }
        if repeated[index] {
            let shown = BadValue::Printed(go_values::internal_json("core", "Taint", taint));
            errors.push(Error {
                detail: "taints must be unique by key and effect pair".to_owned(),
                ..Error::duplicate(&field_path, shown)
            });
        }
    }
}
