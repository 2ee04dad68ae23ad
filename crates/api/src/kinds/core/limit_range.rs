//! LimitRange: bounds and defaults of resources of pods, containers and claims in a namespace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::pod::resources::{
    is_overcommit_allowed, set_defaults_resource_list, validate_container_resource_name,
    validate_resource_name,
};
use crate::{
    field::{Error, Path},
    kinds::{field_checks::push_invalid, go_values::typed_string},
    name,
    quantity::{Format, Quantity},
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree, TreeMut},
};

pub(super) struct LimitRange;

const POD: &str = "Pod";
const CONTAINER: &str = "Container";
const CLAIM: &str = "PersistentVolumeClaim";

const MAX: &str = "max";
const MIN: &str = "min";
const DEFAULT: &str = "default";
const DEFAULT_REQUEST: &str = "defaultRequest";
const MAX_LIMIT_REQUEST_RATIO: &str = "maxLimitRequestRatio";

/// Up to this quantity milli-units are compared.
const MAX_IN_MILLIS: i64 = i64::MAX / 1000;

// upstream: pkg/registry/core/limitrange/strategy.go limitrangeStrategy
impl RestStrategy for LimitRange {
    fn set_defaults(&self, object: &mut Value) {
        for limit in object.ensure_object("spec").items_mut("limits") {
            if limit.text("type") == CONTAINER {
                copy_missing(limit, DEFAULT, MAX);
                copy_missing(limit, DEFAULT_REQUEST, DEFAULT);
                copy_missing(limit, DEFAULT_REQUEST, MIN);
            }
            for list in [MAX, MIN, DEFAULT, DEFAULT_REQUEST, MAX_LIMIT_REQUEST_RATIO] {
                if let Some(list) = limit.at_mut(list) {
                    set_defaults_resource_list(list);
                }
            }
        }
    }

    // upstream: pkg/registry/core/limitrange/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        // upstream: pkg/registry/core/limitrange/strategy.go PrepareForCreate; a LimitRange gets a generated name if it has none
        let metadata = object.ensure_object("metadata");
        if metadata.text("name").is_empty() && metadata.has("uid") {
            let uid = metadata.text("uid").to_owned();
            metadata.set("name", uid);
        }
    }

    // upstream: pkg/registry/core/limitrange/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, _: &mut Value, _: &Value, _: &StrategyContext<'_>) {}

    // upstream: pkg/apis/core/validation/validation.go ValidateLimitRange
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = Path::new("spec");
        let root = spec.child("limits");
        let mut types = BTreeSet::new();
        for (index, limit) in object.at("spec").items("limits").iter().enumerate() {
            let field_path = root.index(index);
            let ty = limit.text("type");
            validate_limit_type(errors, &field_path.child("type"), ty);
            if !types.insert(ty) {
                errors.push(Error::duplicate(&field_path.child("type"), typed_string(ty)));
            }
            validate_limit(errors, &field_path, limit, ty);
        }
    }

    // upstream: pkg/registry/core/limitrange/strategy.go AllowCreateOnUpdate
    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// Quantities that a list lacks are copied from another.
