//! Attributes: names, fields and indexes after each other.
//!
//! Resolving an attribute costs once, and each step besides; a step that leads nowhere on an optional way costs nothing.

// upstream: vendor/github.com/google/cel-go/interpreter/attributes.go Attribute, Qualify, QualifyIfPresent, missingKey

use std::{rc::Rc, sync::Arc};

use super::{Evaluation, SELECT};
use crate::{
    bindings::BoundVariable,
    error::EvalError,
    syntax::ast::{Id, Kind, Optionality, SelectKind},
    value::{Result, Value},
};

/// An attribute that is being resolved: its value, or whether there may be nothing.
pub(super) enum Attribute<'a> {
    Present(Value<'a>),
    Optional(Value<'a>),
    Absent,
}

impl<'a> Evaluation<'_, '_, 'a> {
    /// Follows names and indexes to their end.
    pub(super) fn walk(&mut self, id: Id) -> Result<'a> {
        let attribute = self.attribute(id);
        if !self.begins_with_condition(id) {
            self.charge(SELECT)?;
        }
        attribute.map(Attribute::value)
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

    /// Whether a node is an attribute: names and indexes after each other.
    fn is_attribute(&self, id: Id) -> bool {
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

    /// One qualifier of an attribute. The attribute costs once, at its end; each step costs besides.
    pub(super) fn attribute(&mut self, id: Id) -> std::result::Result<Attribute<'a>, EvalError> {
        if !self.is_attribute(id) {
            return self.eval(id).map(Attribute::from_value);
        }
        match &self.plan.ast.node(id).kind {
            Kind::Ident(name) => self.variable(name).map(Attribute::from_value),
            Kind::Select { operand, field, kind } => {
                if let Some(value) = self.lazy(*operand, field, *kind) {
                    self.charge(SELECT)?;
                    return value.map(Attribute::Present);
                }
                let attribute = self.attribute(*operand)?;
                let key = Value::text(Arc::clone(field));
                match kind {
                    SelectKind::Test => self.test_only(attribute, &key),
                    SelectKind::Value => self.step(attribute, &key, Optionality::Required),
                }
            }
            Kind::Call { function, args, .. } => match &**function {
                "_?_:_" => match self.eval(args[0])? {
                    Value::Bool(truth) => self.attribute(args[if truth { 1 } else { 2 }]),
                    _ => Err(EvalError::no_such_overload()),
                },
                "_?._" => {
                    let attribute = self.attribute(args[0])?;
                    let key = self.eval(args[1])?;
                    self.step(attribute, &key, Optionality::Optional)
                }
                _ => {
                    let attribute = self.attribute(args[0])?;
                    if let Attribute::Absent = attribute {
                        return Ok(attribute);
                    }
                    let key = self.attribute(args[1])?.value();
                    let optionality = match &**function {
                        "_[?_]" => Optionality::Optional,
                        _ => Optionality::Required,
                    };
                    self.step(attribute, &key, optionality)
                }
            },
            _ => self.eval(id).map(Attribute::from_value),
        }
    }

    fn step(
        &mut self,
        attribute: Attribute<'a>,
        key: &Value<'a>,
        optionality: Optionality,
    ) -> std::result::Result<Attribute<'a>, EvalError> {
        let (value, optionality) = match attribute {
            Attribute::Present(value) => (value, optionality),
            Attribute::Optional(value) => (value, Optionality::Optional),
            Attribute::Absent => return Ok(Attribute::Absent),
        };
        let found = part(&value, key);
        if optionality == Optionality::Optional {
            return match found? {
                Ok(found) => {
                    self.charge(SELECT)?;
                    Ok(Attribute::Optional(found))
                }
                Err(_) => Ok(Attribute::Absent),
            };
        }
        self.charge(SELECT)?;
        found?.map(Attribute::Present)
    }

    fn test_only(
        &mut self,
        attribute: Attribute<'a>,
        key: &Value<'a>,
    ) -> std::result::Result<Attribute<'a>, EvalError> {
        let (Attribute::Present(value) | Attribute::Optional(value)) = attribute else {
            return Ok(Attribute::Present(Value::Bool(false)));
        };
        self.charge(SELECT)?;
        Ok(Attribute::Present(Value::Bool(match &value {
            Value::Map(map) => key.as_str().is_some_and(|name| map.has(name)),
            Value::Message(..) => matches!(part(&value, key), Ok(Ok(_))),
            Value::List(_) => return Err(bad_index(key)),
            _ => false,
        })))
    }

    fn lazy(&mut self, operand: Id, field: &str, kind: SelectKind) -> Option<Result<'a>> {
        let Kind::Ident(name) = &self.plan.ast.node(operand).kind else {
            return None;
        };
        if self.locals.iter().any(|local| *local.name == **name) {
            return None;
        }
        let BoundVariable::LazyObject(lazy) = self.bindings.find(name.strip_prefix('.').unwrap_or(name))?
        else {
            return None;
        };
        let lazy = Rc::clone(lazy);
        Some(match (kind, lazy.get(field, self.bindings)) {
            (SelectKind::Test, Some(Ok(_))) => Ok(Value::Bool(true)),
            (SelectKind::Test, None) => Ok(Value::Bool(false)),
            (_, Some(value)) => value,
            (SelectKind::Value, None) => Err(EvalError::new(format!("no such key: {field}"))),
        })
    }

    fn variable(&mut self, name: &str) -> Result<'a> {
        if let Some(at) = self.locals.iter().rposition(|local| local.name == name) {
            return self.local(at);
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        match self.bindings.find(name) {
            Some(BoundVariable::Value(value)) => value.clone(),
            Some(BoundVariable::LazyObject(_)) => Err(EvalError::no_such_overload()),
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

impl<'a> Attribute<'a> {
    pub(super) fn from_value(value: Value<'a>) -> Self {
        match value {
            Value::Optional(Some(value)) => Attribute::Optional(Value::clone(&value)),
            Value::Optional(None) => Attribute::Absent,
            value => Attribute::Present(value),
        }
    }

    pub(super) fn value(self) -> Value<'a> {
        match self {
            Attribute::Present(value) => value,
            Attribute::Optional(value) => Value::optional(Some(value)),
            Attribute::Absent => Value::Optional(None),
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
