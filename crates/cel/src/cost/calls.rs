//! What a call can cost.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/cost.go EstimateCallCost
// upstream: vendor/github.com/google/cel-go/checker/cost.go functionCost

use super::{
    AUTHORIZER_CHECK, CostEstimate, LIST, REGEX, TEXT,
    estimate::{Arg, Estimator, traversed},
    selector,
};
use crate::{
    decl::OpaqueType,
    syntax::ast::{Id, Kind, Literal},
    types::Type,
};

/// The longest regular expression of a named format, and the longest name of one.
const LONGEST_FORMAT: f64 = 128.0;
const LONGEST_FORMAT_NAME: u64 = 64;

type CallEstimate = (CostEstimate, Option<CostEstimate>);

/// What a call costs with its arguments, and how large what it gives is.
pub(super) fn call(
    estimator: &mut Estimator<'_>,
    id: Id,
    function: &str,
    overload: &str,
    target: Option<&Arg>,
    args: &[Arg],
) -> CallEstimate {
    let given = args
        .iter()
        .fold(CostEstimate::NOTHING, |sum, arg| sum.plus(arg.cost));
    let known = lists(estimator, overload, target, args)
        .or_else(|| library(estimator, function, overload, target, args));
    if let Some((cost, size)) = known {
        return (cost.plus(given), size);
    }
    standard(estimator, id, overload, target, args, given)
}

/// The value of an integer constant.
fn number(estimator: &Estimator<'_>, arg: &Arg, or: u64) -> u64 {
    match estimator.checked.ast.kind(arg.id) {
        Kind::Literal(Literal::Int(number)) => u64::try_from(*number).unwrap_or(0),
        _ => or,
    }
}

fn lists(
    estimator: &Estimator<'_>,
    overload: &str,
    target: Option<&Arg>,
    args: &[Arg],
) -> Option<CallEstimate> {
    let made = |size: CostEstimate, factor: f64| {
        Some((
            size.scaled(factor).plus(CostEstimate::fixed(1 + LIST)),
            Some(size),
        ))
    };
    match (overload, target, args) {
        ("list_sets_contains_list" | "list_sets_intersects_list", _, [a, b]) => {
            Some((a.size().times(b.size()).scaled(1.0).plus(CostEstimate::ONE), None))
        }
        ("list_sets_equivalent_list", _, [a, b]) => {
            Some((a.size().times(b.size()).scaled(2.0).plus(CostEstimate::ONE), None))
        }
        ("list_slice", Some(target), [start, end]) => {
            let start = number(estimator, start, 0);
            let end = number(estimator, end, target.size().max);
            made(CostEstimate::fixed(end.wrapping_sub(start)), 1.0)
        }
        ("lists_range", None, [size]) => made(CostEstimate::fixed(number(estimator, size, u64::MAX)), 1.0),
        ("list_reverse", Some(target), []) => made(target.size(), 1.0),
        ("list_flatten" | "list_flatten_int", Some(target), depth) => {
            let depth = depth
                .first()
                .map_or(1, |depth| number(estimator, depth, u64::MAX));
            #[expect(
                clippy::cast_precision_loss,
                reason = "costs are counted in numbers of this precision"
            )]
            made(target.size(), depth as f64)
        }
        ("list_distinct", Some(target), []) => made(target.size().times(target.size()), 2.0),
        (_, Some(list), []) if overload.ends_with("_sort") => Some(sorted(list, overload)),
        (_, Some(_), [keys]) if overload.ends_with("_sortByAssociatedKeys") => Some(sorted(keys, overload)),
        _ => None,
    }
}

fn sorted(keys: &Arg, overload: &str) -> CallEstimate {
    let texts = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
    let size = keys.size().times(keys.size());
    let factor = if texts { 2.0 + TEXT } else { 2.0 };
    (
        size.scaled(factor).plus(CostEstimate::fixed(1 + LIST)),
        Some(size),
    )
}

