//! Entry points: decodes whole bodies.

use super::error::{DecodeError, StrictErrors};
use super::lexer::{ElementPosition, Lexer, ValueStart};
use super::path::Path;
use super::typed::Decoder;
use crate::schema::{StructRef, Type};
use serde_json::Value;

/// A body, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedBody {
    /// The object, in normal form if its type is known.
    pub value: Value,
    /// What was ignored.
    pub strict_errors: StrictErrors,
}

/// The apiVersion and kind of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// Group and version; empty if it does not say.
    pub api_version: String,
    /// The kind; empty if it does not say.
    pub kind: String,
}

/// Decodes an object of a built-in type.
pub fn json(body: &[u8], ty: StructRef) -> Result<DecodedBody, DecodeError> {
    json_type(body, &Type::Struct(ty))
}

/// Decodes a value of any type of the table.
pub fn json_type(body: &[u8], ty: &Type) -> Result<DecodedBody, DecodeError> {
    let mut decoder = Decoder::new(body);
    let value = decoder.value(ty, &Path::Root, &mut None)?;
    decoder.finish(if value.is_null() { ty.zero() } else { value })
}

/// Decodes a body of an unknown type, such as a custom resource: only duplicate fields are strict errors.
pub fn untyped(body: &[u8]) -> Result<DecodedBody, DecodeError> {
    let mut decoder = Decoder::new(body);
    let value = decoder.any(&Path::Root)?;
    decoder.finish(value)
}

/// Reads a text that was a request body or is stored. It may be nested as deeply as a body may be, which is deeper than `serde_json` reads.
pub fn tree_of(text: &[u8]) -> Result<Value, DecodeError> {
    serde_json::from_slice(text).or_else(|_| Ok(untyped(text)?.value))
}

/// What is there more than once in a body of a type that is not known, without a tree of it.
pub fn duplicates(body: &[u8]) -> Result<StrictErrors, DecodeError> {
    let mut decoder = Decoder::new(body);
    decoder.scan(&Path::Root)?;
    Ok(decoder.finish(Value::Null)?.strict_errors)
}

/// Brings a tree into the normal form of its type, as if it were a request body.
pub fn normalize(value: &Value, ty: StructRef) -> Result<DecodedBody, DecodeError> {
    let text = serde_json::to_vec(value).map_err(|error| DecodeError::Syntax(error.to_string()))?;
    json(&text, ty)
}

/// Reads the apiVersion and kind of a body, and checks its syntax.
pub fn type_of(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    let mut lexer = Lexer::new(body);
    let mut found = TypeMeta::default();
    let mut wrong = None;
    match lexer.start()? {
        ValueStart::Object => {
            lexer.enter()?;
            let mut position = ElementPosition::First;
            while let Some(key) = lexer.key(position)? {
                position = ElementPosition::Later;
                let slot = match &*key {
                    "apiVersion" => &mut found.api_version,
                    "kind" => &mut found.kind,
                    _ => {
                        lexer.skip()?;
                        continue;
                    }
                };
                match lexer.start()? {
                    ValueStart::String => *slot = lexer.string()?.into_owned(),
                    ValueStart::Null => {}
                    start => {
                        lexer.skip_started(start)?;
                        let target = format!("Go struct field .{key} of type string");
                        wrong.get_or_insert_with(|| mismatch(start, &target));
                    }
                }
            }
        }
        ValueStart::Null => {}
        start => {
            lexer.skip_started(start)?;
            // The name of a type that has none: its definition.
            let target = r#"Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
            wrong = Some(mismatch(start, target));
        }
    }
    lexer.end()?;
    wrong.map_or(Ok(found), |text| Err(DecodeError::Type(text)))
}

fn mismatch(start: ValueStart, target: &str) -> String {
    let found = match start {
        ValueStart::Object => "object",
        ValueStart::Array => "array",
        ValueStart::String => "string",
        ValueStart::Number => "number",
        ValueStart::Bool(_) | ValueStart::Null => "bool",
    };
    format!("json: cannot unmarshal {found} into {target}")
}

// --- Decoder ---

impl Decoder<'_> {
    fn finish(mut self, value: Value) -> Result<DecodedBody, DecodeError> {
        self.lexer.end()?;
        match self.unreadable.or(self.wrong) {
            Some(text) => Err(DecodeError::Type(text)),
            None => Ok(DecodedBody {
                value,
                strict_errors: self.strict_errors,
            }),
        }
    }
}
