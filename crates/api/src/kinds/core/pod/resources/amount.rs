//! Amounts of resources.

use std::cmp::Ordering;

use serde_json::Value;

use super::{super::report::Report, name::is_integer};
use crate::{
    field::Path,
    kinds::field_checks::quantity_or_zero,
    quantity::{MILLI, Quantity},
    rules::{Errors, TreeMut},
};

/// Rounds the amounts of a resource list up to thousandths, the finest the API keeps.
pub(crate) fn default_list(list: &mut Value) {
    for value in list
        .as_object_mut()
        .into_iter()
        .flat_map(serde_json::Map::values_mut)
    {
        // Most amounts are fine enough to see at a glance.
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

/// The same for the limits and requests of `resources`.
pub(in super::super) fn default_requirements(requirements: &mut Value) {
    for name in ["limits", "requests"] {
        if let Some(list) = requirements.at_mut(name) {
            default_list(list);
        }
    }
}

/// Whether an amount of pages is a whole number of pages of the size the name says.
pub(crate) fn page_divides(name: &str, amount: &Quantity) -> bool {
    let Some(Ok(size)) = name.strip_prefix("hugepages-").map(str::parse::<Quantity>) else {
        return false;
    };
    size.sign() == Ordering::Greater && size.milli_value() % 1000 == 0 && amount.value() % size.value() == 0
}

/// What is wrong with an amount of a resource.
pub(crate) fn validate_amount(name: &str, amount: &Quantity, at: &Path<'_>, errors: &mut Errors) {
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
    fn amounts_round_up_to_thousandths() {
        let mut list = json!({"cpu": "1500u", "memory": "1Gi", "x": "0.1m"});
        default_list(&mut list);
        assert_eq!(list, json!({"cpu": "2m", "memory": "1Gi", "x": "1m"}));
    }

    #[test]
    fn pages_come_whole() {
        let divides = |name, amount: &str| page_divides(name, &amount.parse().expect("an amount"));
        assert!(divides("hugepages-2Mi", "4Mi"));
        assert!(!divides("hugepages-2Mi", "3Mi") && !divides("hugepages-x", "1"));
    }
}
