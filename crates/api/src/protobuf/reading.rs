//! Decodes protobuf messages to JSON trees in normal form.

use super::leaf;
use super::wire::{BYTES, FIXED64, ProtobufDecodeError, Reader, Tag, VARINT};
use crate::base64;
use crate::decode::Precision;
use crate::schema::{Field, Struct, StructRef, Type, schema};
use serde_json::{Map, Value};

/// Messages within messages. No built-in type but JSON schemas is nested that deep.
const MAX_DEPTH: usize = 128;

/// Objects with fields in one request: a message of two bytes becomes an object of hundreds.
const MAX_OBJECTS: usize = 1 << 17;

/// What one request may cost.
pub(super) struct Limits {
    depth: usize,
    objects: usize,
}

/// Reads the message of a type, without an envelope, into an object in normal form. `kind` and `apiVersion`,
/// which messages do not carry, are left out.
pub fn decode_message(bytes: &[u8], ty: StructRef) -> Result<Value, ProtobufDecodeError> {
    read_struct(bytes, ty, &mut Limits::new())
}

pub(super) fn read_struct(
    bytes: &[u8],
    ty: StructRef,
    limits: &mut Limits,
) -> Result<Value, ProtobufDecodeError> {
    let mut object = Map::new();
    read_object(bytes, ty.get(), &mut object, limits)?;
    Ok(Value::Object(object))
}

fn read_object(
    bytes: &[u8],
    of: &Struct,
    object: &mut Map<String, Value>,
    limits: &mut Limits,
) -> Result<(), ProtobufDecodeError> {
    limits.enter()?;
    read_fields(bytes, of, object, limits)?;
    let added = of.complete(object);
    limits.objects = limits
        .objects
        .checked_sub(added)
        .ok_or(ProtobufDecodeError::TooMany)?;
    limits.leave();
    Ok(())
}

fn read_fields(
    bytes: &[u8],
    of: &Struct,
    object: &mut Map<String, Value>,
    limits: &mut Limits,
) -> Result<(), ProtobufDecodeError> {
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag(of.name)? {
        let Some(field) = of.numbered(tag.number) else {
            reader.skip(tag.wire)?;
            continue;
        };
        if let (true, Type::Struct(inner)) = (field.is_inline(), &field.ty) {
            tag.is(BYTES, field.name)?;
            let bytes = reader.bytes()?;
            limits.enter()?;
            read_fields(bytes, inner.get(), object, limits)?;
            limits.leave();
            continue;
        }
        read_field(&mut reader, tag, field, object, limits)?;
    }
    Ok(())
}

fn read_field(
    reader: &mut Reader<'_>,
    tag: Tag,
    field: &Field,
    object: &mut Map<String, Value>,
    limits: &mut Limits,
) -> Result<(), ProtobufDecodeError> {
    match &field.ty {
        Type::List(items) => {
            if let Some(Value::Array(list)) = object.get_mut(field.name) {
                return read_items(reader, tag, field, items, list, limits);
            }
            let mut list = Vec::new();
            read_items(reader, tag, field, items, &mut list, limits)?;
            object.insert(field.name.to_owned(), Value::Array(list));
            Ok(())
        }
        Type::Map(values, _) => {
            tag.is(BYTES, field.name)?;
            let (key, value) = read_entry(reader.bytes()?, field, values, limits)?;
            if let Some(Value::Object(map)) = object.get_mut(field.name) {
                map.insert(key, value);
                return Ok(());
            }
            limits.object()?;
            object.insert(
                field.name.to_owned(),
                Value::Object(Map::from_iter([(key, value)])),
            );
            Ok(())
        }
        Type::Struct(of) => {
            tag.is(BYTES, field.name)?;
            let bytes = reader.bytes()?;
            // A message in several pieces is merged.
            if let Some(Value::Object(inner)) = object.get_mut(field.name) {
                return read_object(bytes, of.get(), inner, limits);
            }
            object.insert(field.name.to_owned(), read_struct(bytes, *of, limits)?);
            Ok(())
        }
        ty => {
            let value = read_value(reader, tag, field.name, ty, limits)?;
            if field.leaves_out(&value) {
                // It may have said something before.
                object.remove(field.name);
            } else {
                object.insert(field.name.to_owned(), value);
            }
            Ok(())
        }
    }
}

fn read_items(
    reader: &mut Reader<'_>,
    tag: Tag,
    field: &Field,
    items: &Type,
    list: &mut Vec<Value>,
    limits: &mut Limits,
) -> Result<(), ProtobufDecodeError> {
    // Numbers may be packed, though no Kubernetes client packs them.
    if tag.wire == BYTES && matches!(items, Type::Int32(_) | Type::Int64(_)) {
        let mut packed = Reader::new(reader.bytes()?);
        let one = Tag {
            number: tag.number,
            wire: VARINT,
        };
        while !packed.is_empty() {
            list.push(read_value(&mut packed, one, field.name, items, limits)?);
        }
        return Ok(());
    }
    list.push(read_value(reader, tag, field.name, items, limits)?);
    Ok(())
}

