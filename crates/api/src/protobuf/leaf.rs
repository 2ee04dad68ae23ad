//! Well-known protobuf messages that are not objects in JSON: raw JSON, time, quantity, int-or-string.

use super::reading::Limits;
use super::wire::{BYTES, ProtobufDecodeError, Reader, VARINT, Writer};
use super::writing::ProtobufEncodeError;
use crate::decode::Precision;
use crate::time::Time;
use serde_json::Value;

// --- Reading ---

/// A message with one field of bytes or text, number 1; `None` if it is not there.
pub(super) fn read_only_field<'b>(
    bytes: &'b [u8],
    field: &'static str,
) -> Result<Option<&'b [u8]>, ProtobufDecodeError> {
    let mut reader = Reader::new(bytes);
    let mut found = None;
    while let Some(tag) = reader.tag(field)? {
        if tag.number == 1 {
            tag.is(BYTES, field)?;
            found = Some(reader.bytes()?);
        } else {
            reader.skip(tag.wire)?;
        }
    }
    Ok(found)
}

/// Any JSON that travels as its text.
pub(super) fn read_json(
    bytes: &[u8],
    limits: &mut Limits,
    field: &'static str,
) -> Result<Value, ProtobufDecodeError> {
    match read_only_field(bytes, field)? {
        None | Some([]) => Ok(Value::Null),
        // Objects of built-in kinds may travel in their own form within others.
        Some(raw) if super::is_protobuf(raw) => super::envelope::decode_within(raw, limits),
        Some(raw) => {
            let decoded = crate::decode::untyped(raw).map_err(|error| ProtobufDecodeError::Value {
                field,
                reason: error.to_string(),
            })?;
            limits.count(&decoded.value)?;
            Ok(decoded.value)
        }
    }
}

pub(super) fn read_time(
    bytes: &[u8],
    precision: Precision,
    field: &'static str,
) -> Result<Value, ProtobufDecodeError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut reader = Reader::new(bytes);
    let mut seconds = 0i64;
    let mut nanos = 0i64;
    while let Some(tag) = reader.tag(field)? {
        match tag.number {
            1 => {
                tag.is(VARINT, field)?;
                seconds = reader.varint()?.cast_signed();
            }
            2 => {
                tag.is(VARINT, field)?;
                nanos = reader.varint()?.cast_signed();
            }
            _ => reader.skip(tag.wire)?,
        }
    }
    // Times to the second carry no fraction, whatever the message contains.
    let nanos = if precision == Precision::Second { 0 } else { nanos };
    let bad = || ProtobufDecodeError::Value {
        field,
        reason: "the time is out of range".to_owned(),
    };
    let nanos = u32::try_from(nanos)
        .ok()
        .filter(|nanos| *nanos < 1_000_000_000)
        .ok_or_else(bad)?;
    // From the year 1 to the end of the year 9999: beyond, there is no text for it.
    if !(-62_135_596_800..253_402_300_800).contains(&seconds) {
        return Err(bad());
    }
    let time = Time::from_unix(seconds, nanos);
    Ok(if time == Time::ZERO {
        Value::Null
    } else {
        Value::String(precision.write(time))
    })
}

pub(super) fn read_int_or_string(bytes: &[u8], field: &'static str) -> Result<Value, ProtobufDecodeError> {
    let mut reader = Reader::new(bytes);
    let mut kind = 0;
    let mut number = 0;
    let mut text = String::new();
    while let Some(tag) = reader.tag(field)? {
        match tag.number {
            1 => {
                tag.is(VARINT, field)?;
                kind = reader.varint()?;
            }
            2 => {
                tag.is(VARINT, field)?;
                number = truncate(reader.varint()?);
            }
            3 => {
                tag.is(BYTES, field)?;
                text = String::from_utf8_lossy(reader.bytes()?).into_owned();
            }
            _ => reader.skip(tag.wire)?,
        }
    }
    match kind {
        0 => Ok(Value::from(number)),
        1 => Ok(Value::String(text)),
        _ => Err(ProtobufDecodeError::Value {
            field,
            reason: "impossible IntOrString.Type".to_owned(),
        }),
    }
}

/// A varint of 32 bits: the upper half is sign or noise, and dropped.
pub(super) fn truncate(value: u64) -> i32 {
    ((value & 0xffff_ffff) as u32).cast_signed()
}

// --- Writing ---

/// Any JSON, as its text.
pub(super) fn write_json(writer: &mut Writer, value: &Value) -> Result<(), ProtobufEncodeError> {
    if value.is_null() {
        return Ok(());
    }
    let text = serde_json::to_vec(value).map_err(|_| ProtobufEncodeError::of("JSON", value))?;
    writer.bytes(1, &text);
    Ok(())
}

pub(super) fn write_time(
    writer: &mut Writer,
    value: &Value,
    precision: Precision,
) -> Result<(), ProtobufEncodeError> {
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text,
        _ => return Err(ProtobufEncodeError::of("a time", value)),
    };
    let time = precision
        .read(text)
        .map_err(|_| ProtobufEncodeError::of("a time", value))?;
    if time == Time::ZERO {
        return Ok(());
    }
    let nanos = match precision {
        Precision::Second => 0,
        Precision::Microsecond => time.nanos() / 1000 * 1000,
    };
    writer.varint(1, time.unix_seconds().cast_unsigned());
    writer.varint(2, u64::from(nanos));
    Ok(())
}

pub(super) fn write_int_or_string(writer: &mut Writer, value: &Value) -> Result<(), ProtobufEncodeError> {
    let (kind, number, text) = match value {
        Value::Null => (0, 0, ""),
        Value::Number(number) => match number.as_i64().and_then(|number| i32::try_from(number).ok()) {
            Some(number) => (0, i64::from(number), ""),
            None => return Err(ProtobufEncodeError::of("a number or text", value)),
        },
        Value::String(text) => (1, 0, text.as_str()),
        _ => return Err(ProtobufEncodeError::of("a number or text", value)),
    };
    writer.varint(1, kind);
    writer.varint(2, number.cast_unsigned());
    writer.bytes(3, text.as_bytes());
    Ok(())
}

pub(super) fn write_quantity(writer: &mut Writer, value: &Value) -> Result<(), ProtobufEncodeError> {
    match value {
        Value::Null => writer.bytes(1, b"0"),
        Value::String(text) => writer.bytes(1, text.as_bytes()),
        Value::Number(number) => writer.bytes(1, number.to_string().as_bytes()),
        _ => return Err(ProtobufEncodeError::of("a quantity", value)),
    }
    Ok(())
}
