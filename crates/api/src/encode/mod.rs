//! Encodes objects as JSON, and stored bytes as responses without parsing them.
//!
//! Promises: `kind` is first, then `apiVersion`, then `metadata`, then the rest by name. An object is
//! stored without its resourceVersion, which is known only when the store has taken it; a [`StoredObject`] knows
//! where it belongs, and an answer is a copy with a few bytes put in.

mod pretty;

use serde_json::{Map, Value};

pub use self::pretty::pretty;

/// What stands before the metadata of an object.
const METADATA: &[u8] = b"\"metadata\":{";

/// The capacity that most objects need, so that the text is not moved while it grows.
const CAPACITY: usize = 4096;

/// An object as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredObject<'b> {
    /// JSON without a resourceVersion.
    bytes: &'b [u8],
    /// Where the first field of its metadata begins, or their end.
    offset: usize,
}

/// The version of an object, as its clients see it: `metadata.resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceVersion(u64);

/// Writes an object.
pub fn encode(object: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CAPACITY);
    match object {
        Value::Object(fields) => write_ordered(&mut bytes, fields, None),
        _ => write_value(&mut bytes, object),
    }
    bytes
}

/// Writes an object as it is stored: without its resourceVersion. It gets metadata if it has none.
pub fn encode_stored(object: &Map<String, Value>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CAPACITY);
    write_ordered(&mut bytes, object, Some("resourceVersion"));
    bytes
}

fn write_ordered(bytes: &mut Vec<u8>, object: &Map<String, Value>, without: Option<&str>) {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    bytes.push(b'{');
    let empty = Value::Object(Map::new());
    for name in FIRST {
        let value = match object.get(name) {
            // Stored bytes need metadata, where the resourceVersion is inserted.
            None | Some(Value::Null) if name == "metadata" && without.is_some() => &empty,
            None => continue,
            Some(value) => value,
        };
        write_name(bytes, name);
        match (value, without) {
            (Value::Object(fields), Some(without)) if name == "metadata" => {
                bytes.push(b'{');
                for (name, value) in fields.iter().filter(|(name, _)| *name != without) {
                    write_name(bytes, name);
                    write_value(bytes, value);
                }
                bytes.push(b'}');
            }
            _ => write_value(bytes, value),
        }
    }
    for (name, value) in object.iter().filter(|(name, _)| !FIRST.contains(&name.as_str())) {
        write_name(bytes, name);
        write_value(bytes, value);
    }
    bytes.push(b'}');
}

/// Appends the digits of a number: a list has one in each item, so nothing is allocated for it.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(number % 10).expect("a digit is below ten");
        number /= 10;
        if number == 0 {
            break;
        }
    }
    bytes.extend_from_slice(&digits[first..]);
}

fn write_name(bytes: &mut Vec<u8>, name: &str) {
    if bytes.last() != Some(&b'{') {
        bytes.push(b',');
    }
    write_text(bytes, name);
    bytes.push(b':');
}

/// Appends a tree, as `serde_json` writes it.
pub fn write_value(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => write_text(bytes, text),
        Value::Object(fields) => {
            bytes.push(b'{');
            for (name, value) in fields {
                write_name(bytes, name);
                write_value(bytes, value);
            }
            bytes.push(b'}');
        }
        Value::Array(items) => {
            bytes.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                write_value(bytes, item);
            }
            bytes.push(b']');
        }
        Value::Null => bytes.extend_from_slice(b"null"),
        Value::Bool(true) => bytes.extend_from_slice(b"true"),
        Value::Bool(false) => bytes.extend_from_slice(b"false"),
        Value::Number(_) => serde_json::to_writer(bytes, value).expect("a tree can be written to memory"),
    }
}

/// Appends a text. Few have something to escape, and whether one has is found without a look at each byte.
fn write_text(bytes: &mut Vec<u8>, text: &str) {
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.bytes().fold(false, |any, byte| any | is_escaped(byte)) {
        serde_json::to_writer(bytes, text).expect("text can be written to memory");
        return;
    }
    bytes.reserve(text.len() + 2);
    bytes.push(b'"');
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(b'"');
}

