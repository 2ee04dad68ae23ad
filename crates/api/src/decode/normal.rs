//! Normal form of trees: what decoding the text of a tree would make of it, without the text.

use super::{
    leaf::{self, LeafError, Precision},
    lexer::MAX_DEPTH,
    number,
    typed::MAX_OBJECTS,
};
use crate::schema::{Struct, StructRef, Type};
use serde_json::{Map, Value};

/// Objects that a tree may have. Completing an object adds fewer to it than the factor between the two limits.
const MAX_CHECKED: usize = MAX_OBJECTS / 64;

/// Brings a tree into the normal form of its type, if decoding its text would report nothing. Otherwise returns false, and the
/// tree is unchanged: its text is to be decoded for what there is to report.
///
/// Most of an object that was patched is in normal form already. Nothing is copied, and the tree is changed only where it is not.
pub fn normalize_in_place(value: &mut Value, ty: StructRef) -> bool {
    let Value::Object(fields) = &*value else {
        return false;
    };
    let mut check = NormalFormCheck {
        objects: MAX_CHECKED,
        depth: 0,
        is_normal: true,
    };
    if !check.accepts_struct(ty.get(), fields) {
        return false;
    }
    if !check.is_normal {
        repair(&Type::Struct(ty), value);
    }
    true
}

/// Looks for what decoding would report, and for what it would change.
struct NormalFormCheck {
    /// How many more objects there may be.
    objects: usize,
    depth: usize,
    /// Whether nothing was found so far that is to be repaired.
    is_normal: bool,
}

// --- NormalFormCheck ---

impl NormalFormCheck {
    /// Whether decoding would report nothing about a value that is not `null`.
    fn accepts(&mut self, ty: &Type, value: &Value) -> bool {
        match (ty, value) {
            (Type::Struct(of), Value::Object(fields)) => self.accepts_struct(of.get(), fields),
            (Type::Map(values, _), Value::Object(entries)) => {
                self.enter()
                    && entries.values().all(|value| self.accepts_element(values, value))
                    && self.leave()
            }
            (Type::List(items), Value::Array(list)) => {
                self.enter() && list.iter().all(|item| self.accepts_element(items, item)) && self.leave()
            }
            (Type::Strings(_), Value::Array(list)) => list.iter().all(Value::is_string),
            (Type::RawExtension | Type::FieldsV1 | Type::Json, value) => self.accepts_any(value),
            (Type::String(_) | Type::IntOrString | Type::Duration, Value::String(_))
            | (Type::Bool(_), Value::Bool(_)) => true,
            (Type::Bytes | Type::Quantity | Type::Time | Type::MicroTime, Value::String(text)) => {
                match read(ty, text) {
                    Some(Ok(read)) => {
                        self.is_normal &= read == *value;
                        true
                    }
                    _ => false,
                }
            }
            (Type::Int32(_) | Type::IntOrString, Value::Number(number)) => number
                .as_i64()
                .is_some_and(|number| i32::try_from(number).is_ok()),
            (Type::Int64(_), Value::Number(number)) => number.is_i64(),
            (Type::Double, Value::Number(number)) => {
                number.as_f64().and_then(number::float).as_ref() == Some(value)
            }
            _ => false,
        }
    }

    fn accepts_struct(&mut self, of: &'static Struct, fields: &Map<String, Value>) -> bool {
        if !self.enter() {
            return false;
        }
        for (name, value) in fields {
            let Some(field) = of.named(name) else {
                return false;
            };
            if !value.is_null() && !self.accepts(&field.ty, value) {
                return false;
            }
            self.is_normal &= !field.leaves_out(value);
        }
        self.is_normal = self.is_normal && of.always().all(|field| fields.contains_key(field.name));
        self.leave()
    }

    /// The same for an item of a list or a value of a map. One that is `null` is made zero, which is seldom worth a repair.
    fn accepts_element(&mut self, ty: &Type, value: &Value) -> bool {
        if value.is_null() {
            return ty.zero().is_null();
        }
        self.accepts(ty, value)
    }

    /// The same for a value that is kept as it is. Numbers are brought into one form.
    fn accepts_any(&mut self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::String(_) => true,
            Value::Number(number) => number.is_i64(),
            Value::Array(items) => {
                self.enter() && items.iter().all(|item| self.accepts_any(item)) && self.leave()
            }
            Value::Object(fields) => {
                self.enter() && fields.values().all(|value| self.accepts_any(value)) && self.leave()
            }
        }
    }

    fn enter(&mut self) -> bool {
        self.depth += 1;
        self.objects = self.objects.saturating_sub(1);
        self.depth <= MAX_DEPTH && self.objects > 0
    }

    fn leave(&mut self) -> bool {
        self.depth -= 1;
        true
    }
}

/// Reads a text of a type that has a form of its own; `None` for other types.
fn read(ty: &Type, text: &str) -> Option<Result<Value, LeafError>> {
    match ty {
        Type::Bytes => Some(leaf::bytes(text)),
        Type::Quantity => Some(leaf::quantity(text)),
        Type::Time => Some(leaf::time(text, Precision::Second)),
        Type::MicroTime => Some(leaf::time(text, Precision::Microsecond)),
        _ => None,
    }
}

/// Brings a value that was accepted into normal form.
fn repair(ty: &Type, value: &mut Value) {
    match (ty, &mut *value) {
        (Type::Struct(of), Value::Object(fields)) => {
            let of = of.get();
            fields.retain(|name, value| {
                let Some(field) = of.named(name) else {
                    return true;
                };
                repair(&field.ty, value);
                !field.leaves_out(value)
            });
            of.complete(fields);
        }
        (Type::Map(values, _), Value::Object(entries)) => {
            entries.values_mut().for_each(|value| repair(values, value));
        }
        (Type::List(items), Value::Array(list)) => list.iter_mut().for_each(|item| repair(items, item)),
        (ty, Value::String(text)) => {
            if let Some(Ok(read)) = read(ty, text) {
                *value = read;
            }
        }
        _ => {}
    }
}
