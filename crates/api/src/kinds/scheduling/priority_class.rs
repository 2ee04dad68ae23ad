//! Classes of priority: which pods go first, and which others they push out.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    rules::{Circumstances, Column, Description, Errors, Row, Rules, Tree, TreeMut, named_row},
    time::Time,
};

/// The rules of priority classes.
pub(super) struct PriorityClass;

const SYSTEM_PREFIX: &str = "system-";
const HIGHEST_OF_USERS: i64 = 1_000_000_000;

/// The classes of the system and their values.
const SYSTEM: [(&str, i64); 2] = [
    ("system-node-critical", 2 * HIGHEST_OF_USERS + 1000),
    ("system-cluster-critical", 2 * HIGHEST_OF_USERS),
];

const POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Value", "integer", Description::Field("value")),
    Column::new("Global-Default", "boolean", Description::Field("globalDefault")),
    Column::age(),
    Column::field("PreemptionPolicy", "preemptionPolicy"),
];

impl Rules for PriorityClass {
    fn default(&self, object: &mut Value) {
        object.fill("preemptionPolicy", POLICIES[0]);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, _: &Value, _: &Value) -> bool {
        false
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let name = object.at("metadata").text("name");
        let value = value(object);
        if name.starts_with(SYSTEM_PREFIX) {
            if let Some(msg) = unknown(name, value, object.flag("globalDefault")) {
                let metadata = Path::new("metadata");
                errors.push(Error::forbidden(
                    &metadata.child("name"),
                    format!(
                        "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {msg}"
                    ),
                ));
            }
        } else if value > HIGHEST_OF_USERS {
            errors.push(Error::forbidden(
                &Path::new("value"),
                format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}"),
            ));
        }
        let at = Path::new("preemptionPolicy");
        match object.at("preemptionPolicy").as_str() {
            Some("") => errors.push(Error::required(&at, "")),
            Some(policy) if !POLICIES.contains(&policy) => {
                errors.push(Error::not_supported(&at, policy, POLICIES));
            }
            _ => {}
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        if value(new) != value(old) {
            errors.push(Error::forbidden(
                &Path::new("value"),
                "may not be changed in an update.",
            ));
        }
        let policy = new.at("preemptionPolicy");
        if policy != old.at("preemptionPolicy") {
            errors.push(Error::invalid(
                &Path::new("preemptionPolicy"),
                policy,
                field_checks::IMMUTABLE,
            ));
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let cells = [json!(value(object)), json!(object.flag("globalDefault"))];
        let mut row = named_row(object, now, cells);
        row.cells.push(json!(object.text("preemptionPolicy")));
        row
    }
}

fn value(object: &Value) -> i64 {
    object.int("value").unwrap_or_default()
}

/// Why a class is none of the system's.
fn unknown(name: &str, value: i64, default: bool) -> Option<String> {
    let Some((_, own)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value != *own {
        return Some(format!("value of {name} PriorityClass must be {own}"));
    }
    default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_system_are_its_own() {
        assert_eq!(unknown("system-node-critical", 2_000_001_000, false), None);
        assert_eq!(
            unknown("system-node-critical", 1, false).unwrap(),
            "value of system-node-critical PriorityClass must be 2000001000"
        );
        assert_eq!(
            unknown("system-cluster-critical", 2_000_000_000, true).unwrap(),
            "globalDefault of system-cluster-critical PriorityClass must be false"
        );
        assert_eq!(
            unknown("system-x", 1, false).unwrap(),
            "system-x is not a known system priority class"
        );
    }

    #[test]
    fn the_policy_is_the_last_cell() {
        let mut object = json!({"metadata": {"name": "x"}, "value": 7});
        PriorityClass.default(&mut object);
        let cells = PriorityClass.row(&object, Time::from_unix(0, 0)).cells;
        assert_eq!(cells[..3], [json!("x"), json!(7), json!(false)]);
        assert_eq!(cells[4], "PreemptLowerPriority");
    }
}
