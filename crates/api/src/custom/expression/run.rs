//! Evaluates the CEL validation rules of a schema for an object, within the cost limit.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go Validator, Validate, evalMessageExpression, fieldErrorForReason

use std::collections::HashMap;

use k3_cel::{Bindings, ErrorKind, PER_CALL_LIMIT, Program, RUNTIME_COST_BUDGET, Value as Cel};
use serde_json::Value;

use super::{
    compile::{CompiledRule, CompiledRuleTree},
    rule::{FieldErrorReason, Rule},
};
use crate::{
    custom::{
        correlation::{CorrelatedValue, OldItems},
        node::Node,
    },
    field::{BadValue, Error, Path},
    strategy::ErrorList,
};

/// The longest message an expression may make.
const MAX_MESSAGE: usize = 5 * 1024;

/// What all rules for one object may cost is used up, or one of them cost too much.
struct CostLimitExceeded;

/// Asks the rules of a schema about a value. `old`: what it was; `correlated`: how the two are compared. Gives what is wrong
/// with parts that did not change: users are warned of it.
pub(crate) fn validate(
    tree: &CompiledRuleTree,
    node: &Node,
    (value, old): (&Value, Option<&Value>),
    correlated: Option<CorrelatedValue<'_>>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) -> ErrorList {
    let mut run = RuleEvaluation {
        budget: RUNTIME_COST_BUDGET,
        errors,
        tolerated: ErrorList::new(),
        same: HashMap::new(),
    };
    let ratchet = RatchetingState {
        current: correlated,
        nearest: None,
    };
    // When the budget is used up, that is the last error.
    let _: Result<(), CostLimitExceeded> = run.level(tree, node, (value, old), ratchet, at);
    run.tolerated
}

/// What a value was, or the nearest value above it of which that is known.
#[derive(Clone, Copy, Default)]
struct RatchetingState<'v> {
    current: Option<CorrelatedValue<'v>>,
    nearest: Option<CorrelatedValue<'v>>,
}

struct RuleEvaluation<'e> {
    budget: u64,
    errors: &'e mut ErrorList,
    /// What is wrong with parts that did not change.
    tolerated: ErrorList,
    /// Whether a value changed, by its address: many rules may fail below one value.
    same: HashMap<*const Value, bool>,
}

