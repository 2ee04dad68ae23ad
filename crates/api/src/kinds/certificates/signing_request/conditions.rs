//! Conditions of a CertificateSigningRequest: Approved, Denied, Failed.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree, TreeMut},
    time::Time,
};

pub(super) const APPROVED: &str = "Approved";
pub(super) const DENIED: &str = "Denied";
pub(super) const FAILED: &str = "Failed";

pub(super) fn conditions(object: &Value) -> &[Value] {
    object.at("status").items("conditions")
}

pub(super) fn conditions_of_type<'v>(object: &'v Value, kind: &str) -> impl Iterator<Item = &'v Value> {
    conditions(object)
        .iter()
        .filter(move |condition| condition.text("type") == kind)
}

pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    conditions_of_type(object, kind).next().is_some()
}

/// Restores the old conditions of a type, unless some were added or removed: validation rejects that.
// upstream: pkg/registry/certificates/certificates/strategy.go preserveConditionInstances
pub(super) fn preserve_condition_instances(new: &mut Value, old: &Value, kind: &str) {
    let before: Vec<_> = conditions_of_type(old, kind).cloned().collect();
    if conditions_of_type(new, kind).count() != before.len() {
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

/// Sets `lastUpdateTime` and `lastTransitionTime` where they are missing.
// upstream: pkg/registry/certificates/certificates/strategy.go populateConditionTimestamps
pub(super) fn populate_condition_timestamps(new: &mut Value, old: &Value, now: Time) {
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
        condition.set_default("lastUpdateTime", now.to_string());
        let same = times.get(&(condition.text("type"), condition.text("status")));
        let time = same.map_or_else(|| Value::String(now.to_string()), |time| (*time).clone());
        condition.set_default("lastTransitionTime", time);
    }
}

/// The conditions as the table shows them, such as `Approved,Issued`.
// upstream: pkg/printers/internalversion/printers.go extractCSRStatus
pub(super) fn format_csr_state(object: &Value) -> String {
    let mut state = if has_condition(object, DENIED) {
        DENIED
    } else if has_condition(object, APPROVED) {
        APPROVED
    } else {
        "Pending"
    }
    .to_owned();
    if has_condition(object, FAILED) {
        state.push_str(",Failed");
    }
    if !object.at("status").text("certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}

/// Validates the conditions. Invalid ones that the old request already has are tolerated.
// upstream: pkg/apis/certificates/validation/validation.go validateConditions
pub(super) fn validate_conditions(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
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
