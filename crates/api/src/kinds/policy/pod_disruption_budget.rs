//! Pod disruption budgets: how many pods must stay when somebody takes some away.

use serde_json::{Value, json};

use crate::{
    apply::managed::Reset,
    field::{Error, Path},
    go,
    kinds::{condition, counts, go_values, int_or_string, label_selector, reset_fields},
    name::Rule,
    rules::{self, Circumstances, Column, Description, Errors, Row, Rules, Tree, TreeMut, named_row},
    selector::label::InvalidValues,
    time::Time,
};

/// The rules of pod disruption budgets.
pub(super) struct PodDisruptionBudget;

/// An older version meant "all" and "none" the other way round, and said so with this label.
const DEPRECATED: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text(
        "Min Available",
        "The minimum number of pods that must be available.",
    ),
    Column::text(
        "Max Unavailable",
        "The maximum number of pods that may be unavailable.",
    ),
    Column::new(
        "Allowed Disruptions",
        "integer",
        Description::text("Calculated number of pods that may be disrupted at this time."),
    ),
    Column::age(),
];

impl Rules for PodDisruptionBudget {
    fn names(&self) -> Rule {
        Rule::PathSegment
    }

    fn prepare_create(&self, object: &mut Value, at: &Circumstances<'_>) {
        rules::reset_status(object, at.kind);
        without_deprecated(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, at: &Circumstances<'_>) {
        rules::keep_status(new, old, at.kind);
        if new.at("spec").at("selector") != old.at("spec").at("selector") {
            without_deprecated(new);
        }
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(object.at("spec"), InvalidValues::Refused, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let before = old.at("spec").at("selector");
        let mut known = Errors::new();
        label_selector::validate_label_selector(before, InvalidValues::Refused, &Path::NOWHERE, &mut known);
        let values = if known.is_empty() {
            InvalidValues::Refused
        } else {
            InvalidValues::Taken
        };
        validate(new.at("spec"), values, errors);
    }

    fn validate_status(&self, new: &Value, _: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let status = new.at("status");
        let at = Path::new("status");
        condition::validate_conditions(status.items("conditions"), &at.child("conditions"), errors);
        let counts = [
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ];
        counts::validate_nonnegative_fields(status, &counts, &at, errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let amount = |name: &str| match spec.at(name) {
            Value::Null => json!("N/A"),
            amount => json!(go::plain(amount)),
        };
        let allowed = object.at("status").int("disruptionsAllowed").unwrap_or_default();
        let cells = [amount("minAvailable"), amount("maxUnavailable"), json!(allowed)];
        named_row(object, now, cells)
    }
}

/// The deprecated label stands alone in a selector or not at all.
fn without_deprecated(object: &mut Value) {
    let Some(selector) = object.make("spec").at_mut("selector") else {
        return;
    };
    if *selector == json!({"matchExpressions": [{"key": DEPRECATED, "operator": "Exists"}]}) {
        return;
    }
    let Some(Value::Array(expressions)) = selector.at_mut("matchExpressions") else {
        return;
    };
    expressions.retain(|one| one.text("key") != DEPRECATED);
    if expressions.is_empty() {
        selector.remove("matchExpressions");
    }
}

fn validate(spec: &Value, values: InvalidValues, errors: &mut Errors) {
    let at = Path::new("spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(Error::invalid(
            &at,
            go_values::internal_value("policy", "PodDisruptionBudgetSpec", spec),
            detail,
        ));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        int_or_string::validate_positive_int_or_percent(spec.at(name), &at.child(name), errors);
        int_or_string::validate_not_more_than_100_percent(spec.at(name), &at.child(name), errors);
    }
    label_selector::validate_label_selector(spec.at("selector"), values, &at.child("selector"), errors);
    let policy = spec.at("unhealthyPodEvictionPolicy");
    let field_path = at.child("unhealthyPodEvictionPolicy");
    let known = ["AlwaysAllow", "IfHealthyBudget"];
    if let Some(policy) = policy.as_str().filter(|policy| !known.contains(policy)) {
        errors.push(Error::not_supported(&field_path, policy, known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deprecated_label_stands_alone_or_not_at_all() {
        let deprecated = json!({"key": DEPRECATED, "operator": "Exists"});
        let other = json!({"key": "a", "operator": "Exists"});
        let kept = |expressions: Value| {
            let mut budget = json!({"spec": {"selector": {"matchExpressions": expressions}}});
            without_deprecated(&mut budget);
            budget.way("spec.selector").at("matchExpressions").clone()
        };
        assert_eq!(kept(json!([deprecated])), json!([deprecated]));
        assert_eq!(kept(json!([deprecated, other])), json!([other]));
    }

    #[test]
    fn a_row_shows_what_is_allowed() {
        let now = Time::parse("2026-01-02T03:04:05Z").unwrap();
        let budget = json!({
            "metadata": {"name": "b", "creationTimestamp": "2026-01-02T03:04:00Z"},
            "spec": {"maxUnavailable": "50%"},
            "status": {"disruptionsAllowed": 2},
        });
        let cells = PodDisruptionBudget.row(&budget, now).cells;
        assert_eq!(json!(cells), json!(["b", "N/A", "50%", 2, "5s"]));
    }
}
