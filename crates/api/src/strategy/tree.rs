//! Accessors for JSON trees: an absent value reads as empty.

use serde_json::{Map, Value};

use crate::base64;

/// Reading a tree. Never fails: a field that is missing, or of another type, is an empty one.
pub trait Tree {
    /// The value of a field; `null` if it is not there.
    fn at(&self, name: &str) -> &Value;

    /// The value at the end of a way of fields, as in `spec.template.spec`.
    fn at_path(&self, path: &str) -> &Value;

    /// Whether a field is there, and not `null`.
    fn has(&self, name: &str) -> bool {
        !self.at(name).is_null()
    }

    /// A field that is text; empty if it is not there.
    fn text(&self, name: &str) -> &str {
        self.at(name).as_str().unwrap_or("")
    }

    /// A field that is a whole number.
    fn int(&self, name: &str) -> Option<i64> {
        self.at(name).as_i64()
    }

    /// A field that is a whole number; zero if it is not there. Go has no difference between the two where an optional
    /// number is not a pointer.
    fn int_or_zero(&self, name: &str) -> i64 {
        self.int(name).unwrap_or(0)
    }

    /// A field that is true; false if it is not there.
    fn flag(&self, name: &str) -> bool {
        self.at(name).as_bool().unwrap_or(false)
    }

    /// The items of a list; none if it is not there.
    fn items(&self, name: &str) -> &[Value] {
        self.at(name).as_array().map_or(&[], Vec::as_slice)
    }

    /// The entries of a map or object; none if it is not there.
    fn entries(&self, name: &str) -> &Map<String, Value>;

    /// The items of a list of texts.
    fn texts<'v>(&'v self, name: &str) -> impl Iterator<Item = &'v str> {
        self.items(name).iter().filter_map(Value::as_str)
    }
}

/// Changing a tree.
pub trait TreeMut {
    /// Sets a field that is missing or `null`.
    fn set_default(&mut self, name: &str, value: impl Into<Value>);

    /// Sets a field.
    fn set(&mut self, name: &str, value: impl Into<Value>);

    /// Takes a field out, if it is there.
    fn remove(&mut self, name: &str) -> Option<Value>;

    /// Gives a field the value it has in another object; takes it out if it has none there.
    fn copy_from(&mut self, name: &str, other: &Value);

    /// A field that is an object; it is made if it is missing or `null`.
    fn ensure_object(&mut self, name: &str) -> &mut Value;

    /// A field that is there.
    fn at_mut(&mut self, name: &str) -> Option<&mut Value>;

    /// The items of a list; none if it is not there.
    fn items_mut(&mut self, name: &str) -> &mut [Value];
}

static NULL: Value = Value::Null;

/// The bytes of a field of the type bytes. Decoding has refused texts that are not base64; where one is met nevertheless, it
/// has no bytes.
pub(crate) fn decoded_bytes(text: &str) -> Vec<u8> {
    base64::decode(text).unwrap_or_default()
}

/// An empty map to point at.
fn nothing() -> &'static Map<String, Value> {
    static NOTHING: std::sync::OnceLock<Map<String, Value>> = std::sync::OnceLock::new();
    NOTHING.get_or_init(Map::new)
}

impl Tree for Value {
    fn at(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&NULL)
    }

    fn at_path(&self, path: &str) -> &Value {
        path.split('.').fold(self, |value, name| value.at(name))
    }

    fn entries(&self, name: &str) -> &Map<String, Value> {
        self.at(name).as_object().unwrap_or_else(|| nothing())
    }
}

impl TreeMut for Value {
    fn set_default(&mut self, name: &str, value: impl Into<Value>) {
        if !self.has(name) {
            self.set(name, value);
        }
    }

    fn set(&mut self, name: &str, value: impl Into<Value>) {
        if let Value::Object(fields) = self {
            fields.insert(name.to_owned(), value.into());
        }
    }

    fn remove(&mut self, name: &str) -> Option<Value> {
        self.as_object_mut()?.remove(name)
    }

    fn copy_from(&mut self, name: &str, other: &Value) {
        match other.get(name) {
            // To compare costs far less than to copy.
            Some(value) if self.get(name) == Some(value) => {}
            Some(value) => self.set(name, value.clone()),
            None => drop(self.remove(name)),
        }
    }

    fn ensure_object(&mut self, name: &str) -> &mut Value {
        if !self.is_object() {
            *self = Value::Object(Map::new());
        }
        let Value::Object(fields) = self else {
            unreachable!("it was made an object");
        };
        let field = fields.entry(name).or_insert(Value::Null);
        if field.is_null() {
            *field = Value::Object(Map::new());
        }
        field
    }

    fn at_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.get_mut(name)
    }

    fn items_mut(&mut self, name: &str) -> &mut [Value] {
        match self.get_mut(name) {
            Some(Value::Array(items)) => items,
            _ => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_there_reads_as_empty() {
        let tree = json!({"spec": {"replicas": 3, "on": true, "list": ["a", 1, "b"]}});
        let spec = tree.at("spec");
        assert_eq!(
            (spec.int("replicas"), spec.flag("on"), spec.text("name")),
            (Some(3), true, "")
        );
        assert_eq!(spec.texts("list").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(tree.at_path("spec.template.spec").items("containers").len(), 0);
        assert!(tree.entries("metadata").is_empty());
    }

    #[test]
    fn filling_keeps_what_is_there() {
        let mut tree = json!({"a": 1, "b": null});
        tree.set_default("a", 2);
        tree.set_default("b", "x");
        tree.ensure_object("c").set("d", true);
        assert_eq!(tree, json!({"a": 1, "b": "x", "c": {"d": true}}));
        tree.copy_from("a", &json!({"a": 7}));
        tree.copy_from("b", &json!({}));
        assert_eq!(tree, json!({"a": 7, "c": {"d": true}}));
    }
}
