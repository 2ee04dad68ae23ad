//! What containers and pods ask for: requests, limits and claims.

use std::{
    cell::LazyCell,
    collections::{HashMap, HashSet},
};

use serde_json::{Map, Value, json};

use super::{
    super::report::Report,
    amount::{page_divides, validate_amount},
    name::{is_hugepages, overcommits, validate_pod_name},
    quantity_or_zero, validate_container_name,
};
use crate::{
    bound::{self, MOST_VALUE},
    field::{Error, Path},
    name::dns1123_label,
    quantity::Quantity,
    rules::{Errors, Tree},
};

/// Who asks for resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Holder {
    /// A container.
    Container,
    /// A pod as a whole.
    Pod,
}

/// Whether amounts of pages must be whole numbers of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Pages {
    /// They must.
    Whole,
    /// The old object has others, which stay.
    Any,
}

/// What is wrong with what pods need beside their containers, told as limits of a container.
pub(crate) fn validate_overhead(amounts: &Value, at: &Path<'_>, errors: &mut Errors) {
    let requirements = json!({"limits": amounts});
    validate_requirements(&requirements, Holder::Container, &[], Pages::Whole, at, errors);
}

/// What is wrong with what someone asks for.
pub(in super::super) fn validate_requirements(
    requirements: &Value,
    holder: Holder,
    claims: &[&str],
    pages: Pages,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let limits = requirements.entries("limits");
    let requests = requirements.entries("requests");
    let limits_at = at.child("limits");
    let requests_at = at.child("requests");
    for (name, value) in limits {
        let field_path = limits_at.key(name);
        entry(
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
        let asked = quantity_or_zero(value);
        entry(name, &asked, holder, pages, &field_path, errors, |errors| {
            within_limit(name, &asked, limits, &limits_at, &requests_at, errors);
        });
    }
    let either = |wanted: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| wanted(name));
    if either(is_hugepages) && !either(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
    claim_names(requirements.items("claims"), claims, &at.child("claims"), errors);
}

/// Judges the name and amount of one entry; `between` judges what else is asked, before the size of pages.
fn entry(
    name: &str,
    amount: &Quantity,
    holder: Holder,
    pages: Pages,
    at: &Path<'_>,
    errors: &mut Errors,
    between: impl FnOnce(&mut Errors),
) {
    match holder {
        Holder::Container => validate_container_name(name, at, errors),
        Holder::Pod => validate_pod_name(name, at, errors),
    }
    validate_amount(name, amount, at, errors);
    between(errors);
    if pages == Pages::Whole && is_hugepages(name) && !page_divides(name, amount) {
        let detail = format!("{amount} is not positive integer multiple of {name}");
        errors.invalid(at, amount.to_string(), detail);
    }
}

fn within_limit(
    name: &str,
    asked: &Quantity,
    limits: &Map<String, Value>,
    limits_at: &Path<'_>,
    requests_at: &Path<'_>,
    errors: &mut Errors,
) {
    let Some(limit) = limits.get(name).map(quantity_or_zero) else {
        if !overcommits(name) {
            errors.required(limits_at, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    if *asked != limit && !overcommits(name) {
        let detail = format!("must be equal to {name} limit of {limit}");
        errors.invalid(requests_at, asked.to_string(), detail);
    } else if *asked > limit {
        let detail = format!("must be less than or equal to {name} limit of {limit}");
        errors.invalid(requests_at, asked.to_string(), detail);
    }
}

/// The claims must be the pod's, each once, as a whole or by requests.
fn claim_names(claims: &[Value], known: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    // How often each claim was named.
    let mut times: HashMap<&str, usize> = HashMap::new();
    let known_names: HashSet<&str> = known.iter().copied().collect();
    // Every error lists all claims of the pod: the list is made once.
    let listed = LazyCell::new(|| {
        let mut known = known.to_vec();
        known.sort_unstable();
        known.dedup();
        bound::cut_owned(known.join(", "), MOST_VALUE)
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
                errors.push_invalid(&field_path.child("request"), request, dns1123_label(request));
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
            if known.is_empty() {
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

    fn judged(requirements: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        let holder = Holder::Container;
        let at = Path::new("resources");
        validate_requirements(requirements, holder, &["a"], Pages::Whole, &at, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requests_stay_within_limits() {
        assert_eq!(
            judged(&json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2", "memory": "1Gi"}})),
            ["resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"]
        );
        assert_eq!(
            judged(&json!({"requests": {"example.com/gpu": "1"}})),
            ["resources.limits: Required value: Limit must be set for non overcommitable resources"]
        );
    }

    #[test]
    fn a_claim_is_named_once_and_is_the_pods() {
        assert_eq!(
            judged(&json!({"claims": [{"name": "a", "request": "r"}, {"name": "a"}, {"name": "b"}]})),
            [
                "resources.claims[1]: Duplicate value: \"a\"",
                "resources.claims[2]: Not found: \"b\": must be one of the names in pod.spec.resourceClaims: a"
            ]
        );
    }
}
