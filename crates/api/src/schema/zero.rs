//! Zero values of fields that are always written.

use super::field::{Field, Struct, Type};
use serde_json::{Map, Value};

// --- Type ---

impl Type {
    /// The JSON form of the zero value.
    pub fn zero(&self) -> Value {
        match self {
            Self::String(_) => Value::String(String::new()),
            Self::Int32(_) | Self::Int64(_) | Self::Double | Self::IntOrString => Value::from(0),
            Self::Bool(_) | Self::SchemaOrBool => Value::Bool(false),
            Self::Quantity => Value::from("0"),
            Self::Duration => Value::from("0s"),
            Self::Struct(of) => Value::Object(of.get().zero()),
            Self::Bytes
            | Self::Time
            | Self::MicroTime
            | Self::RawExtension
            | Self::FieldsV1
            | Self::Json
            | Self::SchemaOrArray
            | Self::SchemaOrStrings
            | Self::Strings(_)
            | Self::List(_)
            | Self::Map(..) => Value::Null,
        }
    }

    /// Whether "left out if empty" leaves this value out.
    pub fn is_empty(&self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Bool(value) => !value && matches!(self, Self::Bool(_)),
            Value::Number(value) => {
                matches!(self, Self::Int32(_) | Self::Int64(_) | Self::Double) && value.as_f64() == Some(0.0)
            }
            Value::String(value) => value.is_empty() && matches!(self, Self::String(_) | Self::Bytes),
            Value::Array(items) => items.is_empty() && matches!(self, Self::List(_) | Self::Strings(_)),
            Value::Object(fields) => fields.is_empty() && matches!(self, Self::Map(..)),
        }
    }
}

impl Type {
    fn forget_empty(&self, value: &mut Value) {
        match (self, value) {
            (Self::Struct(of), value) => of.get().forget_empty(value),
            (Self::List(items), Value::Array(list)) if items.is_nested() => {
                for item in list {
                    items.forget_empty(item);
                }
            }
            (Self::Map(values, _), Value::Object(map)) if values.is_nested() => {
                for value in map.values_mut() {
                    values.forget_empty(value);
                }
            }
            _ => {}
        }
    }

    /// Whether values of this type can have fields below them.
    fn is_nested(&self) -> bool {
        matches!(self, Self::Struct(_) | Self::List(_) | Self::Map(..))
    }
}

// --- Field ---

impl Field {
    /// Whether an object does not have this value written.
    pub fn leaves_out(&self, value: &Value) -> bool {
        if self.pointer {
            return value.is_null() && !self.shown;
        }
        (!self.shown && self.ty.is_empty(value)) || (self.omit_zero && value.is_null())
    }
}

// --- Struct ---

impl Struct {
    /// The JSON form of the zero value.
    pub fn zero(&self) -> Map<String, Value> {
        let mut object = Map::new();
        self.complete(&mut object);
        object
    }

    /// Adds the fields that are always written, as far as they are missing. Returns how many objects that made.
    pub fn complete(&self, object: &mut Map<String, Value>) -> usize {
        let mut added = 0;
        for field in self.always() {
            if object.contains_key(field.name) {
                continue;
            }
            let zero = match &field.ty {
                _ if field.pointer => Value::Null,
                Type::Struct(of) => {
                    let mut inner = Map::new();
                    added += 1 + of.get().complete(&mut inner);
                    Value::Object(inner)
                }
                ty => ty.zero(),
            };
            object.insert(field.name.to_owned(), zero);
        }
        added
    }

    /// Makes empty lists and maps that are always written `null`: what is empty and what is not there are the same once an
    /// object is stored.
    pub fn forget_empty(&self, object: &mut Value) {
        let Value::Object(fields) = object else {
            return;
        };
        for (name, value) in fields.iter_mut() {
            let Some(field) = self.named(name) else { continue };
            match value {
                Value::Array(items) if items.is_empty() && field.shown && !field.pointer => {
                    *value = Value::Null;
                }
                Value::Object(entries)
                    if entries.is_empty() && field.shown && matches!(field.ty, Type::Map(..)) =>
                {
                    *value = Value::Null;
                }
                _ => field.ty.forget_empty(value),
            }
        }
    }
}
