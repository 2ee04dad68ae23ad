//! Quantities of resources.

use std::cmp::Ordering;

use serde_json::Value;

use super::{super::error_list::ErrorListExt, name::is_integer};
use crate::{
    field::Path,
    kinds::field_checks::quantity_or_zero,
    quantity::{MILLI, Quantity},
    strategy::{ErrorList, TreeMut},
};

/// Rounds the quantities of a resource list up to milli-units, the finest the API keeps.
// upstream: pkg/apis/core/v1/defaults.go SetDefaults_ResourceList
pub(crate) fn set_defaults_resource_list(list: &mut Value) {
    for value in list
        .as_object_mut()
        .into_iter()
        .flat_map(serde_json::Map::values_mut)
    {
        // Most quantities need no rounding and no parsing.
        if value
            .as_str()
            .is_some_and(|text| !text.contains(['.', 'n', 'u', 'e']))
        {
            continue;
        }
        let mut rounded = quantity_or_zero(value);
        rounded.round_up(MILLI);
        *value = Value::String(rounded.to_string());
    }
}

/// The same for limits and requests of `resources`.
pub(in super::super) fn set_defaults_resource_requirements(requirements: &mut Value) {
    for name in ["limits", "requests"] {
        if let Some(list) = requirements.at_mut(name) {
            set_defaults_resource_list(list);
        }
    }
}

/// Whether a quantity of huge pages is a multiple of the page size in the name.
// upstream: pkg/apis/core/helper/helpers.go IsHugePageResourceValueDivisible
pub(crate) fn is_huge_page_value_divisible(name: &str, amount: &Quantity) -> bool {
    let Some(Ok(size)) = name.strip_prefix("hugepages-").map(str::parse::<Quantity>) else {
        return false;
    };
    size.sign() == Ordering::Greater && size.milli_value() % 1000 == 0 && amount.value() % size.value() == 0
}

// upstream: pkg/apis/core/validation/validation.go ValidateResourceQuantityValue
pub(crate) fn validate_resource_quantity_value(
    name: &str,
    amount: &Quantity,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if amount.sign() == Ordering::Less {
        errors.invalid(at, amount.to_string(), "must be greater than or equal to 0");
    }
    if is_integer(name) && amount.milli_value() % 1000 != 0 {
        errors.invalid(at, amount.to_string(), "must be an integer");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rounds_quantities_up_to_milli_units() {
        let mut list = json!({"cpu": "1500u", "memory": "1Gi", "x": "0.1m"});
        set_defaults_resource_list(&mut list);
        assert_eq!(list, json!({"cpu": "2m", "memory": "1Gi", "x": "1m"}));
    }

    #[test]
    fn detects_indivisible_huge_pages() {
        let divides =
            |name, amount: &str| is_huge_page_value_divisible(name, &amount.parse().expect("an amount"));
        assert!(divides("hugepages-2Mi", "4Mi"));
        assert!(!divides("hugepages-2Mi", "3Mi") && !divides("hugepages-x", "1"));
    }
}