impl RuleEvaluation<'_> {
    fn level(
        &mut self,
        tree: &CompiledRuleTree,
        node: &Node,
        (value, old): (&Value, Option<&Value>),
        ratchet: RatchetingState<'_>,
        at: &Path<'_>,
    ) -> Result<(), CostLimitExceeded> {
        if value.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(tree, node, (value, old), ratchet, at)?;
        for all_of in &tree.all_of {
            let above = RatchetingState {
                current: None,
                nearest: ratchet.nearest,
            };
            self.level(all_of, node, (value, old), above, at)?;
        }
        match value {
            Value::Array(items) => self.list(tree, node, (items, old), ratchet, at),
            Value::Object(fields) => {
                if let (Some(tree), Some(node)) = (&tree.additional, node.values()) {
                    for (name, value) in fields {
                        let old = old.and_then(|old| old.get(name));
                        self.level(tree, node, (value, old), ratchet.key(name), &at.key(name))?;
                    }
                }
                for (name, value) in fields {
                    if let (Some(tree), Some(node)) = (tree.property(name), node.property(name)) {
                        let old = old.and_then(|old| old.get(name));
                        self.level(tree, node, (value, old), ratchet.key(name), &at.child(name))?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn list(
        &mut self,
        tree: &CompiledRuleTree,
        node: &Node,
        (items, old): (&[Value], Option<&Value>),
        ratchet: RatchetingState<'_>,
        at: &Path<'_>,
    ) -> Result<(), CostLimitExceeded> {
        let (Some(tree), Some(inner)) = (&tree.items, node.items()) else {
            return Ok(());
        };
        let whole = Value::Null;
        let pair = CorrelatedValue {
            new: &whole,
            old: old.unwrap_or(&whole),
            node,
        };
        let known = pair.old_items();
        let compared = ratchet.current.and_then(CorrelatedValue::old_items);
        for (index, item) in items.iter().enumerate() {
            let old = known.as_ref().and_then(|known| known.get(item, node));
            let below = ratchet.index(index, compared.as_ref());
            self.level(tree, inner, (item, old), below, &at.index(index))?;
        }
        Ok(())
    }

    fn rules(
        &mut self,
        tree: &CompiledRuleTree,
        node: &Node,
        (value, old): (&Value, Option<&Value>),
        ratchet: RatchetingState<'_>,
        at: &Path<'_>,
    ) -> Result<(), CostLimitExceeded> {
        let Some(decl) = tree.decl.as_ref().filter(|_| !tree.rules.is_empty()) else {
            return Ok(());
        };
        let kind = node.kind.name();
        if self.budget == 0 {
            return self.out_of_budget(at, kind);
        }
        let bare = Bindings::new().json("self", value, decl);
        let plain = match old {
            Some(old) => bare.clone().json("oldSelf", old, decl),
            None => bare.clone(),
        };
        let reads_optional = tree.rules.iter().any(|(rule, _)| rule.optional_old);
        let optional = old
            .filter(|_| reads_optional)
            .and_then(|old| Cel::read(old, decl).ok());
        let optional = bare.value("oldSelf", Cel::optional(optional));
        for (rule, compiled) in &tree.rules {
            let program = match &compiled.program {
                None => continue,
                Some(Err(error)) => {
                    self.errors
                        .push(Error::invalid(at, kind, format!("rule compile error: {error}")));
                    continue;
                }
                Some(Ok(program)) => program,
            };
            if compiled.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            let bindings = if rule.optional_old { &optional } else { &plain };
            if self.holds(program, rule, bindings, (at, kind))? {
                continue;
            }
            let path = if rule.field_path.is_empty() {
                *at
            } else {
                at.child(&rule.field_path)
            };
            let ratcheted = !compiled.uses_old && self.is_same(ratchet);
            let mut rule_errors = ErrorList::new();
            let detail = self.message(compiled, rule, &plain, (&path, kind), &mut rule_errors);
            if let Ok(detail) = &detail {
                let shown = match value {
                    Value::Object(_) | Value::Array(_) if matches!(kind, "object" | "array") => {
                        BadValue::Omitted
                    }
                    value => BadValue::from(value),
                };
                rule_errors.push(rule.reason.error(&path, shown, detail));
            }
            if ratcheted {
                self.tolerated.append(&mut rule_errors);
            } else {
                self.errors.append(&mut rule_errors);
            }
            detail?;
        }
        Ok(())
    }

    /// Whether a rule holds. What keeps it from being asked is reported, and it counts as holding.
    fn holds(
        &mut self,
        program: &Program,
        rule: &Rule,
        bindings: &Bindings<'_>,
        (at, kind): (&Path<'_>, &str),
    ) -> Result<bool, CostLimitExceeded> {
        let outcome = program.evaluate(bindings, PER_CALL_LIMIT);
        if outcome.cost > self.budget {
            self.out_of_budget(at, kind)?;
        }
        self.budget -= outcome.cost;
        let error = match outcome.result {
            Ok(value) => return Ok(value.as_bool() == Some(true)),
            Err(error) => error,
        };
        let named = rule.named();
        let detail = match error.kind() {
            ErrorKind::NoSuchOverload => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {named}"
            ),
            ErrorKind::CostLimit => format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {named}"
            ),
            ErrorKind::Failed => format!("{error} evaluating rule: {named}"),
        };
        self.errors.push(Error::invalid(at, kind, detail));
        if error.kind() == ErrorKind::CostLimit {
            return Err(CostLimitExceeded);
        }
        Ok(true)
    }

    /// Whether a value, or the nearest one above it that can be compared, did not change.
    fn is_same(&mut self, ratchet: RatchetingState<'_>) -> bool {
        let Some(compared) = ratchet.compared() else {
            return false;
        };
        let address = std::ptr::from_ref(compared.new);
        *self.same.entry(address).or_insert_with(|| compared.is_same())
    }

    fn out_of_budget(&mut self, at: &Path<'_>, kind: &str) -> Result<(), CostLimitExceeded> {
        let detail =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        self.errors.push(Error::invalid(at, kind, detail));
        Err(CostLimitExceeded)
    }

    /// What is reported of a rule that does not hold.
    fn message(
        &mut self,
        compiled: &CompiledRule,
        rule: &Rule,
        bindings: &Bindings<'_>,
        (path, kind): (&Path<'_>, &str),
        rule_errors: &mut ErrorList,
    ) -> Result<String, CostLimitExceeded> {
        let Some(Ok(program)) = &compiled.message else {
            return Ok(rule.failure_message());
        };
        let outcome = program.evaluate(bindings, PER_CALL_LIMIT);
        if outcome.cost > self.budget {
            let detail = "messageExpression evaluation failed due to running out of cost budget, no further validation \
                rules will be run";
            rule_errors.push(Error::invalid(path, kind, detail));
            return Err(CostLimitExceeded);
        }
        match outcome.result {
            Err(error) if error.kind() == ErrorKind::CostLimit => {
                let detail = format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                    crate::go::quote(&rule.message_expression)
                );
                rule_errors.push(Error::invalid(path, kind, detail));
                Err(CostLimitExceeded)
            }
            result => {
                self.budget -= outcome.cost;
                let message = result.ok();
                let message = message.as_ref().and_then(|value| value.as_str()).map(str::trim);
                let usable = message.filter(|message| {
                    !message.is_empty() && message.len() <= MAX_MESSAGE && !message.contains('\n')
                });
                Ok(usable.map_or_else(|| rule.failure_message(), str::to_owned))
            }
        }
    }
}

// --- RatchetingState ---

impl<'v> RatchetingState<'v> {
    fn key(self, name: &str) -> Self {
        let Some(current) = self.current else {
            return self;
        };
        // What everybody sees in one version only cannot be compared.
        if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return RatchetingState::default();
        }
        RatchetingState {
            current: current.key(name),
            nearest: Some(current),
        }
    }

    fn index(self, index: usize, old: Option<&OldItems<'v>>) -> Self {
        let Some(current) = self.current else {
            return self;
        };
        RatchetingState {
            current: old.and_then(|old| current.item(index, old)),
            nearest: Some(current),
        }
    }

    /// The value to compare.
    fn compared(self) -> Option<CorrelatedValue<'v>> {
        self.current.or(self.nearest)
    }
}

// --- Reason ---

impl FieldErrorReason {
    fn error(self, at: &Path<'_>, value: BadValue, detail: &str) -> Error {
        match self {
            FieldErrorReason::Invalid => Error::invalid(at, value, detail),
            FieldErrorReason::Forbidden => Error::forbidden(at, detail),
            FieldErrorReason::Required => Error::required(at, detail),
            FieldErrorReason::Duplicate => Error::duplicate(at, value),
        }
    }
}