fn library(
    estimator: &Estimator<'_>,
    function: &str,
    overload: &str,
    target: Option<&Arg>,
    args: &[Arg],
) -> Option<CallEstimate> {
    let only = |cost: CostEstimate| Some((cost, None));
    match (function, target, args) {
        ("check", ..) => only(CostEstimate::fixed(AUTHORIZER_CHECK)),
        (
            "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery",
            ..,
        ) => only(CostEstimate::ONE),
        ("fieldSelector" | "labelSelector", _, [text]) => only(selector(text.size())),
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
            only(searched(estimator, target))
        }
        ("url" | "jsonpatch.escapeKey", _, [text]) => Some((traversed(text.size()), Some(text.size()))),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
            Some((traversed(target.size()), Some(target.size())))
        }
        ("replace", Some(target), [old, new, ..]) => Some((
            target.size().scaled(2.0 * TEXT),
            Some(replaced(target.size(), old.size(), new.size())),
        )),
        ("split", Some(target), args) => {
            let size = target.size();
            let max = match args.get(1).map(|max| estimator.checked.ast.kind(max.id)) {
                Some(Kind::Literal(Literal::Int(max))) => max.cast_unsigned(),
                _ => size.max,
            };
            Some((size.scaled(2.0 * TEXT), Some(CostEstimate { min: 0, max })))
        }
        ("join", Some(target), args) => {
            let count = target.size();
            let mut size = CostEstimate::NOTHING;
            if matches!(target.ty, Type::List(_)) {
                size = count.times(estimator.item_size(target));
            }
            if let Some(separator) = args.first() {
                let between = CostEstimate {
                    min: count.min.saturating_sub(1),
                    max: count.max.saturating_sub(1),
                };
                size = size.plus(separator.size().times(between));
            }
            Some((traversed(size), Some(size)))
        }
        ("find" | "findAll", Some(target), [regex, ..]) => {
            let size = target.size();
            let cost = traversed(size.plus(CostEstimate::ONE)).times(regex.size().scaled(REGEX));
            Some((
                cost,
                Some(CostEstimate {
                    min: 0,
                    max: size.max,
                }),
            ))
        }
        _ => opaque(function, overload, args),
    }
}

/// What functions of addresses, amounts, versions and formats cost.
fn opaque(function: &str, overload: &str, args: &[Arg]) -> Option<CallEstimate> {
    let address = CostEstimate { min: 4, max: 16 };
    let only = |cost: CostEstimate| Some((cost, None));
    match (function, args) {
        ("ip", _) if overload == "cidr_ip" => only(CostEstimate::ONE),
        (
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
            [text, ..],
        ) => only(traversed(text.size())),
        ("ip.isCanonical", [text]) => only(text.size().scaled(2.0 * TEXT)),
        ("containsIP", [other]) => {
            let mut cost = traversed(address.plus(address));
            if overload == "cidr_contains_ip_string" {
                cost = cost.plus(traversed(other.size()));
            }
            only(cost)
        }
        ("containsCIDR", [other]) => {
            let mut cost = traversed(address.plus(address))
                .plus(traversed(address))
                .plus(CostEstimate::ONE);
            if overload == "cidr_contains_cidr_string" {
                cost = cost.plus(traversed(other.size()));
            }
            only(cost)
        }
        ("validate", [text]) => only(traversed(text.size()).scaled(LONGEST_FORMAT * REGEX)),
        ("_==_", [a, b]) if a.ty == b.ty => match &a.ty {
            Type::Opaque(OpaqueType::Format) => only(traversed(CostEstimate {
                min: 1,
                max: LONGEST_FORMAT_NAME,
            })),
            Type::Opaque(OpaqueType::Url) => {
                let size = b.size.unwrap_or(CostEstimate::ONE);
                only(traversed(CostEstimate {
                    min: 1,
                    max: size.max,
                }))
            }
            Type::Opaque(_) => only(CostEstimate::ONE),
            _ => None,
        },
        _ => None,
    }
}