fn read_entry(
    bytes: &[u8],
    field: &Field,
    values: &Type,
    limits: &mut Limits,
) -> Result<(String, Value), ProtobufDecodeError> {
    let mut reader = Reader::new(bytes);
    let mut key = String::new();
    let mut value = None;
    while let Some(tag) = reader.tag(field.name)? {
        match tag.number {
            1 => {
                tag.is(BYTES, field.name)?;
                key = text(reader.bytes()?);
            }
            2 => value = Some(read_value(&mut reader, tag, field.name, values, limits)?),
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok((key, value.unwrap_or_else(|| values.zero())))
}

/// Reads one value.
fn read_value(
    reader: &mut Reader<'_>,
    tag: Tag,
    name: &'static str,
    ty: &Type,
    limits: &mut Limits,
) -> Result<Value, ProtobufDecodeError> {
    match ty {
        Type::Int32(_) => {
            tag.is(VARINT, name)?;
            return Ok(Value::from(leaf::truncate(reader.varint()?)));
        }
        Type::Int64(_) => {
            tag.is(VARINT, name)?;
            return Ok(Value::from(reader.varint()?.cast_signed()));
        }
        Type::Bool(_) => {
            tag.is(VARINT, name)?;
            return Ok(Value::Bool(reader.varint()? != 0));
        }
        Type::Double => {
            tag.is(FIXED64, name)?;
            return read_double(f64::from_bits(reader.fixed64()?), name);
        }
        _ => tag.is(BYTES, name)?,
    }
    read_known(reader.bytes()?, name, ty, limits)
}

/// Reads a value of those types that have a length.
fn read_known(
    bytes: &[u8],
    name: &'static str,
    ty: &Type,
    limits: &mut Limits,
) -> Result<Value, ProtobufDecodeError> {
    match ty {
        Type::Bytes => Ok(Value::String(base64::encode(bytes))),
        Type::Struct(of) => read_struct(bytes, *of, limits),
        Type::Time => leaf::read_time(bytes, Precision::Second, name),
        Type::MicroTime => leaf::read_time(bytes, Precision::Microsecond, name),
        Type::IntOrString => leaf::read_int_or_string(bytes, name),
        Type::Quantity => {
            let raw = leaf::read_only_field(bytes, name)?.unwrap_or(b"0");
            let read = crate::decode::quantity(&String::from_utf8_lossy(raw));
            read.map_err(|error| ProtobufDecodeError::Value {
                field: name,
                reason: error.to_string(),
            })
        }
        Type::RawExtension | Type::FieldsV1 | Type::Json => leaf::read_json(bytes, limits, name),
        Type::Strings(_) => {
            let mut reader = Reader::new(bytes);
            let mut list = Vec::new();
            while let Some(tag) = reader.tag(name)? {
                if tag.number == 1 {
                    tag.is(BYTES, name)?;
                    list.push(Value::String(text(reader.bytes()?)));
                } else {
                    reader.skip(tag.wire)?;
                }
            }
            Ok(Value::Array(list))
        }
        Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings => {
            read_schema_or(bytes, name, ty, limits)
        }
        _ => Ok(Value::String(text(bytes))),
    }
}

/// Reads a JSON schema, or what may stand instead of it.
fn read_schema_or(
    bytes: &[u8],
    name: &'static str,
    ty: &Type,
    limits: &mut Limits,
) -> Result<Value, ProtobufDecodeError> {
    let mut reader = Reader::new(bytes);
    let mut allows = false;
    let mut schema_value = None;
    let mut list = Vec::new();
    while let Some(tag) = reader.tag(name)? {
        match (ty, tag.number) {
            (Type::SchemaOrBool, 1) => {
                tag.is(VARINT, name)?;
                allows = reader.varint()? != 0;
            }
            (Type::SchemaOrBool, 2) | (_, 1) => {
                tag.is(BYTES, name)?;
                schema_value = Some(read_struct(reader.bytes()?, schema().json_schema(), limits)?);
            }
            (Type::SchemaOrArray, 2) => {
                tag.is(BYTES, name)?;
                list.push(read_struct(reader.bytes()?, schema().json_schema(), limits)?);
            }
            (Type::SchemaOrStrings, 2) => {
                tag.is(BYTES, name)?;
                list.push(Value::String(text(reader.bytes()?)));
            }
            _ => reader.skip(tag.wire)?,
        }
    }
    if !list.is_empty() {
        return Ok(Value::Array(list));
    }
    let otherwise = if *ty == Type::SchemaOrBool {
        Value::Bool(allows)
    } else {
        Value::Null
    };
    Ok(schema_value.unwrap_or(otherwise))
}

/// A floating point number; whole ones are written without a fraction, as Go writes them.
fn read_double(number: f64, field: &'static str) -> Result<Value, ProtobufDecodeError> {
    crate::decode::float(number).ok_or_else(|| ProtobufDecodeError::Value {
        field,
        reason: format!("json: unsupported value: {number}"),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

// --- Limits ---

impl Limits {
    pub(super) fn new() -> Self {
        Self {
            depth: MAX_DEPTH,
            objects: MAX_OBJECTS,
        }
    }

    pub(super) fn enter(&mut self) -> Result<(), ProtobufDecodeError> {
        self.depth = self.depth.checked_sub(1).ok_or(ProtobufDecodeError::Depth)?;
        self.object()
    }

    pub(super) fn leave(&mut self) {
        self.depth += 1;
    }

    pub(super) fn object(&mut self) -> Result<(), ProtobufDecodeError> {
        self.objects = self.objects.checked_sub(1).ok_or(ProtobufDecodeError::TooMany)?;
        Ok(())
    }

    /// Counts the objects of a tree decoded from text.
    pub(super) fn count(&mut self, value: &Value) -> Result<(), ProtobufDecodeError> {
        match value {
            Value::Array(list) => list.iter().try_for_each(|item| self.count(item)),
            Value::Object(object) => {
                if !object.is_empty() {
                    self.object()?;
                }
                object.values().try_for_each(|inner| self.count(inner))
            }
            _ => Ok(()),
        }
    }
}
