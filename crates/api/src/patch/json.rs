//! JSON patch (RFC 6902).
//!
//! Older than the standard's last word, as clients know it: an index may be negative and counts from the end;
//! replacing a field that is not there adds it; a missing field is as good as null to `test` and `copy`.
//!
//! Promises: an operation costs its own length and what it copies, wherever in a long list it inserts or removes.
//! No operation nests the document deeper than bodies are decoded.

// upstream: vendor/gopkg.in/evanphx/json-patch.v4/patch.go DecodePatch, Apply

mod depth;
mod document;
mod pointer;

use serde_json::{Map, Value};

use self::{depth::Depth, document::DocumentPart};
use super::json_kind;
use crate::status::Status;

/// A patch, decoded.
#[derive(Clone, Debug)]
pub struct Patch {
    operations: Vec<Map<String, Value>>,
}

/// Why a patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a list of objects.
    #[error("{0}")]
    Malformed(String),
    /// More operations than are allowed.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation does not apply. The text is for logs: the answer does not carry it.
    #[error("{0}")]
    Operation(String),
    /// Copies make the document grow too much.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {0}, exceeding the limit \
         {MAX_COPIED_BYTES}"
    )]
    CopiesTooMuch(usize),
}

/// How many operations a patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// How much all copies together may add.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

// --- Error ---

impl Error {
    /// The answer to the client.
    pub fn status(&self) -> Status {
        match self {
            Error::Malformed(message) => Status::bad_request(message.clone()),
            Error::TooManyOperations(_) => Status::request_entity_too_large(self),
            Error::Operation(message) => Status::generic(422, message),
            Error::CopiesTooMuch(_) => Status::generic(422, &self.to_string()),
        }
    }
}

// --- Patch ---

impl Patch {
    /// The operations of a patch.
    pub fn try_new(patch: Value) -> Result<Self, Error> {
        let list = match patch {
            Value::Array(list) => list,
            Value::Null => Vec::new(),
            other => {
                return Err(Error::Malformed(mistyped(
                    &other,
                    "[]interface {}",
                    "error decoding patch: ",
                )));
            }
        };
        let operations = list.into_iter().map(|operation| match operation {
            Value::Object(map) => Ok(map),
            Value::Null => Ok(Map::new()),
            other => Err(Error::Malformed(mistyped(&other, "jsonpatch.Operation", ""))),
        });
        let operations = operations.collect::<Result<Vec<_>, _>>()?;
        if operations.len() > MAX_OPERATIONS {
            return Err(Error::TooManyOperations(operations.len()));
        }
        Ok(Patch { operations })
    }

    /// The document after all operations. If one does not apply, none does.
    pub fn apply(&self, document: Value) -> Result<Value, Error> {
        let mut depth = Depth::new(&document);
        let mut document = DocumentPart::Whole(document);
        let mut copied = 0;
        for operation in &self.operations {
            Operation {
                fields: operation,
                document: &mut document,
                copied: &mut copied,
                depth: &mut depth,
            }
            .apply()?;
        }
        Ok(document.into_value())
    }
}

/// One operation at work.
struct Operation<'o> {
    fields: &'o Map<String, Value>,
    document: &'o mut DocumentPart,
    /// How much was copied so far.
    copied: &'o mut usize,
    /// How deep the document is.
    depth: &'o mut Depth,
}

// --- Operation ---

impl<'o> Operation<'o> {
    fn apply(mut self) -> Result<(), Error> {
        let kind = self.fields.get("op").and_then(Value::as_str).unwrap_or("unknown");
        match kind {
            "add" => {
                let value = self.value();
                self.add_value(value)
            }
            "remove" => self.take("path").map(drop),
            "replace" => self.replace(),
            "move" => {
                let value = self.take("from")?;
                let checked = self
                    .depth
                    .check_moved(self.path("from")?, self.path("path")?, &value);
                checked.ok_or_else(too_deep)?;
                self.add(value)
            }
            "copy" => self.copy(),
            "test" => self.test(),
            _ => Err(Error::Operation(format!("Unexpected kind: {kind}"))),
        }
    }

    fn value(&self) -> Value {
        self.fields.get("value").cloned().unwrap_or_default()
    }

    fn path(&self, field: &str) -> Result<&'o str, Error> {
        let path = self.fields.get(field).and_then(Value::as_str);
        path.ok_or_else(|| Error::Operation(format!("operation missing {field} field")))
    }

    fn add_value(self, value: Value) -> Result<(), Error> {
        let checked = self.depth.check_added(self.path("path")?, &value);
        checked.ok_or_else(too_deep)?;
        self.add(DocumentPart::Whole(value))
    }

    /// Adds what is known not to nest too deeply.
    fn add(self, value: DocumentPart) -> Result<(), Error> {
        let path = self.path("path")?;
        let holder = self.document.holder(path);
        holder
            .and_then(|holder| holder.add(value))
            .ok_or_else(|| missing(path))
    }

    fn take(&mut self, field: &str) -> Result<DocumentPart, Error> {
        let path = self.path(field)?;
        let holder = self.document.holder(path);
        holder
            .and_then(document::PointerTarget::remove)
            .ok_or_else(|| missing(path))
    }

    fn replace(self) -> Result<(), Error> {
        let path = self.path("path")?;
        let value = self.value();
        self.depth.check_added(path, &value).ok_or_else(too_deep)?;
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                let message = "replace operation value must be object or array";
                return Err(Error::Operation(message.to_owned()));
            }
            *self.document = DocumentPart::Whole(value);
            return Ok(());
        }
        let holder = self.document.holder(path);
        holder
            .and_then(|holder| holder.replace(DocumentPart::Whole(value)))
            .ok_or_else(|| missing(path))
    }

    fn copy(mut self) -> Result<(), Error> {
        let value = self
            .get("from")?
            .map(DocumentPart::copy_value)
            .unwrap_or_default();
        let bytes = pointer::json_length(&value);
        *self.copied = self.copied.saturating_add(bytes);
        if *self.copied > MAX_COPIED_BYTES {
            return Err(Error::CopiesTooMuch(*self.copied));
        }
        self.add_value(value)
    }

    fn test(mut self) -> Result<(), Error> {
        let path = self.path("path")?;
        let expected = self.fields.get("value").filter(|value| !value.is_null());
        let found = if path.is_empty() {
            Some(&mut *self.document)
        } else {
            self.get("path")?
        };
        let holds = match (found.filter(|found| !found.is_null()), expected) {
            (Some(found), Some(expected)) => found.is(expected),
            (None, None) => true,
            _ => false,
        };
        if holds {
            return Ok(());
        }
        Err(Error::Operation(format!("testing value {path} failed")))
    }

    /// The value at a location; `None` if its object has no such field.
    fn get(&mut self, field: &str) -> Result<Option<&mut DocumentPart>, Error> {
        let path = self.path(field)?;
        let holder = self.document.holder(path).ok_or_else(|| missing(path))?;
        let is_item = holder.is_item();
        match holder.get() {
            None if is_item => Err(missing(path)),
            found => Ok(found),
        }
    }
}

fn missing(path: &str) -> Error {
    Error::Operation(format!(
        "operation does not apply: doc is missing path: \"{path}\""
    ))
}

fn too_deep() -> Error {
    Error::Operation("exceeded max depth".to_owned())
}

fn mistyped(value: &Value, wanted: &str, before: &str) -> String {
    format!(
        "{before}json: cannot unmarshal {} into Go value of type {wanted}",
        json_kind(value)
    )
}

#[cfg(test)]
mod tests;
