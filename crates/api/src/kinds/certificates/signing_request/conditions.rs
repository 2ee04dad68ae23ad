//! The conditions of a request: whether it is approved, denied or failed.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    rules::{Errors, Tree, TreeMut},
    time::Time,
};

pub(super) const APPROVED: &str = "Approved";
pub(super) const DENIED: &str = "Denied";
pub(super) const FAILED: &str = "Failed";

/// The conditions.
pub(super) fn conditions(object: &Value) -> &[Value] {
    object.at("status").items("conditions")
}

/// Those of a kind.
pub(super) fn of_kind<'v>(object: &'v Value, kind: &str) -> impl Iterator<Item = &'v Value> {
    conditions(object)
        .iter()
        .filter(move |condition| condition.text("type") == kind)
}

/// Whether there is one of a kind.
pub(super) fn has(object: &Value, kind: &str) -> bool {
    of_kind(object, kind).next().is_some()
}

/// Gives conditions of a kind their old values back, unless some were added or removed: that is refused later.
pub(super) fn keep_conditions(new: &mut Value, old: &Value, kind: &str) {
    let before: Vec<_> = of_kind(old, kind).cloned().collect();
    if of_kind(new, kind).count() != before.len() {
        return;
    }
    let Some(status) = new.at_mut("status") else {
        return;
    };
    let after = status.items_mut("conditions").iter_mut();
    let after = after.filter(|condition| condition.text("type") == kind);
    for (condition, before) in after.zip(before) {
        *condition = before;
    }
}

/// Sets the times of conditions that have none.
pub(super) fn fill_times(new: &mut Value, old: &Value, now: Time) {
    let Some(status) = new.at_mut("status") else {
        return;
    };
    let mut times: HashMap<(&str, &str), &Value> = HashMap::new();
    for before in conditions(old)
        .iter()
        .filter(|before| before.has("lastTransitionTime"))
    {
        times
            .entry((before.text("type"), before.text("status")))
            .or_insert(before.at("lastTransitionTime"));
    }
    for condition in status.items_mut("conditions") {
        condition.fill("lastUpdateTime", now.to_string());
        let same = times.get(&(condition.text("type"), condition.text("status")));
        let time = same.map_or_else(|| Value::String(now.to_string()), |time| (*time).clone());
        condition.fill("lastTransitionTime", time);
    }
}

/// What became of a request, in a word or two.
pub(super) fn state(object: &Value) -> String {
    let mut state = if has(object, DENIED) {
        DENIED
    } else if has(object, APPROVED) {
        APPROVED
    } else {
        "Pending"
    }
    .to_owned();
    if has(object, FAILED) {
        state.push_str(",Failed");
    }
    if !object.at("status").text("certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}

/// What is wrong with them. What the old request has already is taken again.
pub(super) fn validate(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let status = Path::new("status");
    let list = status.child("conditions");
    let kinds = |object: &'_ Value| -> Vec<String> {
        let kinds = conditions(object).iter();
        kinds.map(|condition| condition.text("type").to_owned()).collect()
    };
    let before = old.map(kinds).unwrap_or_default();
    let after = kinds(object);
    let repeats = field_checks::duplicate_flags(&before).contains(&true);
    let had_empty = before.iter().any(String::is_empty);
    let repeated = field_checks::duplicate_flags(&after);
    for (index, condition) in conditions(object).iter().enumerate() {
        let at = list.index(index);
        let kind = condition.text("type");
        if kind.is_empty() && !had_empty {
            errors.push(Error::required(&at.child("type"), ""));
        }
        let supported: &[&str] = match kind {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match condition.text("status") {
            "" => errors.push(Error::required(&at.child("status"), "")),
            value if supported.contains(&value) => {}
            value => errors.push(Error::not_supported(&at.child("status"), value, supported)),
        }
        if !repeats && repeated[index] {
            errors.push(Error::duplicate(&at.child("type"), kind));
        }
    }
}
