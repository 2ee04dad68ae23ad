//! Decodes values of a known type; reports unknown and duplicate fields (strict decoding).

use super::error::{DecodeError, StrictError, StrictErrors};
use super::leaf::{self, Precision};
use super::lexer::{ElementPosition, Lexer, ValueStart};
use super::number;
use super::path::{Path, PathWithName};
use crate::limits::{self, MAX_PATH_BYTES};
use crate::schema::{Struct, Type, schema};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::HashSet};

/// Objects with fields in one body: `{}` within a list becomes an object of hundreds of bytes.
pub(super) const MAX_OBJECTS: usize = 1 << 17;

/// Decodes one body.
// upstream: vendor/sigs.k8s.io/json/internal/golang/encoding/json/decode.go decodeState
pub(super) struct Decoder<'b> {
    pub(super) lexer: Lexer<'b>,
    pub(super) strict_errors: StrictErrors,
    /// The first value of a wrong type; decoding continues, for a syntax error further on takes precedence over it.
    pub(super) wrong: Option<String>,
    /// The first value that its type cannot read; takes precedence over `wrong`.
    pub(super) unreadable: Option<String>,
    /// How many more objects there may be.
    pub(super) objects: usize,
    /// Whether strict errors are reported. In JSON schemas they are not for a field that may be a schema or another value.
    pub(super) reporting: bool,
}

// --- Decoder ---

