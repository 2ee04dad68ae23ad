//! Running an expression.
//!
//! Promises: costs are counted as clients know them, and nothing continues when they are above the limit. Errors are
//! values until something needs what is not there: `false && error` is false.

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
    syntax::ast::{Id, Kind},
    value::{Entries, List, Map, Result, Value, equal},
};

const SELECT: u64 = 1;
const LIST: u64 = 10;
const MAP: u64 = 30;
const MESSAGE: u64 = 40;
/// The most items that one run makes.
const MOST_MADE: usize = 50_000_000;

/// One run of an expression.
pub(crate) struct Evaluation<'p, 'b, 'a> {
    plan: &'p ProgramPlan,
    bindings: &'b Bindings<'a>,
    /// The variables of loops that are under way.
    locals: Vec<Local<'p, 'a>>,
    cost: u64,
    limit: u64,
    /// How many items have been made.
    made: usize,
}

/// A variable of a loop.
struct Local<'p, 'a> {
    name: &'p str,
    value: Option<Result<'a>>,
    /// What it is if no one has set it: found out when it is asked for.
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
            made: 0,
        }
    }

    pub(crate) fn run(mut self) -> EvaluationResult<'a> {
        let result = self.eval(self.plan.ast.root);
        EvaluationResult {
            result,
            cost: self.cost,
        }
    }

    fn pay(&mut self, cost: u64) -> std::result::Result<(), EvalError> {
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
                self.pay(SELECT)?;
                attribute.map(Attribute::value)
            }
            Kind::Select { test: true, .. } => self.attribute(id).map(Attribute::value),
            Kind::Select { .. } => self.walk(id),
            Kind::Call {
                function,
                target,
                args,
            } => match (&**function, target) {
                ("_[_]" | "_[?_]" | "_?._", None) => self.walk(id),
                ("_?_:_", None) => self.attribute(id).map(Attribute::value),
                ("_&&_", None) => self.logic(args, false),
                ("_||_", None) => self.logic(args, true),
                ("_==_" | "_!=_", None) => self.equality(function, args),
                ("@not_strictly_false", None) => self.not_strictly_false(args[0]),
                ("or" | "orValue", Some(target)) if args.len() == 1 => {
                    self.optional_or(function, *target, args[0])
                }
                _ => self.call(id, function, *target, args),
            },
            Kind::List { items, optional } => self.list(items, optional),
            Kind::Map(entries) => {
                let mut map = Entries::default();
                for entry in entries {
                    let key = self.eval(entry.key)?;
                    match self.entry(entry.value, entry.optional, &key)? {
                        Some(value) => map.insert(key, value)?,
                        None => map.remove(&key),
                    }
                }
                self.pay(MAP)?;
                Ok(map.into())
            }
            Kind::Struct { name, fields } => {
                let mut made: Vec<(Arc<str>, Value<'a>)> = Vec::new();
                for field in fields {
                    made.retain(|(other, _)| *other != field.field);
                    if let Some(value) = self.entry(
                        field.value,
                        field.optional,
                        &Value::text(Arc::clone(&field.field)),
                    )? {
                        made.push((Arc::clone(&field.field), value));
                    }
                }
                self.pay(MESSAGE)?;
                let name = name.strip_prefix('.').map_or_else(|| Arc::clone(name), Arc::from);
                Ok(Value::Message(name, Arc::new(made)))
            }
            Kind::Comprehension(it) => self.fold(it),
        }
    }

    fn entry(
        &mut self,
        value: Id,
        optional: bool,
        key: &Value<'a>,
    ) -> std::result::Result<Option<Value<'a>>, EvalError> {
        let value = self.eval(value)?;
        match value {
            value if !optional => Ok(Some(value)),
            Value::Optional(value) => Ok(value.map(|value| Value::clone(&value))),
            other => {
                let message =
                    format!("cannot initialize optional entry '{key}' from non-optional value {other}");
                Err(EvalError::new(message))
            }
        }
    }

    fn list(&mut self, items: &'p [Id], optional: &'p [bool]) -> Result<'a> {
        let mut list = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let value = self.eval(*item)?;
            if optional.get(at) != Some(&true) {
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
        self.pay(LIST)?;
        Ok(Value::list(list))
    }

    // --- calls ---

    fn logic(&mut self, args: &'p [Id], decisive: bool) -> Result<'a> {
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
        self.pay(track::call(function, overload, &values, None))?;
        match (function, same) {
            ("_==_", same) => same.map(Value::Bool),
            (_, same) => Ok(Value::Bool(!same.unwrap_or(false))),
        }
    }

    fn not_strictly_false(&mut self, arg: Id) -> Result<'a> {
        let value = self.eval(arg);
        self.pay(SELECT)?;
        match value {
            Ok(value @ Value::Bool(_)) => Ok(value),
            Err(error) if error.kind() == ErrorKind::CostLimit => Err(error),
            _ => Ok(Value::Bool(true)),
        }
    }

    /// What may be absent, or else something.
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
        self.work(&result)?;
        if !call.membership {
            self.pay(track::call(function, call.overload, &values, Some(&result)))?;
        }
        Ok(result)
    }

    /// Counts what has been made. Costs do not cover all of it: joining two lists costs the same whatever their length.
    fn work(&mut self, made: &Value<'a>) -> std::result::Result<(), EvalError> {
        let size = match made {
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            Value::String(text) => text.len() / 16,
            _ => 0,
        };
        self.made += size;
        if self.made > MOST_MADE {
            return Err(EvalError::cost_limit());
        }
        Ok(())
    }

    /// Adds to what a loop has gathered without copying it.
    fn grow(&mut self, function: &str, args: &'p [Id]) -> Option<Result<'a>> {
        let Kind::Ident(name) = &self.plan.ast.node(args[0]).kind else {
            return None;
        };
        let at = self.locals.iter().rposition(|local| *local.name == **name)?;
        // Only what is gathered by this very loop may be taken out of it.
        if &**name != crate::syntax::ACCUMULATOR || self.locals[at].init.is_none() {
            return None;
        }
        match (function, self.local(at)) {
            ("_+_", Ok(Value::List(List::Owned(_)))) | ("cel.@mapInsert", Ok(Value::Map(Map::Owned(_)))) => {}
            _ => return None,
        }
        Some(self.gather(at, &args[1..]))
    }

    fn gather(&mut self, at: usize, more: &'p [Id]) -> Result<'a> {
        let mut values = Vec::with_capacity(more.len());
        for value in more {
            values.push(self.eval(*value)?);
        }
        self.pay(2 * SELECT)?;
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
            // Another run may have been first.
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
