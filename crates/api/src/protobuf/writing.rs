//! Encodes JSON trees as protobuf messages.

use super::leaf;
use super::wire::Writer;
use crate::base64;
use crate::decode::Precision;
use crate::schema::{Field, Struct, StructRef, Type, schema};
use serde_json::{Map, Value};
use thiserror::Error;

/// A value that does not fit its type, so that there is no message for it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{path}: cannot write {found} as {wanted}")]
pub struct ProtobufEncodeError {
    path: String,
    wanted: &'static str,
    found: &'static str,
}

/// Writes an object as the message of its type, without an envelope.
pub fn encode_message(value: &Value, ty: StructRef) -> Result<Vec<u8>, ProtobufEncodeError> {
    // Messages repeat no names: they are about half as long as their JSON, and that is rarely above this.
    let mut writer = Writer::with_capacity(1024);
    write_object(&mut writer, ty.get(), value)?;
    Ok(writer.finish())
}

pub(super) fn write_object(
    writer: &mut Writer,
    of: &Struct,
    value: &Value,
) -> Result<(), ProtobufEncodeError> {
    match value {
        Value::Null => write_fields(writer, of, &Map::new()),
        Value::Object(object) => write_fields(writer, of, object),
        _ => Err(ProtobufEncodeError::of("an object", value)),
    }
}

fn write_fields(
    writer: &mut Writer,
    of: &Struct,
    object: &Map<String, Value>,
) -> Result<(), ProtobufEncodeError> {
    for field in &of.fields {
        if field.number == 0 {
            continue;
        }
        if let (true, Type::Struct(inner)) = (field.is_inline(), &field.ty) {
            writer.message(field.number, |writer| write_fields(writer, inner.get(), object))?;
            continue;
        }
        let value = object.get(field.name).unwrap_or(&Value::Null);
        write_field(writer, field, value).map_err(|error| error.within(field.name))?;
    }
    Ok(())
}

fn write_field(writer: &mut Writer, field: &Field, value: &Value) -> Result<(), ProtobufEncodeError> {
    if field.pointer && value.is_null() {
        return Ok(());
    }
    match (&field.ty, value) {
        (Type::List(_) | Type::Map(..) | Type::Bytes | Type::Strings(_), Value::Null) => Ok(()),
        (Type::List(items), Value::Array(list)) => list
            .iter()
            .try_for_each(|item| write(writer, field.number, items, item)),
        (Type::Map(values, _), Value::Object(map)) => map.iter().try_for_each(|(key, value)| {
            writer.message(field.number, |writer| {
                writer.bytes(1, key.as_bytes());
                if **values == Type::Bytes && value.is_null() {
                    return Ok(());
                }
                write(writer, 2, values, value).map_err(|error| error.within(key))
            })
        }),
        (Type::List(_), _) => Err(ProtobufEncodeError::of("a list", value)),
        (Type::Map(..), _) => Err(ProtobufEncodeError::of("a map", value)),
        (ty, _) => write(writer, field.number, ty, value),
    }
}

/// Writes one value, be it zero.
fn write(writer: &mut Writer, number: u32, ty: &Type, value: &Value) -> Result<(), ProtobufEncodeError> {
    match ty {
        Type::String(_) => match value {
            Value::Null => writer.bytes(number, b""),
            Value::String(text) => writer.bytes(number, text.as_bytes()),
            _ => return Err(ProtobufEncodeError::of("text", value)),
        },
        Type::Int32(_) | Type::Int64(_) => {
            let known = if value.is_null() { Some(0) } else { value.as_i64() };
            let known = known.ok_or_else(|| ProtobufEncodeError::of("a whole number", value))?;
            writer.varint(number, known.cast_unsigned());
        }
        Type::Bool(_) => match value {
            Value::Null => writer.varint(number, 0),
            Value::Bool(known) => writer.varint(number, u64::from(*known)),
            _ => return Err(ProtobufEncodeError::of("a boolean", value)),
        },
        Type::Double => {
            let known = if value.is_null() {
                Some(0.0)
            } else {
                value.as_f64()
            };
            writer.double(
                number,
                known.ok_or_else(|| ProtobufEncodeError::of("a number", value))?,
            );
        }
        Type::Bytes => match value {
            Value::Null => writer.bytes(number, b""),
            Value::String(text) => {
                let bytes = base64::decode(text).map_err(|_| ProtobufEncodeError::of("bytes", value))?;
                writer.bytes(number, &bytes);
            }
            _ => return Err(ProtobufEncodeError::of("bytes", value)),
        },
        // Lists and maps within lists and maps do not occur: messages have no way to say them.
        Type::List(_) | Type::Map(..) => return Err(ProtobufEncodeError::of("a plain value", value)),
        _ => return writer.message(number, |writer| write_known(writer, ty, value)),
    }
    Ok(())
}

/// Writes the fields of a type that is a message.
fn write_known(writer: &mut Writer, ty: &Type, value: &Value) -> Result<(), ProtobufEncodeError> {
    match ty {
        Type::Struct(of) => write_object(writer, of.get(), value),
        Type::Time => leaf::write_time(writer, value, Precision::Second),
        Type::MicroTime => leaf::write_time(writer, value, Precision::Microsecond),
        Type::Quantity => leaf::write_quantity(writer, value),
        Type::IntOrString => leaf::write_int_or_string(writer, value),
        Type::Strings(_) => write_strings(writer, 1, value),
        Type::SchemaOrBool => {
            let allowed = matches!(value, Value::Object(_) | Value::Bool(true));
            writer.varint(1, u64::from(allowed));
            write_schema(writer, 2, value)
        }
        Type::SchemaOrArray => match value {
            Value::Array(list) => list
                .iter()
                .try_for_each(|item| write_schema_always(writer, 2, item)),
            _ => write_schema(writer, 1, value),
        },
        Type::SchemaOrStrings => match value {
            Value::Array(_) => write_strings(writer, 2, value),
            _ => write_schema(writer, 1, value),
        },
        // RawExtension, FieldsV1 and JSON carry text; a duration does not occur in any message.
        _ => leaf::write_json(writer, value),
    }
}

fn write_schema(writer: &mut Writer, number: u32, value: &Value) -> Result<(), ProtobufEncodeError> {
    if value.is_object() {
        write_schema_always(writer, number, value)
    } else {
        Ok(())
    }
}

fn write_schema_always(writer: &mut Writer, number: u32, value: &Value) -> Result<(), ProtobufEncodeError> {
    writer.message(number, |writer| {
        write_object(writer, schema().json_schema().get(), value)
    })
}

fn write_strings(writer: &mut Writer, number: u32, value: &Value) -> Result<(), ProtobufEncodeError> {
    let Value::Array(list) = value else {
        return if value.is_null() {
            Ok(())
        } else {
            Err(ProtobufEncodeError::of("a list of text", value))
        };
    };
    for item in list {
        let text = item
            .as_str()
            .ok_or_else(|| ProtobufEncodeError::of("text", item))?;
        writer.bytes(number, text.as_bytes());
    }
    Ok(())
}

// --- ProtobufEncodeError ---

impl ProtobufEncodeError {
    pub(super) fn of(wanted: &'static str, found: &Value) -> Self {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        Self {
            path: String::new(),
            wanted,
            found,
        }
    }

    fn within(mut self, name: &str) -> Self {
        self.path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{name}.{}", self.path)
        };
        self
    }
}
