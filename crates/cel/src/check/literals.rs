//! What can be said of constants before anything runs.

// upstream: vendor/github.com/google/cel-go/cel/validator.go ValidateDurationLiterals, ValidateTimestampLiterals, ValidateRegexLiterals, ValidateHomogeneousAggregateLiterals

use super::CheckedExpression;
use crate::{
    function::{
        formatting::{self, FormatPiece},
        regex, time,
    },
    source::Issue,
    syntax::ast::{Id, Kind, Literal, Optionality},
    types::Type,
};

/// What is wrong with constants in a checked tree.
pub(super) fn check(checked: &CheckedExpression) -> Vec<Issue> {
    let mut issues = Vec::new();
    // Nodes with the calls of `format` around them, whose arguments may be of any types.
    let mut open = vec![(checked.ast.root, false)];
    while let Some((id, formatted)) = open.pop() {
        let node = checked.ast.node(id);
        let mut inner = formatted;
        match &node.kind {
            Kind::Call {
                function,
                target,
                args,
            } => {
                inner |= &**function == "format";
                call(checked, function, args, &mut issues);
                if let ("format", Some(target), [arg]) = (&**function, target, &args[..]) {
                    check_format_arguments(checked, node.offset, *target, *arg, &mut issues);
                }
            }
            Kind::List { items, optionalities } if !formatted => {
                let found = mismatches(checked, items, optionalities);
                // A list is reported once, a map for each of its keys and values.
                issues.extend(found.into_iter().take(1));
            }
            Kind::Map(entries) if !formatted => {
                let keys: Vec<Id> = entries.iter().map(|entry| entry.key).collect();
                issues.extend(mismatches(checked, &keys, &[]));
                let values: Vec<Id> = entries.iter().map(|entry| entry.value).collect();
                let optionalities: Vec<Optionality> = entries.iter().map(|entry| entry.optionality).collect();
                issues.extend(mismatches(checked, &values, &optionalities));
            }
            _ => {}
        }
        crate::syntax::each_child(&node.kind, |child| open.push((child, inner)));
    }
    issues
}

fn call(checked: &CheckedExpression, function: &str, args: &[Id], issues: &mut Vec<Issue>) {
    let Some(arg) = args.first() else {
        return;
    };
    let node = checked.ast.node(*arg);
    let fine = match (function, &node.kind) {
        ("duration", Kind::Literal(Literal::String(text))) => time::parse_duration(text).is_some(),
        ("timestamp", Kind::Literal(Literal::String(text))) => time::parse_timestamp(text).is_some(),
        ("timestamp", Kind::Literal(Literal::Int(seconds))) => time::from_unix(*seconds).is_some(),
        ("matches", Kind::Literal(Literal::String(text))) => regex::compile(text).is_ok(),
        _ => true,
    };
    if !fine {
        issues.push(Issue {
            offset: Some(node.offset),
            message: format!("invalid {function} argument"),
        });
    }
}

/// Whether the values of a constant list can stand in the verbs of a constant format.
fn check_format_arguments(
    checked: &CheckedExpression,
    offset: u32,
    format: Id,
    values: Id,
    issues: &mut Vec<Issue>,
) {
    let (Kind::Literal(Literal::String(format)), Kind::List { items, .. }) =
        (checked.ast.kind(format), checked.ast.kind(values))
    else {
        return;
    };
    let mut filled = 0;
    for piece in formatting::pieces(format, items.len()) {
        match piece {
            Err(error) => {
                issues.push(Issue {
                    offset: Some(offset),
                    message: error.to_string(),
                });
                return;
            }
            Ok(FormatPiece::Text(_)) => {}
            Ok(FormatPiece::Clause(clause)) => {
                let item = items[filled];
                filled += 1;
                if let Some(why) = formatting::mismatch(clause, &checked.types[item as usize]) {
                    let offset = Some(checked.ast.node(item).offset);
                    issues.push(Issue {
                        offset,
                        message: format!("error during formatting: {why}"),
                    });
                    return;
                }
            }
        }
    }
    if items.len() > filled {
        let count = items.len();
        let message =
            format!("too many arguments supplied to string.format (expected {filled}, got {count})");
        issues.push(Issue {
            offset: Some(offset),
            message,
        });
    }
}

/// Which have another type than the first.
fn mismatches(checked: &CheckedExpression, ids: &[Id], optionalities: &[Optionality]) -> Vec<Issue> {
    let ty = |at: usize| match (&checked.types[ids[at] as usize], optionalities.get(at)) {
        (Type::Optional(inner), Some(Optionality::Optional)) => Type::clone(inner),
        (other, _) => other.clone(),
    };
    let mut issues = Vec::new();
    for (at, id) in ids.iter().enumerate().skip(1) {
        let first = ty(0);
        let found = ty(at);
        if first != found {
            let message = format!("expected type '{}' but found '{}'", first.short(), found.short());
            issues.push(Issue {
                offset: Some(checked.ast.node(*id).offset),
                message,
            });
        }
    }
    issues
}