// --- ResourceVersion ---

impl ResourceVersion {
    /// The version with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

// --- StoredObject ---

impl<'b> StoredObject<'b> {
    /// Finds the offset of the metadata in bytes that [`encode_stored`] wrote; `None` in others. Looks at the first fields
    /// only: kind and apiVersion are short.
    pub fn find(bytes: &'b [u8]) -> Option<Self> {
        let mut offset = 1;
        for name in [&b"\"kind\":\""[..], b"\"apiVersion\":\""] {
            if bytes.get(offset..)?.starts_with(name) {
                let text = bytes.get(offset + name.len()..)?;
                // Names of kinds and versions have no quotes to escape.
                offset += name.len() + text.iter().position(|byte| *byte == b'"')? + 1;
                if bytes.get(offset) == Some(&b',') {
                    offset += 1;
                }
            }
        }
        Self::at(bytes, offset + METADATA.len())
    }

    /// Takes an offset that was found before; `None` if it is not one.
    pub fn at(bytes: &'b [u8], offset: usize) -> Option<Self> {
        bytes
            .get(..offset)?
            .ends_with(METADATA)
            .then_some(Self { bytes, offset })
    }

    /// Where the metadata begin, to be kept beside the bytes.
    pub fn metadata_offset(&self) -> usize {
        self.offset
    }

    /// Appends the object with its resourceVersion.
    pub fn write(&self, out: &mut Vec<u8>, version: ResourceVersion) {
        out.reserve(self.bytes.len() + 48);
        out.extend_from_slice(&self.bytes[..self.offset]);
        self.write_rest(out, version);
    }

    /// Appends the object with its resourceVersion as an item of a list: without kind and apiVersion, which
    /// the list has for all.
    pub fn write_item(&self, out: &mut Vec<u8>, version: ResourceVersion) {
        out.reserve(self.bytes.len() + 48);
        out.push(b'{');
        out.extend_from_slice(METADATA);
        self.write_rest(out, version);
    }

    /// The metadata as they are stored, without their brackets.
    pub fn metadata(&self) -> &'b [u8] {
        let rest = &self.bytes[self.offset..];
        &rest[..end_of_object(rest)]
    }

    /// Appends the metadata alone, with the resourceVersion.
    pub fn write_metadata(&self, out: &mut Vec<u8>, version: ResourceVersion) {
        let metadata = self.metadata();
        out.reserve(metadata.len() + 48);
        out.push(b'{');
        write_version(out, version);
        if !metadata.is_empty() {
            out.push(b',');
            out.extend_from_slice(metadata);
        }
        out.push(b'}');
    }

    fn write_rest(&self, out: &mut Vec<u8>, version: ResourceVersion) {
        write_version(out, version);
        let rest = &self.bytes[self.offset..];
        if rest.first() != Some(&b'}') {
            out.push(b',');
        }
        out.extend_from_slice(rest);
    }
}

fn write_version(out: &mut Vec<u8>, version: ResourceVersion) {
    out.extend_from_slice(b"\"resourceVersion\":\"");
    push_number(out, version.0);
    out.push(b'"');
}

/// Where the object ends whose first field begins here: at its bracket, or at the end of what is no JSON.
fn end_of_object(bytes: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut offset = 0;
    while let Some(byte) = bytes.get(offset) {
        match byte {
            b'"' => offset += end_of_text(&bytes[offset + 1..]) + 1,
            b'{' => depth += 1,
            b'}' if depth == 0 => break,
            b'}' => depth -= 1,
            _ => {}
        }
        offset += 1;
    }
    offset.min(bytes.len())
}

