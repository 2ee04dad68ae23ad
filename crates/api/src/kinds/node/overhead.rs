//! What running a pod costs beside its containers: amounts of resources that containers can ask for.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::core::pod::resources::{amount, page_divides, validate_amount, validate_container_name},
    rules::{Errors, Tree},
};

const HUGE_PAGES: &str = "hugepages-";

/// What is wrong with an overhead. The place of an amount is told as that of a container's limit.
pub(super) fn validate(overhead: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.child("limits");
    let amounts = overhead.entries("podFixed");
    for (resource, value) in amounts {
        let at = list.key(resource);
        validate_container_name(resource, &at, errors);
        let amount = amount(value);
        validate_amount(resource, &amount, &at, errors);
        if resource.starts_with(HUGE_PAGES) && !page_divides(resource, &amount) {
            let detail = format!("{amount} is not positive integer multiple of {resource}");
            errors.push(Error::invalid(&at, amount.to_string(), detail));
        }
    }
    let sized = ["cpu", "memory"].iter().any(|name| amounts.contains_key(*name));
    if !sized && amounts.keys().any(|name| name.starts_with(HUGE_PAGES)) {
        errors.push(Error::forbidden(at, "HugePages require cpu or memory"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(amounts: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate(&json!({"podFixed": amounts}), &Path::new("o"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_containers_use_can_be_overhead() {
        let good = json!({"cpu": "250m", "memory": "64Mi", "e.com/x": "1", "hugepages-2Mi": "4Mi"});
        assert_eq!(errors(&good), [""; 0]);
        assert_eq!(
            errors(&json!({"pods": "1"})),
            ["o.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers"]
        );
        assert_eq!(
            errors(&json!({"requests.e.com/x": "1"})),
            [
                "o.limits[requests.e.com/x]: Invalid value: \"requests.e.com/x\": doesn't follow extended resource name \
              standard"
            ]
        );
    }

    #[test]
    fn amounts_are_positive_and_whole_where_they_must() {
        assert_eq!(
            errors(&json!({"cpu": "-1", "e.com/x": "1500m", "hugepages-2Mi": "3Mi"})),
            [
                "o.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "o.limits[e.com/x]: Invalid value: \"1500m\": must be an integer",
                "o.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            ]
        );
        assert_eq!(
            errors(&json!({"hugepages-2Mi": "2Mi"})),
            ["o: Forbidden: HugePages require cpu or memory"]
        );
    }
}
