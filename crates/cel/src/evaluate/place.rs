//! Places: names, fields and indexes after each other.
//!
//! The way to a place costs once, and each step besides; a step that leads nowhere on an optional way costs nothing.

use std::{rc::Rc, sync::Arc};

use super::{Evaluation, SELECT};
use crate::{
    bindings::Bound,
    error::EvalError,
    syntax::ast::{Id, Kind},
    value::{Result, Value},
};

/// A place that is being walked to: what is there, or whether there may be nothing.
pub(super) enum Place<'a> {
    There(Value<'a>),
    Maybe(Value<'a>),
    Absent,
}

impl<'a> Evaluation<'_, '_, 'a> {
    /// Follows names and indexes to their end.
    pub(super) fn walk(&mut self, id: Id) -> Result<'a> {
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
                Kind::Call {
                    function,
                    target: None,
                    args,
                } => match &**function {
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
        if self.plan.constant(id).is_some() {
            return false;
        }
        match &self.plan.ast.node(id).kind {
            Kind::Ident(_) | Kind::Select { .. } => true,
            Kind::Call {
                function,
                target: None,
                ..
            } => {
                matches!(&**function, "_[_]" | "_[?_]" | "_?._" | "_?_:_")
            }
            _ => false,
        }
    }

    /// A step on the way to a place. The way costs once, at its end; each step costs besides.
    pub(super) fn place(&mut self, id: Id) -> std::result::Result<Place<'a>, EvalError> {
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
                if *test {
                    self.presence(place, &key)
                } else {
                    self.step(place, &key, false)
                }
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

    fn step(
        &mut self,
        place: Place<'a>,
        key: &Value<'a>,
        optional: bool,
    ) -> std::result::Result<Place<'a>, EvalError> {
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
        let Bound::LazyObject(lazy) = self.bindings.find(name.strip_prefix('.').unwrap_or(name))? else {
            return None;
        };
        let lazy = Rc::clone(lazy);
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
            Some(Bound::LazyObject(_)) => Err(EvalError::no_such_overload()),
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }

    pub(super) fn local(&mut self, at: usize) -> Result<'a> {
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
}

impl<'a> Place<'a> {
    pub(super) fn of(value: Value<'a>) -> Self {
        match value {
            Value::Optional(Some(value)) => Place::Maybe(Value::clone(&value)),
            Value::Optional(None) => Place::Absent,
            value => Place::There(value),
        }
    }

    pub(super) fn value(self) -> Value<'a> {
        match self {
            Place::There(value) => value,
            Place::Maybe(value) => Value::optional(Some(value)),
            Place::Absent => Value::Optional(None),
        }
    }
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
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::float_cmp,
                    reason = "only whole numbers pass"
                )]
                Value::Double(index) if index.trunc() == *index && index.abs() < 9e15 => *index as i64,
                Value::Double(_) => {
                    return Err(EvalError::new(format!("unsupported index value {key} in list")));
                }
                _ => return Err(bad_index(key)),
            };
            match usize::try_from(index).ok().and_then(|at| list.get(at)) {
                Some(found) => found.map(Ok),
                None => Ok(Err(EvalError::new(format!("index out of bounds: {key}")))),
            }
        }
        Value::Message(_, fields) => match fields.iter().find(|(name, _)| key.as_str() == Some(name)) {
            Some((_, value)) => Ok(Ok(value.clone())),
            None => missing(),
        },
        _ => missing(),
    }
}