/// Where the text ends whose first letter is here.
fn end_of_text(bytes: &[u8]) -> usize {
    let mut is_escaped = false;
    let ends = |byte: &u8| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    };
    bytes.iter().position(ends).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::samples::object;
    use proptest::prelude::*;
    use serde_json::json;

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}, "a": 1,
            "metadata": {"name": "x", "resourceVersion": "5", "annotations": {"resourceVersion": "kept"}},
        })
    }

    #[test]
    fn writes_kind_then_api_version_then_metadata_first() {
        let text = String::from_utf8(encode(&pod())).unwrap();
        assert!(
            text.starts_with(r#"{"kind":"Pod","apiVersion":"v1","metadata":{"annotations""#),
            "{text}"
        );
        assert!(text.ends_with(r#","a":1,"spec":{"x":1}}"#), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), pod());
    }

    #[test]
    fn the_resource_version_is_left_out_and_put_in() {
        let bytes = encode_stored(pod().as_object().unwrap());
        assert!(!String::from_utf8_lossy(&bytes).contains(r#""5""#));
        let stored = StoredObject::find(&bytes).unwrap();
        let mut out = Vec::new();
        stored.write(&mut out, ResourceVersion::new(5));
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), pod());
        assert_eq!(StoredObject::at(&bytes, stored.metadata_offset()), Some(stored));
    }

    #[test]
    fn items_of_lists_do_not_say_their_kind() {
        let bytes = encode_stored(pod().as_object().unwrap());
        let mut out = Vec::new();
        let stored = StoredObject::find(&bytes).unwrap();
        stored.write_item(&mut out, ResourceVersion::new(7));
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with(r#"{"metadata":{"resourceVersion":"7","annotations""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap().get("kind"), None);
    }

    #[test]
    fn empty_and_missing_metadata_get_one_too() {
        for object in [
            json!({"metadata": {}}),
            json!({}),
            json!({"kind": "X", "spec": {}}),
            json!({"metadata": null}),
        ] {
            let bytes = encode_stored(object.as_object().unwrap());
            let mut out = Vec::new();
            StoredObject::find(&bytes)
                .unwrap()
                .write(&mut out, ResourceVersion::new(1));
            let read: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(read["metadata"], json!({"resourceVersion": "1"}), "{object}");
        }
    }

    #[test]
    fn finds_no_metadata_in_other_bytes() {
        for bytes in [
            &b""[..],
            b"{",
            b"{}",
            b"{\"kind\":\"",
            b"[1,2]",
            b"{\"spec\":{},\"metadata\":{}}",
        ] {
            assert_eq!(StoredObject::find(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn a_tree_is_written_as_serde_json_writes_it((_, mut value) in object(), odd: String) {
            value[odd.as_str()] = json!([odd, 1.5, -3, u64::MAX, null, [], {}]);
            let mut text = Vec::new();
            write_value(&mut text, &value);
            prop_assert_eq!(text, serde_json::to_vec(&value).unwrap());
        }

        #[test]
        fn the_metadata_alone_are_those_of_the_object((_, mut value) in object(), odd in "[\"{}\\\\a]{0,8}", revision: u64) {
            if !value["metadata"].is_object() {
                value["metadata"] = json!({});
            }
            value["metadata"]["annotations"] = json!({"odd": odd});
            let bytes = encode_stored(value.as_object().unwrap());
            let mut out = Vec::new();
            StoredObject::find(&bytes).unwrap().write_metadata(&mut out, ResourceVersion::new(revision));
            value["metadata"]["resourceVersion"] = json!(revision.to_string());
            prop_assert_eq!(&serde_json::from_slice::<Value>(&out).unwrap(), &value["metadata"]);
        }

        #[test]
        fn an_answer_is_the_object_with_its_resource_version((_, mut value) in object(), revision: u64) {
            let bytes = encode_stored(value.as_object().unwrap());
            let mut out = Vec::new();
            StoredObject::find(&bytes).unwrap().write(&mut out, ResourceVersion::new(revision));
            if !value["metadata"].is_object() {
                value["metadata"] = json!({});
            }
            value["metadata"]["resourceVersion"] = json!(revision.to_string());
            prop_assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), value);
        }

        #[test]
        fn never_panics_on_arbitrary_bytes(bytes: Vec<u8>) {
            let _ = StoredObject::find(&bytes);
        }
    }
}
