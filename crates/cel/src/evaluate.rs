//! Running an expression.
//!
//! Promises: costs are counted as clients know them, and nothing goes on when they are above the limit. Errors are
//! values until something needs what is not there: `false && error` is false.

use std::sync::Arc;

use crate::{
    bindings::{Bindings, Bound},
    cost::track,
    error::{ErrorKind, EvalError},
    function::regex as expressions,
    program::{Call, Outcome, Plan},
    syntax::ast::{Comprehension, Id, Kind},
    value::{Entries, List, Map, Result, Value, equal},
};

const SELECT: u64 = 1;
const LIST: u64 = 10;
const MAP: u64 = 30;
const MESSAGE: u64 = 40;

/// One run of an expression.
pub(crate) struct Evaluation<'p, 'b, 'a> {
    plan: &'p Plan,
    bindings: &'b Bindings<'a>,
    /// The variables of loops that are under way.
    locals: Vec<Local<'p, 'a>>,
    cost: u64,
    limit: u64,
}

/// A variable of a loop.
struct Local<'p, 'a> {
    name: &'p str,
    value: Option<Result<'a>>,
    /// What it is if nobody has set it: found out when it is asked for.
    init: Option<Id>,
}

/// A place that is being walked to: what is there, or whether there may be nothing.
enum Place<'a> {
    There(Value<'a>),
    Maybe(Value<'a>),
    Absent,
}

impl<'p, 'b, 'a> Evaluation<'p, 'b, 'a> {
    pub(crate) fn new(plan: &'p Plan, bindings: &'b Bindings<'a>, limit: u64) -> Self {
        Evaluation { plan, bindings, locals: Vec::new(), cost: 0, limit }
    }

    pub(crate) fn run(mut self) -> Outcome<'a> {
        let result = self.eval(self.plan.ast.root);
        Outcome { result, cost: self.cost }
    }

    fn pay(&mut self, cost: u64) -> std::result::Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::cost_limit()) } else { Ok(()) }
    }

    fn eval(&mut self, id: Id) -> Result<'a> {
        if let Some(constant) = self.plan.constants.get(&id) {
            return Ok(constant.clone());
        }
        match &self.plan.ast.node(id).kind {
            Kind::Broken | Kind::Literal(_) => Err(EvalError::no_such_overload()),
            Kind::Ident(_) => {
                let place = self.place(id);
                self.pay(SELECT)?;
                place.map(Place::value)
            }
            Kind::Select { test: true, .. } => self.place(id).map(Place::value),
            Kind::Select { .. } => self.walk(id),
            Kind::Call { function, target, args } => match (&**function, target) {
                ("_[_]" | "_[?_]" | "_?._", None) => self.walk(id),
                ("_?_:_", None) => self.place(id).map(Place::value),
                ("_&&_", None) => self.logic(args, false),
                ("_||_", None) => self.logic(args, true),
                ("_==_" | "_!=_", None) => self.equality(function, args),
                ("@not_strictly_false", None) => self.not_strictly_false(args[0]),
                ("or" | "orValue", Some(target)) if args.len() == 1 => self.optional_or(function, *target, args[0]),
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
                    if let Some(value) = self.entry(field.value, field.optional, &Value::text(Arc::clone(&field.field)))? {
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

    fn entry(&mut self, value: Id, optional: bool, key: &Value<'a>) -> std::result::Result<Option<Value<'a>>, EvalError> {
        let value = self.eval(value)?;
        match value {
            value if !optional => Ok(Some(value)),
            Value::Optional(value) => Ok(value.map(|value| Value::clone(&value))),
            other => {
                let message = format!("cannot initialize optional entry '{key}' from non-optional value {other}");
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
                    let message = format!("cannot initialize optional list element from non-optional value {other}");
                    return Err(EvalError::new(message));
                }
            }
        }
        self.pay(LIST)?;
        Ok(Value::list(list))
    }

    // --- places ---

    /// Follows names and indexes to their end.
    fn walk(&mut self, id: Id) -> Result<'a> {
        let place = self.place(id);
        if !self.begins_with_condition(id) {
            self.pay(SELECT)?;
        }
        place.map(Place::value)
    }

    fn begins_with_condition(&self, mut id: Id) -> bool {
        loop {
            id = match &self.plan.ast.node(id).kind {
                Kind::Select { operand, .. } => *operand,
                Kind::Call { function, target: None, args } => match &**function {
                    "_[_]" | "_[?_]" | "_?._" => args[0],
                    "_?_:_" => return true,
                    _ => return false,
                },
                _ => return false,
            };
        }
    }

    /// Whether a node is a place: names and indexes after each other.
    fn is_place(&self, id: Id) -> bool {
        if self.plan.constants.contains_key(&id) {
            return false;
        }
        match &self.plan.ast.node(id).kind {
            Kind::Ident(_) | Kind::Select { .. } => true,
            Kind::Call { function, target: None, .. } => {
                matches!(&**function, "_[_]" | "_[?_]" | "_?._" | "_?_:_")
            }
            _ => false,
        }
    }

    /// A step on the way to a place. The way costs once, at its end; each step costs besides.
    fn place(&mut self, id: Id) -> std::result::Result<Place<'a>, EvalError> {
        if !self.is_place(id) {
            return self.eval(id).map(Place::of);
        }
        match &self.plan.ast.node(id).kind {
            Kind::Ident(name) => self.variable(name).map(Place::of),
            Kind::Select { operand, field, test } => {
                if let Some(value) = self.lazy(*operand, field, *test) {
                    self.pay(SELECT)?;
                    return value.map(Place::There);
                }
                let place = self.place(*operand)?;
                let key = Value::text(Arc::clone(field));
                if *test { self.presence(place, &key) } else { self.step(place, &key, false) }
            }
            Kind::Call { function, args, .. } => match &**function {
                "_?_:_" => match self.eval(args[0])? {
                    Value::Bool(truth) => self.place(args[if truth { 1 } else { 2 }]),
                    _ => Err(EvalError::no_such_overload()),
                },
                "_?._" => {
                    let place = self.place(args[0])?;
                    let key = self.eval(args[1])?;
                    self.step(place, &key, true)
                }
                _ => {
                    let place = self.place(args[0])?;
                    if let Place::Absent = place {
                        return Ok(place);
                    }
                    let key = self.place(args[1])?.value();
                    self.step(place, &key, &**function == "_[?_]")
                }
            },
            _ => self.eval(id).map(Place::of),
        }
    }

    fn step(&mut self, place: Place<'a>, key: &Value<'a>, optional: bool) -> std::result::Result<Place<'a>, EvalError> {
        let (value, maybe) = match place {
            Place::There(value) => (value, optional),
            Place::Maybe(value) => (value, true),
            Place::Absent => return Ok(Place::Absent),
        };
        let found = part(&value, key);
        if maybe {
            return match found? {
                Ok(found) => {
                    self.pay(SELECT)?;
                    Ok(Place::Maybe(found))
                }
                Err(_) => Ok(Place::Absent),
            };
        }
        self.pay(SELECT)?;
        found?.map(Place::There)
    }

    fn presence(&mut self, place: Place<'a>, key: &Value<'a>) -> std::result::Result<Place<'a>, EvalError> {
        let (Place::There(value) | Place::Maybe(value)) = place else {
            return Ok(Place::There(Value::Bool(false)));
        };
        self.pay(SELECT)?;
        Ok(Place::There(Value::Bool(match &value {
            Value::Map(map) => key.as_str().is_some_and(|name| map.has(name)),
            Value::Message(..) => matches!(part(&value, key), Ok(Ok(_))),
            Value::List(_) => return Err(bad_index(key)),
            _ => false,
        })))
    }

    fn lazy(&mut self, operand: Id, field: &str, test: bool) -> Option<Result<'a>> {
        let Kind::Ident(name) = &self.plan.ast.node(operand).kind else {
            return None;
        };
        if self.locals.iter().any(|local| *local.name == **name) {
            return None;
        }
        let Bound::Lazy(lazy) = self.bindings.find(name.strip_prefix('.').unwrap_or(name))? else {
            return None;
        };
        let lazy = std::rc::Rc::clone(lazy);
        Some(match lazy.get(field, self.bindings) {
            Some(Ok(_)) if test => Ok(Value::Bool(true)),
            None if test => Ok(Value::Bool(false)),
            Some(value) => value,
            None => Err(EvalError::new(format!("no such key: {field}"))),
        })
    }

    fn variable(&mut self, name: &str) -> Result<'a> {
        if let Some(at) = self.locals.iter().rposition(|local| local.name == name) {
            return self.local(at);
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        match self.bindings.find(name) {
            Some(Bound::Value(value)) => value.clone(),
            Some(Bound::Lazy(_)) => Err(EvalError::no_such_overload()),
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }

    fn local(&mut self, at: usize) -> Result<'a> {
        if let Some(value) = &self.locals[at].value {
            return value.clone();
        }
        let Some(init) = self.locals[at].init else {
            return Err(EvalError::no_such_overload());
        };
        // What it is at first knows only the variables around the loop.
        let inner = self.locals.split_off(at);
        let value = self.eval(init);
        self.locals.extend(inner);
        self.locals[at].value = Some(value.clone());
        value
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
        let overload = if function == "_==_" { "equals" } else { "not_equals" };
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
        let Some(call) = plan.calls.get(&id) else {
            return Err(EvalError::no_such_overload());
        };
        if function == "_+_"
            && let Some(sum) = self.append(args)
        {
            return sum;
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.iter().chain(args) {
            values.push(self.eval(*arg)?);
        }
        let result = run(call, function, &values)?;
        if !call.membership {
            self.pay(track::call(function, call.overload, &values, Some(&result)))?;
        }
        Ok(result)
    }

    /// Adds items to what a loop has gathered without copying it.
    fn append(&mut self, args: &'p [Id]) -> Option<Result<'a>> {
        let Kind::Ident(name) = &self.plan.ast.node(args[0]).kind else {
            return None;
        };
        let at = self.locals.iter().rposition(|local| *local.name == **name)?;
        if self.locals[at].init.is_none() {
            return None;
        }
        // Only what is gathered by this very loop may be taken out of it.
        if !matches!(self.local(at), Ok(Value::List(List::Owned(_)))) || &**name != crate::syntax::ACCUMULATOR {
            return None;
        }
        let more = match self.eval(args[1]) {
            Ok(Value::List(more)) => more,
            Ok(_) => return Some(Err(EvalError::no_such_overload())),
            Err(error) => return Some(Err(error)),
        };
        if let Err(error) = self.pay(SELECT).and_then(|()| self.pay(SELECT)) {
            return Some(Err(error));
        }
        let Some(Ok(Value::List(list))) = self.locals[at].value.take() else {
            return Some(Err(EvalError::no_such_overload()));
        };
        Some(list.join(&more).map(Value::List))
    }

    // --- loops ---

    fn fold(&mut self, it: &'p Comprehension) -> Result<'a> {
        let range = self.eval(it.range)?;
        let depth = self.locals.len();
        self.locals.push(Local { name: &it.accu, value: None, init: Some(it.init) });
        let result = self.rounds(it, depth, &range).and_then(|()| self.eval(it.result));
        self.locals.truncate(depth);
        result
    }

    fn rounds(&mut self, it: &'p Comprehension, accu: usize, range: &Value<'a>) -> std::result::Result<(), EvalError> {
        let keys = match range {
            Value::List(_) => None,
            Value::Map(map) => Some(map.keys()),
            other => {
                return Err(EvalError::new(format!("got '{}', expected iterable type", other.type_name())));
            }
        };
        let rounds = match (range, &keys) {
            (Value::List(list), _) => list.len(),
            (_, Some(keys)) => keys.len(),
            _ => 0,
        };
        for round in 0..rounds {
            let first = match (range, &keys, &it.var2) {
                (_, Some(keys), _) => Ok(keys[round].clone()),
                (Value::List(list), _, None) => item(list, round),
                _ => Ok(Value::Int(i64::try_from(round).unwrap_or(i64::MAX))),
            };
            self.locals.push(Local { name: &it.var, value: Some(first), init: None });
            if let Some(var2) = &it.var2 {
                let second = match (range, &keys) {
                    (Value::Map(map), Some(keys)) => entry(map, &keys[round]),
                    (Value::List(list), _) => item(list, round),
                    _ => Err(EvalError::no_such_overload()),
                };
                self.locals.push(Local { name: var2, value: Some(second), init: None });
            }
            let condition = self.eval(it.condition);
            match condition {
                Ok(Value::Bool(false)) => {
                    self.locals.truncate(accu + 1);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::CostLimit => return Err(error),
                _ => {}
            }
            let step = self.eval(it.step);
            self.locals.truncate(accu + 1);
            match step {
                Err(error) if error.kind() == ErrorKind::CostLimit => return Err(error),
                step => self.locals[accu].value = Some(step),
            }
        }
        Ok(())
    }
}

impl<'a> Place<'a> {
    fn of(value: Value<'a>) -> Self {
        match value {
            Value::Optional(Some(value)) => Place::Maybe(Value::clone(&value)),
            Value::Optional(None) => Place::Absent,
            value => Place::There(value),
        }
    }

    fn value(self) -> Value<'a> {
        match self {
            Place::There(value) => value,
            Place::Maybe(value) => Value::optional(Some(value)),
            Place::Absent => Value::Optional(None),
        }
    }
}

fn item<'a>(list: &List<'a>, at: usize) -> Result<'a> {
    list.get(at).unwrap_or_else(|| Err(EvalError::new(format!("index out of bounds: {at}"))))
}