// upstream: pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem
fn copy_missing(limit: &mut Value, into: &str, from: &str) {
    let amounts = limit.entries(from).clone();
    if !amounts.is_empty() {
        let target = limit.ensure_object(into);
        for (name, amount) in amounts {
            target.set_default(&name, amount);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateLimitRangeTypeName
fn validate_limit_type(errors: &mut ErrorList, at: &Path<'_>, ty: &str) {
    let msgs = name::validate_label_key(ty);
    if !msgs.is_empty() {
        push_invalid(ty, msgs, at, errors);
    } else if !ty.contains('/') && ![POD, CONTAINER, CLAIM].contains(&ty) {
        let detail = "must be a standard limit type or fully qualified";
        errors.push(Error::invalid(at, typed_string(ty), detail));
    }
}

/// The valid quantities of one list by name.
type QuantitiesByName<'v> = BTreeMap<&'v str, Quantity>;

// upstream: pkg/apis/core/validation/validation.go ValidateLimitRange
fn validate_limit(errors: &mut ErrorList, at: &Path<'_>, limit: &Value, ty: &str) {
    let max = parse_list(errors, at, limit, ty, MAX);
    let min = parse_list(errors, at, limit, ty, MIN);
    let mut default = QuantitiesByName::new();
    let mut request = QuantitiesByName::new();
    if ty == POD {
        for list in [DEFAULT, DEFAULT_REQUEST] {
            if !limit.entries(list).is_empty() {
                let detail = "may not be specified when `type` is 'Pod'";
                errors.push(Error::forbidden(&at.child(list), detail));
            }
        }
    } else {
        default = parse_list(errors, at, limit, ty, DEFAULT);
        request = parse_list(errors, at, limit, ty, DEFAULT_REQUEST);
    }
    if ty == CLAIM && !limit.at(MIN).has("storage") && !limit.at(MAX).has("storage") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(Error::required(&at.child("limits"), detail));
    }
    let ratio = parse_list(errors, at, limit, ty, MAX_LIMIT_REQUEST_RATIO);
    let names: BTreeSet<&str> = [&max, &min, &default, &request, &ratio]
        .into_iter()
        .flat_map(|amounts| amounts.keys().copied())
        .collect();
    for name in names {
        let bounds = ResourceBounds {
            name,
            max: max.get(name),
            min: min.get(name),
            default: default.get(name),
            request: request.get(name),
            ratio: ratio.get(name),
        };
        bounds.validate(errors, at);
    }
}

/// Parses a list of quantities, and reports invalid names.
fn parse_list<'v>(
    errors: &mut ErrorList,
    at: &Path<'_>,
    limit: &'v Value,
    ty: &str,
    list: &str,
) -> QuantitiesByName<'v> {
    let field_path = at.child(list);
    let mut amounts = QuantitiesByName::new();
    for (name, amount) in limit.entries(list) {
        if matches!(ty, POD | CONTAINER) {
            validate_container_resource_name(name, &field_path.key(name), errors);
        } else {
            validate_resource_name(name, &field_path.key(name), errors);
        }
        if let Ok(amount) = Quantity::from_value(amount) {
            amounts.insert(name, amount);
        }
    }
    amounts
}

/// All constraints of one resource.
struct ResourceBounds<'b> {
    name: &'b str,
    max: Option<&'b Quantity>,
    min: Option<&'b Quantity>,
    default: Option<&'b Quantity>,
    request: Option<&'b Quantity>,
    ratio: Option<&'b Quantity>,
}

