//! Request policies of device capacities: which amounts a claim may request (consumable capacity, KEP-5075).

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    quantity::{Format, Quantity},
    strategy::{ErrorList, Tree},
};

const MAX_VALID_VALUES: usize = 10;

/// What amounts are counted in to compare them with steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepUnit {
    One,
    Thousandth,
}

/// Validates a capacity of a device.
// upstream: pkg/apis/resource/validation/validation.go validateMultiAllocatableDeviceCapacity, validateSingleAllocatableDeviceCapacity, validateRequestPolicy
pub(super) fn validate_capacity(capacity: &Value, device: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let policy = capacity.at("requestPolicy");
    if policy.is_null() {
        return;
    }
    let at = at.child("requestPolicy");
    if !device.flag("allowMultipleAllocations") {
        errors.push(Error::forbidden(&at, "allowMultipleAllocations must be true"));
        return;
    }
    let whole = field_checks::quantity_or_zero(capacity.at("value"));
    let has_values = !policy.items("validValues").is_empty();
    let default = policy
        .has("default")
        .then(|| field_checks::quantity_or_zero(policy.at("default")));
    match (has_values, policy.has("validRange"), default) {
        (true, true, _) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.push(Error::forbidden(&at, detail));
        }
        (true, false, None) => {
            let detail = "required when validValues is defined";
            errors.push(Error::required(&at.child("default"), detail));
        }
        (false, true, None) => {
            let detail = "required when validRange is defined";
            errors.push(Error::required(&at.child("default"), detail));
        }
        (true, false, Some(default)) => {
            let values: Vec<_> = policy
                .items("validValues")
                .iter()
                .map(field_checks::quantity_or_zero)
                .collect();
            validate_valid_values(&values, &default, &whole, &at.child("validValues"), errors);
        }
        (false, true, Some(default)) => {
            let range = RequestRange::parse(policy.at("validRange"), default);
            range.validate(&whole, &at.child("validRange"), errors);
        }
        (false, false, _) => {}
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateRequestPolicyValidValues
fn validate_valid_values(
    values: &[Quantity],
    default: &Quantity,
    whole: &Quantity,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (index, pair) in values.windows(2).enumerate() {
        if let [before, after] = pair
            && before > after
        {
            let detail = "values must be sorted in ascending order";
            errors.push(Error::invalid(&at.index(index + 1), after.to_string(), detail));
        }
    }
    if values.len() > MAX_VALID_VALUES {
        errors.push(Error::too_many(at, Some(values.len()), MAX_VALID_VALUES));
    } else {
        for (index, value) in values.iter().enumerate() {
            if value > whole {
                let detail = format!("option is larger than capacity value: {whole}");
                errors.push(Error::invalid(&at.index(index), value.to_string(), detail));
            }
        }
        for (index, value) in values.iter().enumerate() {
            if values[..index].contains(value) {
                errors.push(Error::duplicate(&at.index(index), without_suffix(value)));
            }
        }
    }
    if values.len() > MAX_VALID_VALUES || !values.contains(default) {
        let detail = "default value is not valid according to the requestPolicy";
        errors.push(Error::invalid(at, default.to_string(), detail));
    }
}

// upstream: pkg/apis/resource/validation/validation.go quantityKeyAsDec
/// An amount without its suffix.
fn without_suffix(amount: &Quantity) -> String {
    if is_fractional(amount) {
        let milli = amount.milli_value();
        format!("{}.{:03}", milli / 1000, milli.abs() % 1000)
    } else {
        amount.value().to_string()
    }
}

// upstream: pkg/apis/resource/validation/validation.go isFractionalQuantity
fn is_fractional(amount: &Quantity) -> bool {
    let mut whole = amount.clone();
    whole.round_up(0);
    whole != *amount
}

/// A `validRange` of amounts with the default.
struct RequestRange {
    default: Quantity,
    min: Option<Quantity>,
    max: Option<Quantity>,
    step: Option<Quantity>,
}

impl RequestRange {
    fn parse(range: &Value, default: Quantity) -> Self {
        let read = |name: &str| {
            range
                .has(name)
                .then(|| field_checks::quantity_or_zero(range.at(name)))
        };
        RequestRange {
            default,
            min: read("min"),
            max: read("max"),
            step: read("step"),
        }
    }

    // upstream: pkg/apis/resource/validation/validation.go rangeHasFractional
    fn bounds(&self) -> impl Iterator<Item = (&'static str, &Quantity)> {
        [
            ("default", Some(&self.default)),
            ("min", self.min.as_ref()),
            ("max", self.max.as_ref()),
            ("step", self.step.as_ref()),
        ]
        .into_iter()
        .filter_map(|(name, bound)| bound.map(|bound| (name, bound)))
    }

    // upstream: pkg/apis/resource/validation/validation.go validateRequestPolicyRange
    fn validate(&self, whole: &Quantity, at: &Path<'_>, errors: &mut ErrorList) {
        let Some(min) = &self.min else {
            let detail = "required when validRange is defined";
            errors.push(Error::required(&at.child("min"), detail));
            return;
        };
        let mut reject = |name: &str, quantity: &Quantity, detail: String| {
            errors.push(Error::invalid(&at.child(name), quantity.to_string(), detail));
        };
        if min > whole {
            reject("min", min, format!("min is larger than capacity value: {whole}"));
        }
        if self.default < *min {
            reject(
                "default",
                &self.default,
                format!("default is less than min: {min}"),
            );
        }
        if let Some(max) = &self.max {
            if min > max {
                reject("max", min, format!("min is larger than max: {max}"));
            }
            if max > whole {
                reject("max", max, format!("max is larger than capacity value: {whole}"));
            }
            if self.default > *max {
                reject(
                    "default",
                    &self.default,
                    format!("default is more than max: {max}"),
                );
            }
        }
        // Steps are counted in thousandths as soon as one amount is fractional.
        let unit = if self.bounds().any(|(_, bound)| is_fractional(bound)) {
            StepUnit::Thousandth
        } else {
            StepUnit::One
        };
        if unit == StepUnit::Thousandth {
            let before = errors.len();
            for (name, bound) in self.bounds() {
                if Quantity::milli(bound.milli_value(), bound.format()) != *bound {
                    let detail = "value cannot be represented as a milli value";
                    errors.push(Error::invalid(&at.child(name), bound.to_string(), detail));
                }
            }
            if errors.len() > before {
                return;
            }
        }
        if let Some(step) = &self.step {
            self.validate_step(step, min, whole, unit, at, errors);
        }
    }

    // upstream: pkg/apis/resource/validation/validation.go validateRequestPolicyRangeStep
    fn validate_step(
        &self,
        step: &Quantity,
        min: &Quantity,
        whole: &Quantity,
        unit: StepUnit,
        at: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        let field_path = at.child("step");
        if !step.sign().is_gt() {
            let detail = "must be greater than zero";
            errors.push(Error::invalid(&field_path, step.to_string(), detail));
            return;
        }
        let mut added = min.clone();
        added.add(step);
        if added > *whole {
            let detail = format!("one step {added} is larger than capacity value: {whole}");
            errors.push(Error::invalid(&field_path, step.to_string(), detail));
        }
        if unit == StepUnit::One {
            let before = errors.len();
            for (name, bound) in self.bounds() {
                let detail = if bound.sign().is_lt() {
                    "must be greater than or equal to 0"
                } else if *bound > Quantity::new(i64::MAX, Format::DecimalSi) {
                    "must not be larger than 9223372036854775807"
                } else {
                    continue;
                };
                errors.push(Error::invalid(&at.child(name), bound.to_string(), detail));
            }
            if errors.len() > before {
                return;
            }
        }
        let count = |amount: &Quantity| match unit {
            StepUnit::One => amount.value(),
            StepUnit::Thousandth => amount.milli_value(),
        };
        for value in [Some(&self.default), self.max.as_ref()].into_iter().flatten() {
            let rest = count(value).wrapping_sub(count(min)).checked_rem(count(step));
            if rest != Some(0) {
                let detail = format!("value is not a multiple of a given step ({step}) from ({min})");
                errors.push(Error::invalid(&field_path, value.to_string(), detail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(policy: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        let capacity = json!({"value": "10", "requestPolicy": policy});
        let device = json!({"allowMultipleAllocations": true});
        validate_capacity(&capacity, &device, &Path::new("c"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requires_increasing_values_with_the_default() {
        assert!(errors(&json!({"default": "2", "validValues": ["1", "2"]})).is_empty());
        assert_eq!(
            errors(&json!({"default": "3", "validValues": ["2", "1", "11"]})),
            [
                "c.requestPolicy.validValues[1]: Invalid value: \"1\": values must be sorted in ascending order",
                "c.requestPolicy.validValues[2]: Invalid value: \"11\": option is larger than capacity value: 10",
                "c.requestPolicy.validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy",
            ]
        );
    }

    #[test]
    fn rejects_ranges_with_partial_steps() {
        assert!(
            errors(&json!({"default": "3", "validRange": {"min": "1", "max": "5", "step": "2"}})).is_empty()
        );
        assert!(errors(&json!({"default": "1500m", "validRange": {"min": "1", "step": "500m"}})).is_empty());
        assert_eq!(
            errors(&json!({"default": "2", "validRange": {"min": "1", "step": "2"}})),
            [
                "c.requestPolicy.validRange.step: Invalid value: \"2\": value is not a multiple of a given step (2) from (1)"
            ]
        );
        assert_eq!(
            errors(&json!({"default": "2", "validRange": {"step": "2"}})),
            ["c.requestPolicy.validRange.min: Required value: required when validRange is defined"]
        );
    }
}