fn entry<'a>(map: &Map<'a>, key: &Value<'a>) -> Result<'a> {
    map.find(key).unwrap_or_else(|| Err(EvalError::new(format!("no such key: {key}"))))
}

fn bad_index(key: &Value<'_>) -> EvalError {
    EvalError::new(format!("unsupported index type '{}' in list", key.type_name()))
}

/// A part of a value: what is there, or that there is nothing; or that there can be no such part.
fn part<'a>(value: &Value<'a>, key: &Value<'a>) -> std::result::Result<Result<'a>, EvalError> {
    let missing = || Ok(Err(EvalError::new(format!("no such key: {key}"))));
    match value {
        Value::Map(map) => match map.find(key) {
            Some(found) => found.map(Ok),
            None => missing(),
        },
        Value::List(list) => {
            let index = match key {
                Value::Int(index) => *index,
                Value::Uint(index) => i64::try_from(*index).unwrap_or(-1),
                #[expect(clippy::cast_possible_truncation, clippy::float_cmp, reason = "only whole numbers pass")]
                Value::Double(index) if index.trunc() == *index && index.abs() < 9e15 => *index as i64,
                Value::Double(_) => return Err(EvalError::new(format!("unsupported index value {key} in list"))),
                _ => return Err(bad_index(key)),
            };
            match usize::try_from(index).ok().and_then(|at| list.get(at)) {
                Some(found) => found.map(Ok),
                None => Ok(Err(EvalError::new(format!("index out of bounds: {key}")))),
            }
        }
        Value::Message(_, fields) => {
            match fields.iter().find(|(name, _)| key.as_str() == Some(name)) {
                Some((_, value)) => Ok(Ok(value.clone())),
                None => missing(),
            }
        }
        _ => missing(),
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
