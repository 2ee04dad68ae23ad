//! What a call costs that has been made.

use super::{AUTHORIZER_CHECK, CostEstimate, LIST, REGEX, TEXT, scale, selector};
use crate::value::{List, OpaqueValue, Value};

/// The cost of a call. `overload` is empty if it was not known which it would be.
pub(crate) fn call(function: &str, overload: &str, args: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
    let arg = |at: usize| args.get(at).map_or(1, size);
    let traversed = |at: usize| scale(arg(at), TEXT);
    let searched = || scale(arg(0).saturating_add(1), TEXT).saturating_mul(scale(arg(1), REGEX));
    if let Some(cost) = by_overload(overload, args, result) {
        return cost;
    }
    match function {
        "check" => AUTHORIZER_CHECK,
        "ip" if overload == "cidr_ip" => 1,
        "fieldSelector" | "labelSelector" => selector(CostEstimate::fixed(arg(1))).max,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => args.first().map_or(0, traversal),
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "ip"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => traversed(0),
        "replace" | "split" | "ip.isCanonical" => scale(arg(0), 2.0 * TEXT),
        "join" => scale(result.map_or(1, size), 2.0 * TEXT),
        "find" | "findAll" => searched(),
        "containsIP" => {
            let text = if overload == "cidr_contains_ip_string" {
                traversed(1)
            } else {
                0
            };
            scale(arg(0) + arg(0), TEXT) + text
        }
        "containsCIDR" => {
            let text = if overload == "cidr_contains_cidr_string" {
                traversed(1)
            } else {
                0
            };
            scale(arg(0) + arg(0), TEXT) + traversed(0) + 1 + text
        }
        "validate" => match &args[0] {
            Value::Opaque(OpaqueValue::Format(format)) => {
                scale(arg(1).saturating_add(1), TEXT).saturating_mul(scale(format.regex_size, REGEX))
            }
            _ => 1,
        },
        "_==_" if matches!(args[0], Value::Opaque(_)) => 1,
        _ => standard(overload, args),
    }
}

/// What lists and sets cost, by what is done with them.
fn by_overload(overload: &str, args: &[Value<'_>], result: Option<&Value<'_>>) -> Option<u64> {
    let pair = || {
        args.first()
            .map_or(1, size)
            .saturating_mul(args.get(1).map_or(1, size))
    };
    Some(match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => pair().saturating_add(1),
        "list_sets_equivalent_list" => pair().saturating_mul(2).saturating_add(1),
        "list_slice" | "lists_range" | "list_reverse" => result.map_or(1, size).saturating_add(1 + LIST),
        "list_flatten" | "list_flatten_int" => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(1),
                _ => 1,
            };
            args.first()
                .map_or(1, size)
                .saturating_mul(depth)
                .saturating_add(1 + LIST)
        }
        "list_distinct" => compared(args.first()),
        overload if overload.ends_with("_sort") && overload.starts_with("list_") => compared(args.first()),
        overload if overload.ends_with("_sortByAssociatedKeys") => compared(args.get(1)),
        _ => return None,
    })
}

/// The cost of comparing each item with each.
fn compared(list: Option<&Value<'_>>) -> u64 {
    let Some(Value::List(list)) = list else {
        return 1 + LIST;
    };
    let texts = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
    let size = u64::try_from(list.len()).unwrap_or(u64::MAX);
    let factor = if texts { 2.0 + TEXT } else { 2.0 };
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "costs are counted in numbers of this precision"
    )]
    let cost = (size.saturating_mul(size) as f64 * factor) as u64;
    cost.saturating_add(1 + LIST)
}

fn standard(overload: &str, args: &[Value<'_>]) -> u64 {
    let arg = |at: usize| args.get(at).map_or(1, size);
    match overload {
        "starts_with_string" | "ends_with_string" => scale(arg(1), TEXT),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => scale(arg(0), TEXT),
        "in_list" => arg(1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => scale(arg(0).min(arg(1)), TEXT),
        "add_string" | "add_bytes" => scale(arg(0).saturating_add(arg(1)), TEXT),
        "matches" | "matches_string" => {
            scale(arg(0).saturating_add(1), TEXT).saturating_mul(scale(arg(1), REGEX))
        }
        "contains_string" => scale(arg(0), TEXT).saturating_mul(scale(arg(1), TEXT)),
        _ => 1,
    }
}

/// How large a value is, for costs.
fn size(value: &Value<'_>) -> u64 {
    let size = match value {
        Value::Opaque(thing) => thing.size(),
        Value::Optional(Some(inner)) => return size(inner),
        other => other.size(),
    };
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(1)
}

/// What going through a value costs.
fn traversal(value: &Value<'_>) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "costs are counted in numbers of this precision"
    )]
    let text = |length: usize| (length as f64 * TEXT) as u64;
    match value {
        Value::String(string) => text(string.len()),
        Value::Bytes(bytes) => text(bytes.len()),
        Value::List(List::Json { items, .. })
            if items
                .iter()
                .all(|item| !item.is_array() && !item.is_object() && !item.is_string()) =>
        {
            u64::try_from(items.len()).unwrap_or(u64::MAX)
        }
        Value::List(list) => list
            .iter()
            .flatten()
            .map(|item| traversal(&item))
            .fold(0, u64::saturating_add),
        Value::Map(map) => map
            .keys()
            .iter()
            .map(|key| {
                let inner = map
                    .find(key)
                    .and_then(Result::ok)
                    .map_or(0, |value| traversal(&value));
                traversal(key).saturating_add(inner)
            })
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}
