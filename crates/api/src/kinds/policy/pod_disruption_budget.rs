//! PodDisruptionBudget: how many pods must stay available during voluntary disruptions.

use serde_json::{Value, json};

use crate::{
    apply::managed::ResetFields,
    field::{Error, Path},
    go,
    kinds::{condition, counts, go_values, int_or_string, label_selector, reset_fields},
    name::NameFormat,
    selector::label::InvalidValues,
    strategy::{
        self, Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut,
        named_row,
    },
    time::Time,
};

pub(super) struct PodDisruptionBudget;

/// In v1beta1 an empty selector matched no pods; conversion marks such selectors with this label.
// upstream: pkg/apis/policy/helper.go StripPDBV1beta1Label
const EMPTY_SELECTOR_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

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
        ColumnDescription::text("Calculated number of pods that may be disrupted at this time."),
    ),
    Column::age(),
];

// upstream: pkg/registry/policy/poddisruptionbudget/strategy.go podDisruptionBudgetStrategy
impl RestStrategy for PodDisruptionBudget {
    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    // upstream: pkg/registry/policy/poddisruptionbudget/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        strategy::reset_status(object, at.kind);
        strip_v1beta1_label(object);
    }

    // upstream: pkg/registry/policy/poddisruptionbudget/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        if new.at("spec").at("selector") != old.at("spec").at("selector") {
            strip_v1beta1_label(new);
        }
    }

    // upstream: pkg/apis/policy/validation/validation.go ValidatePodDisruptionBudget
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_pod_disruption_budget_spec(object.at("spec"), InvalidValues::Refused, errors);
    }

    // upstream: pkg/apis/policy/validation/validation.go ValidatePodDisruptionBudget
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let before = old.at("spec").at("selector");
        let mut old_errors = ErrorList::new();
        label_selector::validate_label_selector(before, InvalidValues::Refused, &Path::NIL, &mut old_errors);
        let values = if old_errors.is_empty() {
            InvalidValues::Refused
        } else {
            InvalidValues::Taken
        };
        validate_pod_disruption_budget_spec(new.at("spec"), values, errors);
    }

    // upstream: pkg/apis/policy/validation/validation.go ValidatePodDisruptionBudgetStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
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

    // upstream: pkg/registry/policy/poddisruptionbudget/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printPodDisruptionBudget
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let amount = |name: &str| match spec.at(name) {
            Value::Null => json!("N/A"),
            amount => json!(go::plain(amount)),
        };
        let allowed = object.at("status").int_or_zero("disruptionsAllowed");
        let cells = [amount("minAvailable"), amount("maxUnavailable"), json!(allowed)];
        named_row(object, now, cells)
    }
}

/// Removes the v1beta1 label unless it is alone in the selector.
// upstream: pkg/apis/policy/helper.go StripPDBV1beta1Label
fn strip_v1beta1_label(object: &mut Value) {
    let Some(selector) = object.ensure_object("spec").at_mut("selector") else {
        return;
    };
    if *selector == json!({"matchExpressions": [{"key": EMPTY_SELECTOR_LABEL, "operator": "Exists"}]}) {
        return;
    }
    let Some(Value::Array(expressions)) = selector.at_mut("matchExpressions") else {
        return;
    };
    expressions.retain(|one| one.text("key") != EMPTY_SELECTOR_LABEL);
    if expressions.is_empty() {
        selector.remove("matchExpressions");
    }
}

// upstream: pkg/apis/policy/validation/validation.go ValidatePodDisruptionBudgetSpec
fn validate_pod_disruption_budget_spec(spec: &Value, values: InvalidValues, errors: &mut ErrorList) {
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
    let supported = ["AlwaysAllow", "IfHealthyBudget"];
    if let Some(policy) = policy.as_str().filter(|policy| !supported.contains(policy)) {
        errors.push(Error::not_supported(&field_path, policy, supported));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_the_v1beta1_label_beside_other_requirements() {
        let deprecated = json!({"key": EMPTY_SELECTOR_LABEL, "operator": "Exists"});
        let other = json!({"key": "a", "operator": "Exists"});
        let strip = |expressions: Value| {
            let mut budget = json!({"spec": {"selector": {"matchExpressions": expressions}}});
            strip_v1beta1_label(&mut budget);
            budget.at_path("spec.selector").at("matchExpressions").clone()
        };
        assert_eq!(strip(json!([deprecated])), json!([deprecated]));
        assert_eq!(strip(json!([deprecated, other])), json!([other]));
    }

    #[test]
    fn row_shows_allowed_disruptions() {
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
