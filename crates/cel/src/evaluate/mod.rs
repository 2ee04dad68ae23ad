//! Evaluation of a checked expression.
//!
//! Promises: the cost is computed as upstream computes it, and evaluation stops when it exceeds the limit. That is upstream's
//! `PerCallLimit` for one expression, or what is left of `RuntimeCELCostBudget` for all expressions of an object. An error is a
//! value until an operator needs its operand: `false && error` is false.

// upstream: vendor/github.com/google/cel-go/interpreter/interpreter.go Interpreter
// upstream: vendor/github.com/google/cel-go/interpreter/interpretable.go Eval

mod attribute;
mod fold;

use std::sync::Arc;

use self::attribute::Attribute;
use crate::{
    bindings::Bindings,
    cost::track,
    error::{ErrorKind, EvalError},
    function::regex as expressions,
    program::{Call, EvaluationResult, ProgramPlan},
    syntax::ast::{Id, Kind, Optionality, SelectKind},
    value::{Entries, List, Map, Result, Value, equal},
};

const SELECT: u64 = 1;
const LIST: u64 = 10;
const MAP: u64 = 30;
const MESSAGE: u64 = 40;
/// The maximum number of list items, map entries and string blocks that one evaluation allocates. It bounds memory where the
/// cost does not.
const MAX_ALLOCATED_ITEMS: usize = 50_000_000;

/// One evaluation of an expression.
pub(crate) struct Evaluation<'p, 'b, 'a> {
    plan: &'p ProgramPlan,
    bindings: &'b Bindings<'a>,
    /// The variables of the enclosing comprehensions, innermost last.
    locals: Vec<Local<'p, 'a>>,
    cost: u64,
    limit: u64,
    allocated_items: usize,
}

/// An operator that one of its operands can decide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LogicalOperator {
    /// Decided by false.
    And,
    /// Decided by true.
    Or,
}

/// A variable of a comprehension.
struct Local<'p, 'a> {
    name: &'p str,
    value: Option<Result<'a>>,
    /// The initial value; evaluated when the variable is read before it is set.
    init: Option<Id>,
}

impl<'p, 'b, 'a> Evaluation<'p, 'b, 'a> {
    pub(crate) fn new(plan: &'p ProgramPlan, bindings: &'b Bindings<'a>, limit: u64) -> Self {
        Evaluation {
            plan,
            bindings,
            locals: Vec::new(),
            cost: 0,
            limit,
            allocated_items: 0,
        }
    }

