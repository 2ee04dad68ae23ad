//! The envelope of protobuf bodies (`runtime.Unknown`): four magic bytes, apiVersion and kind, then the message.

// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go Serializer, Decode, Encode

use super::reading::{Limits, read_struct};
use super::wire::{BYTES, ProtobufDecodeError, Reader, Writer};
use super::writing::{ProtobufEncodeError, encode_message, write_object};
use crate::schema::{StructRef, schema};
use serde_json::Value;
use std::convert::Infallible;

/// What every object in this form begins with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The field of the envelope that holds the message.
const RAW: u32 = 2;

/// An envelope, opened.
// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/types.go Unknown
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown<'b> {
    /// The group and version of the object; empty if it has none.
    pub api_version: String,
    /// The kind of the object; empty if it has none.
    pub kind: String,
    /// Its message.
    pub message: &'b [u8],
}

/// Whether bytes are an object in this form.
pub fn is_protobuf(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Opens the envelope.
pub fn unwrap(bytes: &[u8]) -> Result<Unknown<'_>, ProtobufDecodeError> {
    if bytes.is_empty() {
        return Err(ProtobufDecodeError::Empty);
    }
    let rest = bytes.strip_prefix(&MAGIC).ok_or(ProtobufDecodeError::Prefix)?;
    if rest.is_empty() {
        return Err(ProtobufDecodeError::EmptyBody);
    }
    let mut found = Unknown {
        api_version: String::new(),
        kind: String::new(),
        message: &[],
    };
    let mut reader = Reader::new(rest);
    while let Some(tag) = reader.tag("Unknown")? {
        match tag.number {
            1 => {
                tag.is(BYTES, "TypeMeta")?;
                found.read_type(reader.bytes()?)?;
            }
            RAW => {
                tag.is(BYTES, "Raw")?;
                found.message = reader.bytes()?;
            }
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(found)
}

/// Puts a message into an envelope.
pub fn wrap(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut writer = Writer::with_capacity(message.len() + api_version.len() + kind.len() + 32);
    begin(&mut writer, api_version, kind);
    writer.bytes(RAW, message);
    end(&mut writer);
    writer.finish()
}

fn begin(writer: &mut Writer, api_version: &str, kind: &str) {
    writer.raw(&MAGIC);
    let typed = writer.message(1, |writer| {
        writer.bytes(1, api_version.as_bytes());
        writer.bytes(2, kind.as_bytes());
        Ok::<(), Infallible>(())
    });
    match typed {
        Ok(()) => {}
        Err(never) => match never {},
    }
}

/// Encoding and type of the content: the message itself, said by saying nothing.
fn end(writer: &mut Writer) {
    writer.bytes(3, b"");
    writer.bytes(4, b"");
}

/// Reads an object of a known type from its envelope. It gets the `kind` and `apiVersion` of the envelope.
pub fn decode(bytes: &[u8], ty: StructRef) -> Result<Value, ProtobufDecodeError> {
    decode_as(bytes, ty, &mut Limits::new())
}

/// Writes an object with its envelope, which gets its `kind` and `apiVersion`.
pub fn encode(object: &Value, ty: StructRef) -> Result<Vec<u8>, ProtobufEncodeError> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    Ok(wrap(
        text("apiVersion"),
        text("kind"),
        &encode_message(object, ty)?,
    ))
}

/// Writes a list with its envelope. Items are taken one by one: a list of many never stands in memory as a
/// tree. `items` is the type of the items; `metadata` is that of the list.
pub fn encode_list<'v>(
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: impl IntoIterator<Item = &'v Value>,
    ty: StructRef,
) -> Result<Vec<u8>, ProtobufEncodeError> {
    let meta = schema()
        .get("meta", "v1", "ListMeta")
        .expect("the table has the metadata of lists");
    let mut writer = Writer::with_capacity(4096);
    begin(&mut writer, api_version, kind);
    writer.message(RAW, |writer| {
        writer.message(1, |writer| write_object(writer, meta.get(), metadata))?;
        for item in items {
            writer.message(2, |writer| write_object(writer, ty.get(), item))?;
        }
        Ok(())
    })?;
    end(&mut writer);
    Ok(writer.finish())
}

/// A frame of a watch: the length in four bytes, then the event. The object is in its envelope already; the
/// event itself has none.
pub fn watch_event(event: &str, object: &[u8]) -> Vec<u8> {
    let mut writer = Writer::with_capacity(object.len() + event.len() + 16);
    writer.raw(&[0; 4]);
    writer.bytes(1, event.as_bytes());
    let written = writer.message(2, |writer| {
        writer.bytes(1, object);
        Ok::<(), Infallible>(())
    });
    match written {
        Ok(()) => {}
        Err(never) => match never {},
    }
    let mut frame = writer.finish();
    let length = u32::try_from(frame.len() - 4).expect("an object is far below four gigabytes");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Reads an object that stands within another.
pub(super) fn decode_within(bytes: &[u8], limits: &mut Limits) -> Result<Value, ProtobufDecodeError> {
    let found = unwrap(bytes)?;
    let (group, version) = found
        .api_version
        .split_once('/')
        .unwrap_or(("", &found.api_version));
    let ty = schema()
        .kind(group, version, &found.kind)
        .ok_or_else(|| ProtobufDecodeError::Value {
            field: "raw",
            reason: format!(
                "no kind {:?} is registered for version {:?}",
                found.kind, found.api_version
            ),
        })?;
    decode_as(bytes, ty, limits)
}

fn decode_as(bytes: &[u8], ty: StructRef, limits: &mut Limits) -> Result<Value, ProtobufDecodeError> {
    let found = unwrap(bytes)?;
    limits.enter()?;
    let mut value = read_struct(found.message, ty, limits)?;
    limits.leave();
    for (name, said) in [("kind", found.kind), ("apiVersion", found.api_version)] {
        if !said.is_empty() {
            value[name] = Value::String(said);
        }
    }
    Ok(value)
}

// --- Unknown ---

impl Unknown<'_> {
    fn read_type(&mut self, bytes: &[u8]) -> Result<(), ProtobufDecodeError> {
        let mut reader = Reader::new(bytes);
        while let Some(tag) = reader.tag("TypeMeta")? {
            let slot = match tag.number {
                1 => &mut self.api_version,
                2 => &mut self.kind,
                _ => {
                    reader.skip(tag.wire)?;
                    continue;
                }
            };
            tag.is(BYTES, "TypeMeta")?;
            *slot = String::from_utf8_lossy(reader.bytes()?).into_owned();
        }
        Ok(())
    }
}