impl<'b> Decoder<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self {
            lexer: Lexer::new(bytes),
            strict_errors: StrictErrors::default(),
            wrong: None,
            unreadable: None,
            objects: MAX_OBJECTS,
            reporting: true,
        }
    }

    /// Decodes a value; `null` is an unset one, be it written so or of a wrong type. `before` is
    /// what an earlier field of the same name said: objects and maps are merged, and then it is taken.
    pub(super) fn value(
        &mut self,
        ty: &Type,
        path: &Path<'_>,
        before: &mut Option<Value>,
    ) -> Result<Value, DecodeError> {
        let start = self.lexer.start()?;
        if start == ValueStart::Null {
            return Ok(Value::Null);
        }
        match (ty, start) {
            (Type::Struct(of), ValueStart::Object) => {
                let object = self.object(of.get(), path, into_object(before.take()))?;
                Ok(Value::Object(object))
            }
            (Type::Map(values, _), ValueStart::Object) => self.map(values, path, into_object(before.take())),
            (Type::List(items), ValueStart::Array) => self.list(items, path),
            (Type::Strings(_), ValueStart::Array) => self.list(&Type::String("string"), path),
            (Type::RawExtension | Type::FieldsV1 | Type::Json, _) => {
                let reporting = std::mem::replace(&mut self.reporting, false);
                let value = self.any_started(start, path)?;
                self.reporting = reporting;
                Ok(value)
            }
            (Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings, _) => {
                self.schema_or(ty, start, path)
            }
            (_, ValueStart::String) => {
                let text = self.lexer.string()?;
                Ok(self.text(ty, text, path))
            }
            (_, ValueStart::Number) => {
                let literal = self.lexer.number()?;
                Ok(self.number(ty, literal, path))
            }
            (Type::Bool(_), ValueStart::Bool(value)) => Ok(Value::Bool(value)),
            _ => {
                self.lexer.skip_started(start)?;
                self.mismatch(word(start), ty, path);
                Ok(Value::Null)
            }
        }
    }

    /// Decodes an object of a known type, in normal form.
    pub(super) fn object(
        &mut self,
        of: &'static Struct,
        path: &Path<'_>,
        mut object: Map<String, Value>,
    ) -> Result<Map<String, Value>, DecodeError> {
        self.lexer.enter()?;
        self.count()?;
        // The fields that were there, by position: no type has more than 128.
        let mut seen = 0u128;
        let merging = !object.is_empty();
        let mut position = ElementPosition::First;
        while let Some(key) = self.lexer.key(position)? {
            position = ElementPosition::Later;
            let Some((position, field)) = of.find(&key) else {
                self.report(|| {
                    StrictError::Unknown(limits::display(&PathWithName(path, &key), MAX_PATH_BYTES))
                });
                self.lexer.skip()?;
                continue;
            };
            let bit = 1u128 << position;
            if seen & bit != 0 {
                self.report(|| {
                    StrictError::Duplicate(limits::display(&PathWithName(path, &key), MAX_PATH_BYTES))
                });
            }
            let step = Path::Field {
                before: path,
                of: of.name,
                name: field.name,
            };
            let mut before = if merging || seen & bit != 0 {
                object.remove(field.name)
            } else {
                None
            };
            seen |= bit;
            let value = self.value(&field.ty, &step, &mut before)?;
            // `null` unsets what can be unset, and leaves the rest as it was.
            let keeps = !field.pointer && !matches!(field.ty, Type::List(_) | Type::Map(..));
            let value = match before {
                Some(before) if keeps && value.is_null() => before,
                _ => value,
            };
            if !field.leaves_out(&value) {
                object.insert(field.name.to_owned(), value);
            }
        }
        let added = of.complete(&mut object);
        self.objects = self.objects.checked_sub(added).ok_or(DecodeError::TooMany)?;
        Ok(object)
    }

    fn map(
        &mut self,
        values: &Type,
        path: &Path<'_>,
        mut map: Map<String, Value>,
    ) -> Result<Value, DecodeError> {
        self.lexer.enter()?;
        self.count()?;
        let mut seen = Map::new();
        let mut position = ElementPosition::First;
        while let Some(key) = self.lexer.key(position)? {
            position = ElementPosition::Later;
            if seen.contains_key(&*key) {
                self.report(|| {
                    StrictError::Duplicate(limits::display(&PathWithName(path, &key), MAX_PATH_BYTES))
                });
            }
            let step = Path::Key {
                before: path,
                key: &key,
            };
            let value = self.value(values, &step, &mut None)?;
            let value = if value.is_null() { values.zero() } else { value };
            seen.insert(key.into_owned(), value);
        }
        if map.is_empty() {
            return Ok(Value::Object(seen));
        }
        map.extend(seen);
        Ok(Value::Object(map))
    }

    fn list(&mut self, items: &Type, path: &Path<'_>) -> Result<Value, DecodeError> {
        self.lexer.enter()?;
        let mut list = Vec::new();
        while self.lexer.item(ElementPosition::after(list.len()))? {
            let step = Path::Item {
                before: path,
                index: list.len(),
            };
            let value = self.value(items, &step, &mut None)?;
            list.push(if value.is_null() { self.zero(items)? } else { value });
        }
        Ok(Value::Array(list))
    }

    /// The zero value of an item, which may be an object.
    fn zero(&mut self, ty: &Type) -> Result<Value, DecodeError> {
        if let Type::Struct(of) = ty {
            self.count()?;
            let mut object = Map::new();
            let added = of.get().complete(&mut object);
            self.objects = self.objects.checked_sub(added).ok_or(DecodeError::TooMany)?;
            return Ok(Value::Object(object));
        }
        Ok(ty.zero())
    }

    fn text(&mut self, ty: &Type, text: Cow<'_, str>, path: &Path<'_>) -> Value {
        let read = match ty {
            Type::String(_) | Type::IntOrString | Type::Duration => return Value::String(text.into_owned()),
            Type::Quantity => leaf::quantity(&text),
            Type::Time => leaf::time(&text, Precision::Second),
            Type::MicroTime => leaf::time(&text, Precision::Microsecond),
            Type::Bytes => {
                return leaf::bytes(&text).unwrap_or_else(|error| {
                    self.wrong.get_or_insert_with(|| error.to_string());
                    Value::Null
                });
            }
            _ => {
                self.mismatch("string", ty, path);
                return Value::Null;
            }
        };
        read.unwrap_or_else(|error| {
            self.unreadable.get_or_insert_with(|| error.to_string());
            Value::Null
        })
    }

    fn number(&mut self, ty: &Type, literal: &str, path: &Path<'_>) -> Value {
        let whole = match ty {
            Type::Int32(_) | Type::IntOrString => literal.parse::<i32>().ok().map(Value::from),
            Type::Int64(_) => literal.parse::<i64>().ok().map(Value::from),
            Type::Double => literal.parse().ok().and_then(number::float),
            Type::Quantity => {
                return leaf::quantity(literal).unwrap_or_else(|error| {
                    self.unreadable.get_or_insert_with(|| error.to_string());
                    Value::Null
                });
            }
            _ => {
                self.mismatch("number", ty, path);
                return Value::Null;
            }
        };
        whole.unwrap_or_else(|| {
            self.mismatch(&format!("number {literal}"), ty, path);
            Value::Null
        })
    }

    /// A JSON schema, or what may stand instead of it.
    fn schema_or(&mut self, ty: &Type, start: ValueStart, path: &Path<'_>) -> Result<Value, DecodeError> {
        let reporting = std::mem::replace(&mut self.reporting, false);
        let value = match (ty, start) {
            (_, ValueStart::Object) => {
                Value::Object(self.object(schema().json_schema().get(), path, Map::new())?)
            }
            (Type::SchemaOrBool, ValueStart::Bool(value)) => Value::Bool(value),
            (Type::SchemaOrArray, ValueStart::Array) => {
                self.list(&Type::Struct(schema().json_schema()), path)?
            }
            (Type::SchemaOrStrings, ValueStart::Array) => self.list(&Type::String("string"), path)?,
            _ => {
                self.lexer.skip_started(start)?;
                if *ty == Type::SchemaOrBool {
                    self.unreadable
                        .get_or_insert_with(|| "boolean or JSON schema expected".to_owned());
                }
                Value::Null
            }
        };
        self.reporting = reporting;
        // A list of nothing is nothing.
        Ok(if value.as_array().is_some_and(Vec::is_empty) {
            Value::Null
        } else {
            value
        })
    }

    /// Any value.
    pub(super) fn any(&mut self, path: &Path<'_>) -> Result<Value, DecodeError> {
        let start = self.lexer.start()?;
        self.any_started(start, path)
    }

    fn any_started(&mut self, start: ValueStart, path: &Path<'_>) -> Result<Value, DecodeError> {
        match start {
            ValueStart::Null => Ok(Value::Null),
            ValueStart::Bool(value) => Ok(Value::Bool(value)),
            ValueStart::String => Ok(Value::String(self.lexer.string()?.into_owned())),
            ValueStart::Number => {
                let literal = self.lexer.number()?;
                Ok(number::any(literal).unwrap_or_else(|| {
                    let text = format!(
                        "json: cannot unmarshal number {literal} into {} of type float64",
                        path.go_location()
                    );
                    self.wrong.get_or_insert(text);
                    Value::Null
                }))
            }
            ValueStart::Array => {
                self.lexer.enter()?;
                let mut list = Vec::new();
                while self.lexer.item(ElementPosition::after(list.len()))? {
                    let step = Path::Item {
                        before: path,
                        index: list.len(),
                    };
                    list.push(self.any(&step)?);
                }
                Ok(Value::Array(list))
            }
            ValueStart::Object => {
                self.lexer.enter()?;
                let mut object = Map::new();
                let mut position = ElementPosition::First;
                while let Some(key) = self.lexer.key(position)? {
                    if position == ElementPosition::First {
                        self.count()?;
                    }
                    position = ElementPosition::Later;
                    if object.contains_key(&*key) {
                        self.report(|| {
                            StrictError::Duplicate(limits::display(&PathWithName(path, &key), MAX_PATH_BYTES))
                        });
                    }
                    let value = self.any(&Path::Key {
                        before: path,
                        key: &key,
                    })?;
                    object.insert(key.into_owned(), value);
                }
                Ok(Value::Object(object))
            }
        }
    }

    /// Reads any value as [`Self::any`] does, but only for what it reports.
    pub(super) fn scan(&mut self, path: &Path<'_>) -> Result<(), DecodeError> {
        match self.lexer.start()? {
            ValueStart::Null | ValueStart::Bool(_) => {}
            ValueStart::String => self.lexer.skip_string()?,
            start @ ValueStart::Number => drop(self.any_started(start, path)?),
            ValueStart::Array => {
                self.lexer.enter()?;
                let mut index = 0;
                while self.lexer.item(ElementPosition::after(index))? {
                    self.scan(&Path::Item { before: path, index })?;
                    index += 1;
                }
            }
            ValueStart::Object => {
                self.lexer.enter()?;
                let mut seen = SeenKeys::default();
                let mut position = ElementPosition::First;
                while let Some(key) = self.lexer.key(position)? {
                    if position == ElementPosition::First {
                        self.count()?;
                    }
                    position = ElementPosition::Later;
                    if seen.contains(&key) {
                        self.report(|| {
                            StrictError::Duplicate(limits::display(&PathWithName(path, &key), MAX_PATH_BYTES))
                        });
                    }
                    self.scan(&Path::Key {
                        before: path,
                        key: &key,
                    })?;
                    seen.insert(key);
                }
            }
        }
        Ok(())
    }

    fn mismatch(&mut self, found: &str, ty: &Type, path: &Path<'_>) {
        // Types that read themselves read text first, and say what they could not make text of.
        let (wanted, slot) = match ty {
            Type::Time | Type::MicroTime => ("string".to_owned(), &mut self.unreadable),
            Type::IntOrString => ("int32".to_owned(), &mut self.unreadable),
            Type::Quantity => {
                // It reads itself from whatever is there, and finds no amount.
                if let Err(error) = leaf::quantity(found) {
                    self.unreadable.get_or_insert_with(|| error.to_string());
                }
                return;
            }
            _ => (ty.go_name(), &mut self.wrong),
        };
        slot.get_or_insert_with(|| {
            format!(
                "json: cannot unmarshal {found} into {} of type {wanted}",
                path.go_location()
            )
        });
    }

    fn report(&mut self, error: impl FnOnce() -> StrictError) {
        if self.reporting && !self.strict_errors.is_full() {
            self.strict_errors.add(error());
        }
    }

    fn count(&mut self) -> Result<(), DecodeError> {
        self.objects = self.objects.checked_sub(1).ok_or(DecodeError::TooMany)?;
        Ok(())
    }
}

/// The keys of an object. Most objects have few.
#[derive(Default)]
struct SeenKeys<'b> {
    few: Vec<Cow<'b, str>>,
    many: HashSet<Cow<'b, str>>,
}

// --- SeenKeys ---

impl<'b> SeenKeys<'b> {
    const FEW: usize = 16;

    fn contains(&self, key: &str) -> bool {
        self.few.iter().any(|known| known == key) || self.many.contains(key)
    }

    fn insert(&mut self, key: Cow<'b, str>) {
        if self.few.len() < Self::FEW {
            self.few.push(key);
        } else {
            self.many.insert(key);
        }
    }
}

fn into_object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

fn word(start: ValueStart) -> &'static str {
    match start {
        ValueStart::Object => "object",
        ValueStart::Array => "array",
        ValueStart::String => "string",
        ValueStart::Number => "number",
        ValueStart::Bool(_) => "bool",
        ValueStart::Null => "null",
    }
}