impl ResourceBounds<'_> {
    // upstream: pkg/apis/core/validation/validation.go ValidateLimitRange
    fn validate(&self, errors: &mut ErrorList, at: &Path<'_>) {
        let mut push_invalid_at = |list: &str, quantity: &Quantity, detail: String| {
            let field_path = at.child(list);
            errors.push(Error::invalid(
                &field_path.key(self.name),
                quantity.to_string(),
                detail,
            ));
        };
        let pairs = [
            (MIN, self.min, "min", self.min, "max", self.max),
            (
                DEFAULT_REQUEST,
                self.request,
                "min",
                self.min,
                "default request",
                self.request,
            ),
            (
                DEFAULT_REQUEST,
                self.request,
                "default request",
                self.request,
                "max",
                self.max,
            ),
            (
                DEFAULT_REQUEST,
                self.request,
                "default request",
                self.request,
                "default limit",
                self.default,
            ),
            (DEFAULT, self.min, "min", self.min, "default", self.default),
            (DEFAULT, self.max, "default", self.default, "max", self.max),
        ];
        for (list, quantity, low_name, low, high_name, high) in pairs {
            if let (Some(quantity), Some(low), Some(high)) = (quantity, low, high)
                && low > high
            {
                push_invalid_at(
                    list,
                    quantity,
                    format!("{low_name} value {low} is greater than {high_name} value {high}"),
                );
            }
        }
        if let Some(ratio) = self.ratio {
            if *ratio < Quantity::new(1, Format::DecimalSi) {
                push_invalid_at(
                    MAX_LIMIT_REQUEST_RATIO,
                    ratio,
                    format!("ratio {ratio} is less than 1"),
                );
            }
            if let (Some(min), Some(max)) = (self.min, self.max) {
                let (requested, max_ratio) = ratios(ratio, min, max);
                if requested > max_ratio {
                    push_invalid_at(
                        MAX_LIMIT_REQUEST_RATIO,
                        ratio,
                        format!("ratio {ratio} is greater than max/min = {max_ratio:.6}"),
                    );
                }
            }
        }
        if let (Some(default), Some(request)) = (self.default, self.request)
            && default != request
            && !is_overcommit_allowed(self.name)
        {
            let name = self.name;
            push_invalid_at(
                DEFAULT_REQUEST,
                request,
                format!("default value {default} must equal to defaultRequest value {request} in {name}"),
            );
        }
    }
}

/// The requested ratio, and the highest possible.
#[expect(clippy::cast_precision_loss, reason = "an estimate is what clients know")]
fn ratios(ratio: &Quantity, min: &Quantity, max: &Quantity) -> (f64, f64) {
    let all = [ratio, min, max];
    if all.iter().all(|amount| amount.value() < MAX_IN_MILLIS) {
        let [ratio, min, max] = all.map(|amount| amount.milli_value() as f64);
        (ratio / 1000.0, max / min)
    } else {
        let [ratio, min, max] = all.map(|amount| amount.value() as f64);
        (ratio, max / min)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_container_limits() {
        let mut range = json!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": "1999500u"}, "min": {"cpu": "1", "memory": "1Mi"}},
            {"type": "Pod", "max": {"cpu": "2"}},
        ]}});
        LimitRange.set_defaults(&mut range);
        assert_eq!(
            range["spec"]["limits"],
            json!([
                {
                    "type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"},
                    "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"},
                },
                {"type": "Pod", "max": {"cpu": "2"}},
            ])
        );
    }

    #[test]
    fn rejects_inconsistent_bounds() {
        let limit = json!({
            "max": {"cpu": "1"}, "min": {"cpu": "2"}, "default": {"cpu": "3", "hugepages-2Mi": "2Mi"},
            "defaultRequest": {"cpu": "4", "hugepages-2Mi": "4Mi"}, "maxLimitRequestRatio": {"cpu": "500m"},
        });
        let mut errors = ErrorList::new();
        validate_limit(&mut errors, &Path::new("l"), &limit, CONTAINER);
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "l.min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                "l.defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than max value 1",
                "l.defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than default limit \
                 value 3",
                "l.default[cpu]: Invalid value: \"1\": default value 3 is greater than max value 1",
                "l.maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
                "l.defaultRequest[hugepages-2Mi]: Invalid value: \"4Mi\": default request value 4Mi is greater than \
                 default limit value 2Mi",
                "l.defaultRequest[hugepages-2Mi]: Invalid value: \"4Mi\": default value 2Mi must equal to \
                 defaultRequest value 4Mi in hugepages-2Mi",
            ]
        );
    }

    #[test]
    fn rejects_ratios_out_of_bounds() {
        let limit = json!({"max": {"cpu": "4"}, "min": {"cpu": "3"}, "maxLimitRequestRatio": {"cpu": "2"}});
        let mut errors = ErrorList::new();
        validate_limit(&mut errors, &Path::new("l"), &limit, POD);
        assert_eq!(errors[0].detail, "ratio 2 is greater than max/min = 1.333333");
        assert_eq!(errors.len(), 1);
    }
}
