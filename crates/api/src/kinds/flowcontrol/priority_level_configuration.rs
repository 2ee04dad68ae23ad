//! PriorityLevelConfiguration: how many requests are served at once, and whether the others queue (API Priority and Fairness,
//! KEP-1040).

use serde_json::{Value, json};

use super::status;
use crate::{
    bootstrap,
    field::{BadValue, Error, Path},
    kinds::go_values,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

const MAX_QUEUES: i64 = 10_000_000;
/// Bits of the hash that shuffle sharding may use.
// upstream: staging/src/k8s.io/apiserver/pkg/util/shufflesharding/shufflesharding.go RequiredEntropyBits
const MAX_HASH_BITS: f64 = 60.0;
const ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Type", "spec.type"),
    Column::field(
        "NominalConcurrencyShares",
        "spec.limited.nominalConcurrencyShares",
    ),
    Column::field("Queues", "spec.limited.limitResponse.queuing.queues"),
    Column::field("HandSize", "spec.limited.limitResponse.queuing.handSize"),
    Column::field(
        "QueueLengthLimit",
        "spec.limited.limitResponse.queuing.queueLengthLimit",
    ),
    Column::age(),
];

pub(super) struct PriorityLevelConfiguration;

// upstream: pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go priorityLevelConfigurationStrategy
impl RestStrategy for PriorityLevelConfiguration {
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        if spec.has("limited") {
            let limited = spec.ensure_object("limited");
            limited.set_default("nominalConcurrencyShares", 30);
            limited.set_default("lendablePercent", 0);
            let queuing = limited
                .at_mut("limitResponse")
                .and_then(|response| response.at_mut("queuing"));
            if let Some(queuing) = queuing.filter(|queuing| queuing.is_object()) {
                for (name, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                    if queuing.int_or_zero(name) == 0 {
                        queuing.set(name, value);
                    }
                }
            }
        }
        if spec.has("exempt") {
            let exempt = spec.ensure_object("exempt");
            exempt.set_default("nominalConcurrencyShares", 0);
            exempt.set_default("lendablePercent", 0);
        }
    }

    // upstream: pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go priorityLevelConfigurationStatusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        status::prepare_status_for_update(new, old);
    }

    // upstream: pkg/apis/flowcontrol/validation/validation.go ValidatePriorityLevelConfiguration
    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let metadata = object.at("metadata");
        if metadata.at("annotations").has(ZERO_SHARES) {
            let field_path = Path::new("metadata");
            let detail = format!("annotation '{ZERO_SHARES}' is forbidden");
            errors.push(Error::forbidden(&field_path.child("annotations"), detail));
        }
        let spec = object.at("spec");
        let at = Path::new("spec");
        validate_priority_level_spec(metadata.text("name"), spec, &at, errors);
        validate_if_mandatory(metadata.text("name"), spec, &at, errors);
        status::validate_status_conditions(object, errors);
        validate_unions(spec, &at, errors);
    }

    // upstream: pkg/apis/flowcontrol/validation/validation.go ValidatePriorityLevelConfigurationStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _old: &Value,
        _at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        status::validate_status_conditions(new, errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printPriorityLevelConfiguration
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let limited = spec.at("limited");
        let queuing = limited.at("limitResponse").at("queuing");
        let cell = |holder: &Value, name: &str| match holder {
            Value::Null => json!("<none>"),
            holder => json!(holder.int_or_zero(name)),
        };
        let cells = [
            json!(spec.text("type")),
            cell(limited, "nominalConcurrencyShares"),
            cell(queuing, "queues"),
            cell(queuing, "handSize"),
            cell(queuing, "queueLengthLimit"),
        ];
        named_row(object, now, cells)
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidatePriorityLevelConfigurationSpec
fn validate_priority_level_spec(name: &str, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = spec.text("type");
    let field_path = at.child("type");
    if (name == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(Error::invalid(&field_path, kind, detail));
    }
    match kind {
        "Exempt" => validate_exempt(spec.at("exempt"), &at.child("exempt"), errors),
        "Limited" => {
            let field_path = at.child("limited");
            validate_limited(spec.at("limited"), &field_path, errors);
        }
        "" => {}
        _ => errors.push(Error::not_supported(&field_path, kind, ["Exempt", "Limited"])),
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateExemptPriorityLevelConfiguration
fn validate_exempt(level: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_nominal_shares(level, at, errors);
    validate_lendable_percent(level, at, errors);
}

fn validate_nominal_shares(level: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(shares) = level.int("nominalConcurrencyShares").filter(|shares| *shares < 0) {
        let field_path = at.child("nominalConcurrencyShares");
        errors.push(Error::invalid(
            &field_path,
            shares,
            "must be a non-negative integer",
        ));
    }
}

fn validate_lendable_percent(level: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(percent) = level
        .int("lendablePercent")
        .filter(|percent| !(0..=100).contains(percent))
    {
        let field_path = at.child("lendablePercent");
        errors.push(Error::invalid(
            &field_path,
            percent,
            "must be between 0 and 100, inclusive",
        ));
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateLimitedPriorityLevelConfiguration
fn validate_limited(limited: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if limited.is_null() {
        return;
    }
    validate_nominal_shares(limited, at, errors);
    let response = limited.at("limitResponse");
    let field_path = at.child("limitResponse");
    match response.text("type") {
        "Queue" => validate_queuing(response.at("queuing"), &field_path.child("queuing"), errors),
        "" | "Reject" => {}
        kind => errors.push(Error::not_supported(
            &field_path.child("type"),
            kind,
            ["Queue", "Reject"],
        )),
    }
    validate_lendable_percent(limited, at, errors);
    if let Some(percent) = limited
        .int("borrowingLimitPercent")
        .filter(|percent| *percent < 0)
    {
        let field_path = at.child("borrowingLimitPercent");
        errors.push(Error::invalid(
            &field_path,
            percent,
            "if specified, must be a non-negative integer",
        ));
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidatePriorityLevelQueuingConfiguration
fn validate_queuing(queuing: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if queuing.is_null() {
        return;
    }
    let number = |name: &str| queuing.int_or_zero(name);
    let length = number("queueLengthLimit");
    let queues = number("queues");
    let hand = number("handSize");
    let positive = "must be positive";
    if length <= 0 {
        errors.push(Error::invalid(&at.child("queueLengthLimit"), length, positive));
    }
    let field_path = at.child("queues");
    if queues <= 0 {
        errors.push(Error::invalid(&field_path, queues, positive));
    } else if queues > MAX_QUEUES {
        let detail = format!("must not be greater than {MAX_QUEUES}");
        errors.push(Error::invalid(&field_path, queues, detail));
    }
    let field_path = at.child("handSize");
    if hand <= 0 {
        errors.push(Error::invalid(&field_path, hand, positive));
    } else if hand > queues {
        let detail = format!("should not be greater than queues ({queues})");
        errors.push(Error::invalid(&field_path, hand, detail));
    } else if required_entropy_bits(queues, hand) > MAX_HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        );
        errors.push(Error::invalid(&field_path, hand, detail));
    }
}

/// Bits of entropy that shuffle sharding needs for this number of queues and hand size.
// upstream: staging/src/k8s.io/apiserver/pkg/util/shufflesharding/shufflesharding.go RequiredEntropyBits
fn required_entropy_bits(queues: i64, hand: i64) -> f64 {
    let float = |number: i64| i32::try_from(number).map_or(f64::MAX, f64::from);
    (float(queues).log2() * float(hand)).ceil()
}

/// Mandatory levels have a fixed spec, except for the shares of the exempt level.
// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateIfMandatoryPriorityLevelConfigurationObject
fn validate_if_mandatory(name: &str, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if !bootstrap::MANDATORY.contains(&name) {
        return;
    }
    let exempt = name == "exempt";
    let fixed = bootstrap::priority_levels()
        .filter(|level| level.at("metadata").text("name") == name)
        .any(|mut level| {
            if exempt {
                level.ensure_object("spec").copy_from("exempt", spec);
            }
            level.at("spec") == spec
        });
    if !fixed {
        let except = if exempt {
            " except the 'spec.exempt' field"
        } else {
            ""
        };
        let detail = format!("spec of '{name}'{except} must equal the fixed value");
        errors.push(Error::invalid(
            at,
            BadValue::Printed(go_values::internal_json(
                "flowcontrol",
                "PriorityLevelConfigurationSpec",
                spec,
            )),
            detail,
        ));
    }
}

/// Declarative validation of the unions, whose errors are last.
// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateLimitResponse
fn validate_unions(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = spec.text("type");
    if kind != "Exempt" && spec.has("exempt") {
        errors.push(Error::forbidden(&at.child("exempt"), ""));
    }
    validate_union_member(spec, "Limited", "limited", at, errors);
    if kind.is_empty() {
        errors.push(Error::required(&at.child("type"), ""));
    }
    if spec.has("limited") {
        let response = spec.at("limited").at("limitResponse");
        let field_path = at.child("limited");
        let field_path = field_path.child("limitResponse");
        validate_union_member(response, "Queue", "queuing", &field_path, errors);
        if response.text("type").is_empty() {
            errors.push(Error::required(&field_path.child("type"), ""));
        }
    }
}

/// A union member must be set if and only if the discriminator has its value.
fn validate_union_member(holder: &Value, kind: &str, part: &str, at: &Path<'_>, errors: &mut ErrorList) {
    match (holder.text("type") == kind, holder.has(part)) {
        (true, false) => errors.push(Error::required(&at.child(part), "")),
        (false, true) => errors.push(Error::forbidden(&at.child(part), "")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(name: &str, spec: &Value) -> Vec<String> {
        let mut object = json!({"metadata": {"name": name}, "spec": spec});
        PriorityLevelConfiguration.set_defaults(&mut object);
        let mut errors = ErrorList::new();
        let at = Path::new("spec");
        validate_priority_level_spec(name, object.at("spec"), &at, &mut errors);
        validate_if_mandatory(name, object.at("spec"), &at, &mut errors);
        validate_unions(object.at("spec"), &at, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bootstrap_levels_are_valid() {
        for level in bootstrap::priority_levels() {
            let name = level["metadata"]["name"].as_str().unwrap();
            assert_eq!(messages(name, &level["spec"]), [] as [&str; 0], "{name}");
        }
        let spec = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 9}});
        assert_eq!(messages("exempt", &spec), [] as [&str; 0]);
    }

    #[test]
    fn rejects_union_members_of_another_type() {
        let spec = json!({"type": "Limited", "exempt": {}, "limited": {"limitResponse": {"type": "Queue"}}});
        assert_eq!(
            messages("a", &spec),
            [
                "spec.exempt: Forbidden",
                "spec.limited.limitResponse.queuing: Required value",
            ]
        );
        assert_eq!(messages("a", &json!({})), ["spec.type: Required value"]);
    }

    #[test]
    fn rejects_hand_sizes_with_too_much_entropy() {
        let queuing = json!({"queues": 1024, "handSize": 7});
        let spec =
            json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}});
        assert_eq!(
            messages("a", &spec),
            [
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 7: required entropy bits of deckSize 1024 and \
                 handSize 7 should not be greater than 60",
            ]
        );
    }
}
