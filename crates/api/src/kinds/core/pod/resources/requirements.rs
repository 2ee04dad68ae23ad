//! Resource requirements of containers and pods: requests, limits and claims.

use std::{
    cell::LazyCell,
    collections::{HashMap, HashSet},
};

use serde_json::{Map, Value, json};

use super::{
    super::error_list::ErrorListExt,
    amount::{is_huge_page_value_divisible, validate_resource_quantity_value},
    name::{is_hugepages, is_overcommit_allowed, validate_pod_resource_name},
    quantity_or_zero, validate_container_resource_name,
};
use crate::{
    field::{Error, Path},
    limits::{self, MAX_VALUE_BYTES},
    name::validate_dns1123_label,
    quantity::Quantity,
    strategy::{ErrorList, Tree},
};

/// The owner of resource requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ResourceOwner {
    /// A container.
    Container,
    /// A pod (pod-level resources, KEP-2837).
    Pod,
}

/// Whether quantities of huge pages must be multiples of the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum HugePages {
    /// They must.
    Whole,
    /// The old object has indivisible ones, which are tolerated.
    Any,
}

/// Validates pod overhead. Errors name the limits of a container.
// upstream: pkg/apis/core/validation/validation.go validateOverhead
pub(crate) fn validate_overhead(amounts: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let requirements = json!({"limits": amounts});
    validate_requirements(
        &requirements,
        ResourceOwner::Container,
        &[],
        HugePages::Whole,
        at,
        errors,
    );
}

// upstream: pkg/apis/core/validation/validation.go validateResourceRequirements
pub(in super::super) fn validate_requirements(
    requirements: &Value,
    holder: ResourceOwner,
    claims: &[&str],
    pages: HugePages,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let limits = requirements.entries("limits");
    let requests = requirements.entries("requests");
    let limits_at = at.child("limits");
    let requests_at = at.child("requests");
    for (name, value) in limits {
        let field_path = limits_at.key(name);
        validate_entry(
            name,
            &quantity_or_zero(value),
            holder,
            pages,
            &field_path,
            errors,
            |_| {},
        );
    }
    for (name, value) in requests {
        let field_path = requests_at.key(name);
        let request = quantity_or_zero(value);
        validate_entry(name, &request, holder, pages, &field_path, errors, |errors| {
            validate_within_limit(name, &request, limits, &limits_at, &requests_at, errors);
        });
    }
    let either = |matches: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| matches(name));
    if either(is_hugepages) && !either(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
    validate_claim_names(requirements.items("claims"), claims, &at.child("claims"), errors);
}

/// Validates name and quantity of one entry; `between` validates more before the page size.
fn validate_entry(
    name: &str,
    amount: &Quantity,
    holder: ResourceOwner,
    pages: HugePages,
    at: &Path<'_>,
    errors: &mut ErrorList,
    between: impl FnOnce(&mut ErrorList),
) {
    match holder {
        ResourceOwner::Container => validate_container_resource_name(name, at, errors),
        ResourceOwner::Pod => validate_pod_resource_name(name, at, errors),
    }
    validate_resource_quantity_value(name, amount, at, errors);
    between(errors);
    if pages == HugePages::Whole && is_hugepages(name) && !is_huge_page_value_divisible(name, amount) {
        let detail = format!("{amount} is not positive integer multiple of {name}");
        errors.invalid(at, amount.to_string(), detail);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateResourceRequirements
fn validate_within_limit(
    name: &str,
    request: &Quantity,
    limits: &Map<String, Value>,
    limits_at: &Path<'_>,
    requests_at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(limit) = limits.get(name).map(quantity_or_zero) else {
        if !is_overcommit_allowed(name) {
            errors.required(limits_at, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    if *request != limit && !is_overcommit_allowed(name) {
        let detail = format!("must be equal to {name} limit of {limit}");
        errors.invalid(requests_at, request.to_string(), detail);
    } else if *request > limit {
        let detail = format!("must be less than or equal to {name} limit of {limit}");
        errors.invalid(requests_at, request.to_string(), detail);
    }
}

/// Claims must be those of the pod, each once, as a whole or by requests.
// upstream: pkg/apis/core/validation/validation.go validateResourceClaimNames
fn validate_claim_names(claims: &[Value], pod_claims: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    // How often each claim was named.
    let mut times: HashMap<&str, usize> = HashMap::new();
    let known_names: HashSet<&str> = pod_claims.iter().copied().collect();
    // Every error lists all claims of the pod: the list is built once.
    let listed = LazyCell::new(|| {
        let mut pod_claims = pod_claims.to_vec();
        pod_claims.sort_unstable();
        pod_claims.dedup();
        limits::cut_owned(pod_claims.join(", "), MAX_VALUE_BYTES)
    });
    for (index, claim) in claims.iter().enumerate() {
        let field_path = at.index(index);
        let name = claim.text("name");
        let request = claim.text("request");
        if name.is_empty() {
            errors.required(&field_path, "");
            continue;
        }
        if seen.contains(&(name, "")) {
            errors.duplicate(&field_path, name);
        } else {
            if !request.is_empty() {
                errors.push_invalid(
                    &field_path.child("request"),
                    request,
                    validate_dns1123_label(request),
                );
            }
            if seen.contains(&(name, request)) {
                errors.duplicate(&field_path, &format!("{name}/{request}"));
            } else if request.is_empty() {
                for _ in 0..times.get(name).copied().unwrap_or_default() {
                    errors.duplicate(&field_path, name);
                }
            }
            seen.insert((name, request));
            *times.entry(name).or_default() += 1;
        }
        if !known_names.contains(name) {
            let mut error = Error::not_found(&field_path, name);
            error
                .detail
                .push_str("must be one of the names in pod.spec.resourceClaims");
            if pod_claims.is_empty() {
                error.detail.push_str(" which is empty");
            } else {
                error.detail.push_str(": ");
                error.detail.push_str(&listed);
            }
            errors.push(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requirement_messages(requirements: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        let holder = ResourceOwner::Container;
        let at = Path::new("resources");
        validate_requirements(requirements, holder, &["a"], HugePages::Whole, &at, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_requests_above_limits() {
        assert_eq!(
            requirement_messages(&json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2", "memory": "1Gi"}})),
            ["resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"]
        );
        assert_eq!(
            requirement_messages(&json!({"requests": {"example.com/gpu": "1"}})),
            ["resources.limits: Required value: Limit must be set for non overcommitable resources"]
        );
    }

    #[test]
    fn rejects_unknown_and_duplicate_claims() {
        assert_eq!(
            requirement_messages(
                &json!({"claims": [{"name": "a", "request": "r"}, {"name": "a"}, {"name": "b"}]})
            ),
            [
                "resources.claims[1]: Duplicate value: \"a\"",
                "resources.claims[2]: Not found: \"b\": must be one of the names in pod.spec.resourceClaims: a"
            ]
        );
    }
}