/// What traversing a list costs; or a text, of functions that both have.
fn searched(estimator: &Estimator<'_>, target: &Arg) -> CostEstimate {
    let Type::List(items) = &target.ty else {
        if let Type::Map(..) | Type::Optional(_) | Type::Type(Some(_)) = target.ty {
            return target.size().times(CostEstimate::ONE);
        }
        return traversed(target.size());
    };
    let mut each = CostEstimate::ONE;
    if matches!(**items, Type::String | Type::Bytes) {
        each = each.plus(traversed(estimator.item_size(target)));
    }
    target.size().times(each)
}

/// How large a text is in which parts are replaced.
fn replaced(size: CostEstimate, old: CostEstimate, new: CostEstimate) -> CostEstimate {
    let divided = |size: u64, by: u64| {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "costs are counted in numbers of this precision"
        )]
        let count = (size as f64 / by as f64).ceil() as u64;
        count
    };
    let mut count = CostEstimate::NOTHING;
    let mut kept = CostEstimate::NOTHING;
    if old.min == 0 {
        count.max = size.max.saturating_add(1);
        kept.max = size.max;
    } else if new.max <= old.min {
        kept.max = size.max;
    } else {
        count.max = divided(size.max, old.min);
    }
    if old.max == 0 {
        count.min = size.min.saturating_add(1);
        kept.min = size.min;
    } else if old.max <= new.min {
        kept.min = size.min;
    } else {
        count.min = divided(size.min, old.max);
    }
    count.times(new).plus(kept)
}

fn standard(
    estimator: &mut Estimator<'_>,
    id: Id,
    overload: &str,
    target: Option<&Arg>,
    args: &[Arg],
    given: CostEstimate,
) -> CallEstimate {
    let with = |cost: CostEstimate, size: Option<CostEstimate>| (cost.plus(given), size);
    match (overload, target, args) {
        ("string_format", Some(target), _) => with(traversed(target.size()), None),
        ("string_to_bytes", _, [text]) => {
            let size = text.size();
            with(
                traversed(size),
                Some(CostEstimate {
                    min: size.min,
                    max: size.max.wrapping_mul(4),
                }),
            )
        }
        ("bytes_to_string", _, [bytes]) => {
            let size = bytes.size();
            with(
                traversed(size),
                Some(CostEstimate {
                    min: size.min / 4,
                    max: size.max,
                }),
            )
        }
        ("strings_quote", _, [text]) => {
            let size = text.size();
            let quoted = CostEstimate {
                min: size.min.wrapping_add(2),
                max: size.max.wrapping_mul(2).wrapping_add(2),
            };
            with(traversed(size), Some(quoted))
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => with(traversed(part.size()), None),
        ("in_list", _, [_, list]) => with(list.size().scaled(1.0), None),
        ("matches_string", Some(text), [regex]) | ("matches", None, [text, regex]) => {
            let cost = traversed(text.size().plus(CostEstimate::ONE)).times(regex.size().scaled(REGEX));
            with(cost, None)
        }
        ("contains_string", Some(text), [part]) => {
            with(traversed(text.size()).times(traversed(part.size())), None)
        }
        ("logical_or" | "logical_and", _, [a, b]) => (
            CostEstimate {
                min: a.cost.min,
                max: a.cost.plus(b.cost).max,
            },
            None,
        ),
        ("conditional", _, [condition, yes, no]) => {
            if let (Some(a), Some(b)) = (estimator.inner(yes.id), estimator.inner(no.id)) {
                estimator.set_inner(id, Some(a.union(b)));
            }
            (
                condition.cost.plus(yes.cost.union(no.cost)),
                Some(yes.size().union(no.size())),
            )
        }
        ("add_string" | "add_bytes" | "add_list", _, [a, b]) => {
            let size = a.size().plus(b.size());
            if let (Some(a), Some(b)) = (estimator.inner(a.id), estimator.inner(b.id)) {
                estimator.set_inner(id, Some(a.union(b)));
            }
            let cost = if overload == "add_list" {
                CostEstimate::ONE
            } else {
                traversed(size)
            };
            with(cost, Some(size))
        }
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [a, b],
        ) => {
            let max = a.size().max.min(b.size().max);
            with(
                traversed(CostEstimate {
                    min: u64::from(max > 0),
                    max,
                }),
                None,
            )
        }
        _ => with(CostEstimate::ONE, None),
    }
}
