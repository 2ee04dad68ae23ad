//! What expressions are about, and what they give.
//!
//! JSON is not converted: a value is a reference into a tree and how it is declared, and its parts are read when an
//! expression asks for them.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go UnstructuredToVal

mod compare;
mod json;
mod list;
mod map;
pub(crate) mod opaque;

use std::{fmt, ops::Deref, sync::Arc};

pub(crate) use self::{
    compare::{compare, equal, is_ordered},
    map::Key,
    opaque::OpaqueValue,
};
pub use self::{
    list::List,
    map::{Entries, Map},
    opaque::{Authorizer, Check, Decision, ResourceCheck, Target},
};
use crate::{
    error::EvalError,
    function::{semver::Semver, time::Timestamp},
    types::Type,
};

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Null.
    Null,
    /// A truth.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is not negative.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A time.
    Timestamp(Timestamp),
    /// A span of time, in nanoseconds.
    Duration(i64),
    /// A type.
    Type(Arc<Type>),
    /// A list.
    List(List<'a>),
    /// A map, or an object.
    Map(Map<'a>),
    /// A message: its type, and its fields.
    Message(Arc<str>, Arc<Vec<(Arc<str>, Value<'a>)>>),
    /// Something that may be absent.
    Optional(Option<Arc<Value<'a>>>),
    /// Something with functions of its own.
    Opaque(OpaqueValue),
}

/// A text, borrowed from JSON or shared.
#[derive(Clone)]
pub enum Text<'a> {
    /// Part of a tree.
    Borrowed(&'a str),
    /// Made by an expression.
    Shared(Arc<str>),
}

pub(crate) type Result<'a> = std::result::Result<Value<'a>, EvalError>;

// --- Value ---

impl<'a> Value<'a> {
    /// A text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Value::String(Text::Shared(text.into()))
    }

    /// Something that may be absent.
    pub fn optional(value: Option<Value<'a>>) -> Self {
        Value::Optional(value.map(Arc::new))
    }

    /// A list.
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Value::List(List::Owned(Arc::new(items)))
    }

    /// A list of texts.
    pub(crate) fn texts<T: Into<Arc<str>>>(texts: impl IntoIterator<Item = T>) -> Self {
        Value::list(texts.into_iter().map(Value::text).collect())
    }

    /// An amount.
    pub fn quantity(quantity: k3_quantity::Quantity) -> Self {
        Value::Opaque(OpaqueValue::Quantity(Arc::new(quantity)))
    }

    /// A semantic version, if the text is one.
    pub fn semver(text: &str) -> std::result::Result<Self, EvalError> {
        Ok(Value::Opaque(OpaqueValue::Semver(Arc::new(
            Semver::parse(text).map_err(|error| EvalError::new(error.to_string()))?,
        ))))
    }

    /// The truth that it is.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The text that it is.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Its type; of lists and maps, without what is in them.
    pub fn ty(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Duration(_) => Type::Duration,
            Value::Type(_) => Type::Type(None),
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Message(name, _) => Type::Message(Arc::clone(name)),
            Value::Optional(_) => Type::Optional(Arc::new(Type::Dyn)),
            Value::Opaque(opaque) => Type::Opaque(opaque.opaque()),
        }
    }

    /// The name of its type.
    pub(crate) fn type_name(&self) -> String {
        type_name(&self.ty())
    }

    /// How many parts it has, of what has any.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Value::String(text) => Some(text.chars().count()),
            Value::Bytes(bytes) => Some(bytes.len()),
            Value::List(list) => Some(list.len()),
            Value::Map(map) => Some(map.len()),
            _ => None,
        }
    }

    /// Whether it is nothing of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(truth) => !truth,
            Value::Int(number) => *number == 0,
            Value::Uint(number) => *number == 0,
            Value::Double(number) => *number == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Timestamp(time) => time.is_zero(),
            Value::Duration(nanos) => *nanos == 0,
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty(),
            Value::Message(_, fields) => fields.is_empty(),
            Value::Type(_) | Value::Optional(_) | Value::Opaque(_) => false,
        }
    }
}

/// The name of a type without what is in it.
pub(crate) fn type_name(ty: &Type) -> String {
    match ty {
        Type::List(_) => "list".to_owned(),
        Type::Map(..) => "map".to_owned(),
        Type::Type(_) => "type".to_owned(),
        Type::Optional(_) => "optional_type".to_owned(),
        other => other.to_string(),
    }
}

impl fmt::Display for Value<'_> {
    /// As errors show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(truth) => truth.fmt(f),
            Value::Int(number) => number.fmt(f),
            Value::Uint(number) => number.fmt(f),
            Value::Double(number) => f.write_str(&crate::function::convert::double(*number)),
            Value::String(text) => f.write_str(text),
            Value::Timestamp(time) => time.fmt(f),
            Value::Duration(nanos) => f.write_str(&crate::function::time::duration_text(*nanos)),
            Value::Type(ty) => f.write_str(&type_name(ty)),
            other => f.write_str(&other.type_name()),
        }
    }
}

// --- Text ---

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