    pub(crate) fn run(mut self) -> EvaluationResult<'a> {
        let result = self.eval(self.plan.ast.root);
        EvaluationResult {
            result,
            cost: self.cost,
        }
    }

    fn charge(&mut self, cost: u64) -> std::result::Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            Err(EvalError::cost_limit())
        } else {
            Ok(())
        }
    }

    fn eval(&mut self, id: Id) -> Result<'a> {
        if let Some(constant) = self.plan.constant(id) {
            return Ok(constant.clone());
        }
        match &self.plan.ast.node(id).kind {
            Kind::Broken | Kind::Literal(_) => Err(EvalError::no_such_overload()),
            Kind::Ident(_) => {
                let attribute = self.attribute(id);
                self.charge(SELECT)?;
                attribute.map(Attribute::value)
            }
            Kind::Select {
                kind: SelectKind::Test,
                ..
            } => self.attribute(id).map(Attribute::value),
            Kind::Select { .. } => self.walk(id),
            Kind::Call {
                function,
                target,
                args,
            } => match (&**function, target) {
                ("_[_]" | "_[?_]" | "_?._", None) => self.walk(id),
                ("_?_:_", None) => self.attribute(id).map(Attribute::value),
                ("_&&_", None) => self.logic(args, LogicalOperator::And),
                ("_||_", None) => self.logic(args, LogicalOperator::Or),
                ("_==_" | "_!=_", None) => self.equality(function, args),
                ("@not_strictly_false", None) => self.not_strictly_false(args[0]),
                ("or" | "orValue", Some(target)) if args.len() == 1 => {
                    self.optional_or(function, *target, args[0])
                }
                _ => self.call(id, function, *target, args),
            },
            Kind::List { items, optionalities } => self.list(items, optionalities),
            Kind::Map(entries) => {
                let mut map = Entries::default();
                for entry in entries {
                    let key = self.eval(entry.key)?;
                    match self.entry(entry.value, entry.optionality, &key)? {
                        Some(value) => map.insert(key, value)?,
                        None => map.remove(&key),
                    }
                }
                self.charge(MAP)?;
                Ok(map.into())
            }
            Kind::Struct { name, fields } => {
                let mut message_fields: Vec<(Arc<str>, Value<'a>)> = Vec::new();
                for field in fields {
                    message_fields.retain(|(other, _)| *other != field.field);
                    if let Some(value) = self.entry(
                        field.value,
                        field.optionality,
                        &Value::text(Arc::clone(&field.field)),
                    )? {
                        message_fields.push((Arc::clone(&field.field), value));
                    }
                }
                self.charge(MESSAGE)?;
                let name = name.strip_prefix('.').map_or_else(|| Arc::clone(name), Arc::from);
                Ok(Value::Message(name, Arc::new(message_fields)))
            }
            Kind::Comprehension(it) => self.fold(it),
        }
    }

    fn entry(
        &mut self,
        value: Id,
        optionality: Optionality,
        key: &Value<'a>,
    ) -> std::result::Result<Option<Value<'a>>, EvalError> {
        let value = self.eval(value)?;
        match value {
            value if optionality == Optionality::Required => Ok(Some(value)),
            Value::Optional(value) => Ok(value.map(|value| Value::clone(&value))),
            other => {
                let message =
                    format!("cannot initialize optional entry '{key}' from non-optional value {other}");
                Err(EvalError::new(message))
            }
        }
    }

    fn list(&mut self, items: &'p [Id], optionalities: &'p [Optionality]) -> Result<'a> {
        let mut list = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let value = self.eval(*item)?;
            if optionalities.get(at) != Some(&Optionality::Optional) {
                list.push(value);
                continue;
            }
            match value {
                Value::Optional(Some(value)) => list.push(Value::clone(&value)),
                Value::Optional(None) => {}
                other => {
                    let message =
                        format!("cannot initialize optional list element from non-optional value {other}");
                    return Err(EvalError::new(message));
                }
            }
        }
        self.charge(LIST)?;
        Ok(Value::list(list))
    }

    // --- calls ---

    fn logic(&mut self, args: &'p [Id], operator: LogicalOperator) -> Result<'a> {
        let decisive = operator == LogicalOperator::Or;
        let mut error = None;
        for arg in args {
            match self.eval(*arg) {
                Ok(Value::Bool(truth)) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or(Some(EvalError::no_such_overload())),
                Err(wrong) if wrong.kind() == ErrorKind::CostLimit => return Err(wrong),
                Err(wrong) => error = error.or(Some(wrong)),
            }
        }
        error.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn equality(&mut self, function: &str, args: &'p [Id]) -> Result<'a> {
        let values = [self.eval(args[0])?, self.eval(args[1])?];
        let same = equal(&values[0], &values[1]);
        let overload = if function == "_==_" {
            "equals"
        } else {
            "not_equals"
        };
        self.charge(track::call(function, overload, &values, None))?;
        match (function, same) {
            ("_==_", same) => same.map(Value::Bool),
            (_, same) => Ok(Value::Bool(!same.unwrap_or(false))),
        }
    }

    fn not_strictly_false(&mut self, arg: Id) -> Result<'a> {
        let value = self.eval(arg);
        self.charge(SELECT)?;
        match value {
            Ok(value @ Value::Bool(_)) => Ok(value),
            Err(error) if error.kind() == ErrorKind::CostLimit => Err(error),
            _ => Ok(Value::Bool(true)),
        }
    }

    /// Evaluates `optional.or(other)` and `optional.orValue(other)`; `other` only if the optional is empty.
    fn optional_or(&mut self, function: &str, target: Id, other: Id) -> Result<'a> {
        match self.eval(target)? {
            Value::Optional(None) => self.eval(other),
            Value::Optional(Some(value)) if function == "orValue" => Ok(Value::clone(&value)),
            optional @ Value::Optional(_) => Ok(optional),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &'p [Id]) -> Result<'a> {
        let plan = self.plan;
        let Some(call) = plan.call(id) else {
            return Err(EvalError::no_such_overload());
        };
        if matches!(function, "_+_" | "cel.@mapInsert")
            && let Some(grown) = self.grow(function, args)
        {
            return grown;
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.iter().chain(args) {
            values.push(self.eval(*arg)?);
        }
        let result = run(call, function, &values)?;
        self.count_allocation(&result)?;
        if !call.membership {
            self.charge(track::call(function, call.overload, &values, Some(&result)))?;
        }
        Ok(result)
    }

    /// Counts the size of a result. The cost does not cover it: joining two lists costs the same whatever their length.
    fn count_allocation(&mut self, result: &Value<'a>) -> std::result::Result<(), EvalError> {
        let size = match result {
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            Value::String(text) => text.len() / 16,
            _ => 0,
        };
        self.allocated_items += size;
        if self.allocated_items > MAX_ALLOCATED_ITEMS {
            return Err(EvalError::cost_limit());
        }
        Ok(())
    }

    /// Appends to the accumulator of a comprehension in place: copying it in each step would take quadratic time.
    fn grow(&mut self, function: &str, args: &'p [Id]) -> Option<Result<'a>> {
        let Kind::Ident(name) = &self.plan.ast.node(args[0]).kind else {
            return None;
        };
        let at = self.locals.iter().rposition(|local| *local.name == **name)?;
        // Only the accumulator of the innermost comprehension may be moved out of its variable.
        if &**name != crate::syntax::ACCUMULATOR || self.locals[at].init.is_none() {
            return None;
        }
        match (function, self.local(at)) {
            ("_+_", Ok(Value::List(List::Owned(_)))) | ("cel.@mapInsert", Ok(Value::Map(Map::Owned(_)))) => {}
            _ => return None,
        }
        Some(self.append_to_accumulator(at, &args[1..]))
    }

    fn append_to_accumulator(&mut self, at: usize, more: &'p [Id]) -> Result<'a> {
        let mut values = Vec::with_capacity(more.len());
        for value in more {
            values.push(self.eval(*value)?);
        }
        self.charge(2 * SELECT)?;
        match (self.locals[at].value.take(), values.as_slice()) {
            (Some(Ok(Value::List(list))), [Value::List(more)]) => list.join(more).map(Value::List),
            (Some(Ok(Value::Map(map))), [key, value]) => {
                map.insert(key.clone(), value.clone()).map(Value::Map)
            }
            (Some(Ok(Value::Map(mut map))), [Value::Map(more)]) => {
                for key in more.keys() {
                    if let Some(value) = more.find(&key) {
                        map = map.insert(key, value?)?;
                    }
                }
                Ok(Value::Map(map))
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }
}

fn run<'a>(call: &Call, function: &str, values: &[Value<'a>]) -> Result<'a> {
    if matches!(function, "matches" | "find" | "findAll")
        && let [_, Value::String(pattern), ..] = values
    {
        if call.regex.get().is_none()
            && let Ok(regex) = expressions::compile(pattern)
        {
            // Another evaluation may have set it concurrently.
            let _ = call.regex.set(((**pattern).into(), regex));
        }
        if let Some((known, regex)) = call.regex.get()
            && **known == **pattern
        {
            return expressions::with(function, regex, values);
        }
    }
    if function == "sum"
        && let [Value::List(list)] = values
        && list.is_empty()
    {
        return Ok(match call.overload {
            "list_uint_sum" => Value::Uint(0),
            "list_double_sum" => Value::Double(0.0),
            "list_duration_sum" => Value::Duration(0),
            _ => Value::Int(0),
        });
    }
    match call.implementation {
        Some(implementation) => implementation(function, values),
        None => Err(EvalError::new(format!("no such overload: {function}"))),
    }
}
