//! PriorityClass: the scheduling priority of pods and whether they preempt others.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row,
    },
    time::Time,
};

pub(super) struct PriorityClass;

const SYSTEM_PREFIX: &str = "system-";
const HIGHEST_USER_DEFINABLE_PRIORITY: i64 = 1_000_000_000;

// upstream: pkg/apis/scheduling/v1/helpers.go SystemPriorityClasses
const SYSTEM_PRIORITY_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2 * HIGHEST_USER_DEFINABLE_PRIORITY + 1000),
    ("system-cluster-critical", 2 * HIGHEST_USER_DEFINABLE_PRIORITY),
];

const POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Value", "integer", ColumnDescription::Field("value")),
    Column::new(
        "Global-Default",
        "boolean",
        ColumnDescription::Field("globalDefault"),
    ),
    Column::age(),
    Column::field("PreemptionPolicy", "preemptionPolicy"),
];

// upstream: pkg/registry/scheduling/priorityclass/strategy.go priorityClassStrategy
impl RestStrategy for PriorityClass {
    // upstream: pkg/apis/scheduling/v1/defaults.go SetDefaults_PriorityClass
    fn set_defaults(&self, object: &mut Value) {
        object.set_default("preemptionPolicy", POLICIES[0]);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, _: &Value, _: &Value) -> bool {
        false
    }

    // upstream: pkg/apis/scheduling/validation/validation.go ValidatePriorityClass
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let name = object.at("metadata").text("name");
        let value = value(object);
        if name.starts_with(SYSTEM_PREFIX) {
            if let Some(msg) = system_priority_class_mismatch(name, object) {
                let metadata = Path::new("metadata");
                errors.push(Error::forbidden(
                    &metadata.child("name"),
                    format!(
                        "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {msg}"
                    ),
                ));
            }
        } else if value > HIGHEST_USER_DEFINABLE_PRIORITY {
            errors.push(Error::forbidden(
                &Path::new("value"),
                format!(
                    "maximum allowed value of a user defined priority is {HIGHEST_USER_DEFINABLE_PRIORITY}"
                ),
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

    // upstream: pkg/apis/scheduling/validation/validation.go ValidatePriorityClassUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
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

    // upstream: pkg/printers/internalversion/printers.go printPriorityClass
    fn row(&self, object: &Value, now: Time) -> Row {
        let cells = [json!(value(object)), json!(object.flag("globalDefault"))];
        let mut row = named_row(object, now, cells);
        row.cells.push(json!(object.text("preemptionPolicy")));
        row
    }
}

fn value(object: &Value) -> i64 {
    object.int_or_zero("value")
}

/// Why a class with the system prefix is no system priority class.
// upstream: pkg/apis/scheduling/v1/helpers.go IsKnownSystemPriorityClass
fn system_priority_class_mismatch(name: &str, class: &Value) -> Option<String> {
    let Some((_, expected)) = SYSTEM_PRIORITY_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value(class) != *expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    class
        .flag("globalDefault")
        .then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unknown_system_priority_classes() {
        let mismatch = |name: &str, value: i64, default: bool| {
            system_priority_class_mismatch(name, &json!({"value": value, "globalDefault": default}))
        };
        assert_eq!(mismatch("system-node-critical", 2_000_001_000, false), None);
        assert_eq!(
            mismatch("system-node-critical", 1, false).unwrap(),
            "value of system-node-critical PriorityClass must be 2000001000"
        );
        assert_eq!(
            mismatch("system-cluster-critical", 2_000_000_000, true).unwrap(),
            "globalDefault of system-cluster-critical PriorityClass must be false"
        );
        assert_eq!(
            mismatch("system-x", 1, false).unwrap(),
            "system-x is not a known system priority class"
        );
    }

    #[test]
    fn row_ends_with_the_preemption_policy() {
        let mut object = json!({"metadata": {"name": "x"}, "value": 7});
        PriorityClass.set_defaults(&mut object);
        let cells = PriorityClass.row(&object, Time::from_unix(0, 0)).cells;
        assert_eq!(cells[..3], [json!("x"), json!(7), json!(false)]);
        assert_eq!(cells[4], "PreemptLowerPriority");
    }
}
