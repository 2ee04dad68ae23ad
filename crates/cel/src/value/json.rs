//! JSON as values, and values as JSON.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go UnstructuredToVal

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Key, List, Map, Text, Value};
use crate::{
    base64,
    decl::{DeclType, Shape},
    error::EvalError,
    function::time,
};

/// The deepest value that becomes JSON.
const DEEPEST: u32 = 128;

impl<'a> Value<'a> {
    /// Reads a value of a tree as what it is declared to be.
    pub fn read(json: &'a Json, decl: &DeclType) -> Result<Value<'a>, EvalError> {
        let wrong = |what: &str| {
            Err(EvalError::new(format!(
                "invalid data, expected {what}, got {}",
                go_type(json)
            )))
        };
        let text = |what: &str| {
            json.as_str()
                .map_or_else(|| wrong(what).map(|_: Value<'a>| ""), Ok)
        };
        Ok(match &decl.shape {
            Shape::Optional(inner) => Value::optional(Some(Value::read(json, inner)?)),
            _ if json.is_null() => Value::Null,
            Shape::Bool => match json {
                Json::Bool(truth) => Value::Bool(*truth),
                _ => return wrong("bool"),
            },
            Shape::Int => match whole(json) {
                Some(number) => Value::Int(number),
                None => return wrong("int"),
            },
            Shape::Double => match json.as_f64() {
                Some(number) => Value::Double(number),
                None => return wrong("float"),
            },
            Shape::String => Value::String(Text::Borrowed(text("string")?)),
            Shape::IntOrString => match (json, whole(json)) {
                (Json::String(text), _) => Value::String(Text::Borrowed(text)),
                (_, Some(number)) => Value::Int(number),
                _ => {
                    let message =
                        "invalid data, expected XIntOrString value to be either a string or integer";
                    return Err(EvalError::new(message));
                }
            },
            Shape::Bytes => {
                let text = text("string")?;
                // upstream: vendor/k8s.io/kube-openapi/pkg/validation/strfmt/default.go UnmarshalText; the alphabet is that of URLs, which the format does not allow
                match base64::decode_url_padded(text) {
                    Ok(bytes) => Value::Bytes(bytes.into()),
                    Err(error) => {
                        let message = format!("Invalid byte formatted string {text}: {error}");
                        return Err(EvalError::new(message));
                    }
                }
            }
            Shape::Timestamp => {
                let text = text("string")?;
                let parsed = time::parse_date_time(text);
                Value::Timestamp(parsed.ok_or_else(|| invalid("date-time formatted string", text))?)
            }
            Shape::Date => {
                let text = text("string")?;
                Value::Timestamp(
                    time::parse_date(text).ok_or_else(|| invalid("date formatted string", text))?,
                )
            }
            Shape::Duration => {
                let text = text("string")?;
                Value::Duration(
                    k3_duration::parse_worded(text)
                        .ok_or_else(|| invalid("duration", text))?
                        .nanos(),
                )
            }
            Shape::List(items, kind) => match json {
                Json::Array(array) => Value::List(List::Json {
                    items: array,
                    decl: Arc::clone(items),
                    kind: kind.clone(),
                }),
                _ => return wrong("an array for the provided schema with type=array"),
            },
            Shape::Map(_, values) => match json {
                Json::Object(entries) => Value::Map(Map::Json {
                    entries,
                    decl: Arc::clone(values),
                }),
                _ => return wrong("a map for the provided schema with type=object"),
            },
            Shape::Object(object) => match json {
                Json::Object(entries) => Value::Map(Map::Object {
                    entries,
                    decl: Arc::clone(object),
                }),
                _ => return wrong("a map for the provided schema with type=object"),
            },
            Shape::Dyn | Shape::Null | Shape::Uint | Shape::Type | Shape::Opaque(_) => Value::dynamic(json),
        })
    }

    /// Reads a value of a tree without a schema.
    pub fn dynamic(json: &'a Json) -> Value<'a> {
        let decl = || Arc::new(DeclType::from(Shape::Dyn));
        match json {
            Json::Null => Value::Null,
            Json::Bool(truth) => Value::Bool(*truth),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Value::Int(number),
                None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::String(Text::Borrowed(text)),
            Json::Array(items) => Value::List(List::Json {
                items,
                decl: decl(),
                kind: crate::decl::ListKind::Atomic,
            }),
            Json::Object(entries) => Value::Map(Map::Json {
                entries,
                decl: decl(),
            }),
        }
    }

    /// What it is as JSON: times and spans as texts, bytes as base64.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        self.json(0)
    }

    fn json(&self, depth: u32) -> Result<Json, EvalError> {
        if depth > DEEPEST {
            return Err(EvalError::new("value nests too deep"));
        }
        let none = || {
            EvalError::new(format!(
                "unsupported conversion of '{}' to JSON",
                self.type_name()
            ))
        };
        Ok(match self {
            Value::Null | Value::Optional(None) => Json::Null,
            Value::Bool(truth) => (*truth).into(),
            Value::Int(number) => (*number).into(),
            Value::Uint(number) => (*number).into(),
            Value::Double(number) => (*number).into(),
            Value::String(text) => (**text).into(),
            Value::Bytes(bytes) => base64::encode(bytes).into(),
            Value::Timestamp(time) => time.to_string().into(),
            Value::Duration(nanos) => time::duration_text(*nanos).into(),
            Value::Optional(Some(value)) => value.json(depth)?,
            Value::List(List::Json { items, .. }) => Json::Array(items.to_vec()),
            Value::List(list) => list
                .iter()
                .map(|item| item?.json(depth + 1))
                .collect::<Result<_, _>>()?,
            Value::Map(Map::Json { entries, .. } | Map::Object { entries, .. }) => {
                Json::Object((*entries).clone())
            }
            Value::Map(map) => {
                let mut object = serde_json::Map::new();
                for key in map.keys() {
                    let Some(Key::String(name)) = Key::of(&key) else {
                        return Err(EvalError::new(format!(
                            "map key {key} is of type {}, not string",
                            key.type_name()
                        )));
                    };
                    if let Some(value) = map.find(&key) {
                        object.insert(name.into(), value?.json(depth + 1)?);
                    }
                }
                Json::Object(object)
            }
            Value::Message(_, fields) => {
                let mut object = serde_json::Map::new();
                for (name, value) in fields.iter() {
                    object.insert(name.to_string(), value.json(depth + 1)?);
                }
                Json::Object(object)
            }
            Value::Opaque(opaque) => opaque.text().map(Json::String).ok_or_else(none)?,
            Value::Type(_) => return Err(none()),
        })
    }
}

/// A whole number, also one that was written with a fraction of nothing.
fn whole(json: &Json) -> Option<i64> {
    let number = json.as_number()?;
    number.as_i64().or_else(|| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::float_cmp,
            reason = "only whole numbers within range pass"
        )]
        number
            .as_f64()
            .filter(|float| float.trunc() == *float && float.abs() < 9.2e18)
            .map(|float| float as i64)
    })
}

fn invalid(what: &str, text: &str) -> EvalError {
    EvalError::new(format!("Invalid {what} {text}"))
}

fn go_type(json: &Json) -> &'static str {
    match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}
