//! Objects to JSON bytes, and stored bytes to answers without reading them again.
//!
//! Promises: `kind` comes first, then `apiVersion`, then `metadata`, then the rest by name. An object is
//! stored without its resourceVersion, which is known only when the store has taken it; a [`StoredObject`] knows
//! where it belongs, and an answer is a copy with a few bytes put in.

mod pretty;
mod yaml;

use serde_json::{Map, Value};

pub use self::{pretty::pretty, yaml::yaml};

/// What stands before the metadata of an object.
const METADATA: &[u8] = b"\"metadata\":{";

/// An object as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredObject<'b> {
    /// JSON without a resourceVersion.
    bytes: &'b [u8],
    /// Where the first field of its metadata begins, or their end.
    place: usize,
}

/// Writes an object.
pub fn encode(object: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    match object {
        Value::Object(fields) => write_ordered(&mut bytes, fields, None),
        _ => write_value(&mut bytes, object),
    }
    bytes
}

/// Writes an object as it is stored: without its resourceVersion. It gets metadata if it has none.
pub fn encode_stored(object: &Map<String, Value>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    write_ordered(&mut bytes, object, Some("resourceVersion"));
    bytes
}

fn write_ordered(bytes: &mut Vec<u8>, object: &Map<String, Value>, without: Option<&str>) {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    bytes.push(b'{');
    let empty = Value::Object(Map::new());
    for name in FIRST {
        let value = match object.get(name) {
            // What is stored has a place for its resourceVersion.
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
    serde_json::to_writer(&mut *bytes, name).expect("text can be written to memory");
    bytes.push(b':');
}

/// Appends a tree.
pub fn write_value(bytes: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(bytes, value).expect("a tree can be written to memory");
}

// --- StoredObject ---

impl<'b> StoredObject<'b> {
    /// Finds the place in bytes that [`encode_stored`] wrote; `None` in others. Looks at the first fields
    /// only: kind and apiVersion are short.
    pub fn find(bytes: &'b [u8]) -> Option<Self> {
        let mut place = 1;
        for name in [&b"\"kind\":\""[..], b"\"apiVersion\":\""] {
            if bytes.get(place..)?.starts_with(name) {
                let text = bytes.get(place + name.len()..)?;
                // Names of kinds and versions have no quotes to escape.
                place += name.len() + text.iter().position(|byte| *byte == b'"')? + 1;
                if bytes.get(place) == Some(&b',') {
                    place += 1;
                }
            }
        }
        Self::at(bytes, place + METADATA.len())
    }

    /// Takes a place that was found before; `None` if it is not one.
    pub fn at(bytes: &'b [u8], place: usize) -> Option<Self> {
        bytes
            .get(..place)?
            .ends_with(METADATA)
            .then_some(Self { bytes, place })
    }

    /// Where the metadata begin, to be kept beside the bytes.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Appends the object with its resourceVersion.
    pub fn write(&self, answer: &mut Vec<u8>, revision: u64) {
        answer.reserve(self.bytes.len() + 48);
        answer.extend_from_slice(&self.bytes[..self.place]);
        self.write_rest(answer, revision);
    }

    /// Appends the object with its resourceVersion as an item of a list: without kind and apiVersion, which
    /// the list says for all.
    pub fn write_item(&self, answer: &mut Vec<u8>, revision: u64) {
        answer.reserve(self.bytes.len() + 48);
        answer.push(b'{');
        answer.extend_from_slice(METADATA);
        self.write_rest(answer, revision);
    }

    /// The metadata as they are stored, without their brackets.
    pub fn metadata(&self) -> &'b [u8] {
        let rest = &self.bytes[self.place..];
        &rest[..end_of_object(rest)]
    }

    /// Appends the metadata alone, with the resourceVersion.
    pub fn write_metadata(&self, answer: &mut Vec<u8>, revision: u64) {
        let metadata = self.metadata();
        answer.reserve(metadata.len() + 48);
        answer.push(b'{');
        write_version(answer, revision);
        if !metadata.is_empty() {
            answer.push(b',');
            answer.extend_from_slice(metadata);
        }
        answer.push(b'}');
    }

    fn write_rest(&self, answer: &mut Vec<u8>, revision: u64) {
        write_version(answer, revision);
        let rest = &self.bytes[self.place..];
        if rest.first() != Some(&b'}') {
            answer.push(b',');
        }
        answer.extend_from_slice(rest);
    }
}

fn write_version(answer: &mut Vec<u8>, revision: u64) {
    answer.extend_from_slice(b"\"resourceVersion\":\"");
    push_number(answer, revision);
    answer.push(b'"');
}

/// Where the object ends whose first field begins here: at its bracket, or at the end of what is no JSON.
fn end_of_object(bytes: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut place = 0;
    while let Some(byte) = bytes.get(place) {
        match byte {
            b'"' => place += end_of_text(&bytes[place + 1..]) + 1,
            b'{' => depth += 1,
            b'}' if depth == 0 => break,
            b'}' => depth -= 1,
            _ => {}
        }
        place += 1;
    }
    place.min(bytes.len())
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
    fn kind_comes_first_then_version_then_metadata() {
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
        let mut answer = Vec::new();
        stored.write(&mut answer, 5);
        assert_eq!(serde_json::from_slice::<Value>(&answer).unwrap(), pod());
        assert_eq!(StoredObject::at(&bytes, stored.place()), Some(stored));
    }

    #[test]
    fn items_of_lists_do_not_say_their_kind() {
        let bytes = encode_stored(pod().as_object().unwrap());
        let mut answer = Vec::new();
        StoredObject::find(&bytes).unwrap().write_item(&mut answer, 7);
        let text = String::from_utf8(answer).unwrap();
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
            let mut answer = Vec::new();
            StoredObject::find(&bytes).unwrap().write(&mut answer, 1);
            let read: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(read["metadata"], json!({"resourceVersion": "1"}), "{object}");
        }
    }

    #[test]
    fn other_bytes_have_no_place() {
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
        fn the_metadata_alone_are_those_of_the_object((_, mut value) in object(), odd in "[\"{}\\\\a]{0,8}", revision: u64) {
            if !value["metadata"].is_object() {
                value["metadata"] = json!({});
            }
            value["metadata"]["annotations"] = json!({"odd": odd});
            let bytes = encode_stored(value.as_object().unwrap());
            let mut answer = Vec::new();
            StoredObject::find(&bytes).unwrap().write_metadata(&mut answer, revision);
            value["metadata"]["resourceVersion"] = json!(revision.to_string());
            prop_assert_eq!(&serde_json::from_slice::<Value>(&answer).unwrap(), &value["metadata"]);
        }

        #[test]
        fn an_answer_is_the_object_with_its_resource_version((_, mut value) in object(), revision: u64) {
            let bytes = encode_stored(value.as_object().unwrap());
            let mut answer = Vec::new();
            StoredObject::find(&bytes).unwrap().write(&mut answer, revision);
            if !value["metadata"].is_object() {
                value["metadata"] = json!({});
            }
            value["metadata"]["resourceVersion"] = json!(revision.to_string());
            prop_assert_eq!(serde_json::from_slice::<Value>(&answer).unwrap(), value);
        }

        #[test]
        fn any_bytes_have_a_place_or_none(bytes: Vec<u8>) {
            let _ = StoredObject::find(&bytes);
        }
    }
}
