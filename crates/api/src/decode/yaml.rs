//! YAML bodies: converted to JSON and decoded as such, so that both mean the same.

use super::error::{DecodeError, StrictError, StrictErrors};
use super::lexer::MAX_DEPTH;
use super::number;
use super::tree::{DecodedBody, json, untyped};
use super::typed::MAX_OBJECTS;
use crate::schema::StructRef;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};
use std::cell::{Cell, RefCell};
use std::{fmt, thread};

/// As deep as all but the strangest bodies are, and any stack allows.
const SHALLOW: usize = 48;

/// How much stack a level may take.
const STACK_PER_LEVEL: usize = 64 << 10;

/// Decodes an object of a built-in type.
pub fn yaml(body: &[u8], ty: StructRef) -> Result<DecodedBody, DecodeError> {
    let tree = yaml_to_json(body)?;
    let text = serde_json::to_vec(&tree.value).map_err(|error| DecodeError::Syntax(error.to_string()))?;
    yaml_tree(tree, &text, ty)
}

/// Decodes an object of a built-in type that was read as YAML: `text` is its tree as JSON.
pub fn yaml_tree(tree: DecodedBody, text: &[u8], ty: StructRef) -> Result<DecodedBody, DecodeError> {
    let decoded = json(text, ty)?;
    let mut strict_errors = tree.strict_errors;
    strict_errors.append(decoded.strict_errors);
    Ok(DecodedBody {
        value: decoded.value,
        strict_errors,
    })
}

/// Reads YAML into a tree. Of two equal keys the later one counts, and is reported.
// upstream: vendor/sigs.k8s.io/yaml/yaml.go YAMLToJSONStrict
pub fn yaml_to_json(body: &[u8]) -> Result<DecodedBody, DecodeError> {
    if let Some(decoded) = as_json(body) {
        return Ok(decoded);
    }
    let text =
        std::str::from_utf8(body).map_err(|_| DecodeError::Yaml("invalid leading UTF-8 octet".to_owned()))?;
    if let Some(read) = read(text, SHALLOW) {
        return read;
    }
    // Each level takes kilobytes of stack: what is deep is read where there is room for it.
    thread::scope(|scope| {
        let reader = thread::Builder::new()
            .stack_size(MAX_DEPTH * STACK_PER_LEVEL)
            .spawn_scoped(scope, || read(text, MAX_DEPTH));
        reader.ok()?.join().ok()?
    })
    .unwrap_or_else(|| Err(DecodeError::Yaml("exceeded max depth".to_owned())))
}

/// The tree in a text that is JSON, which clients apply, too: it is read several times faster so. `None` for what must be read
/// as YAML, to be reported or rounded in its way.
fn as_json(body: &[u8]) -> Option<DecodedBody> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let decoded = untyped(body).ok()?;
    (decoded.strict_errors.is_empty() && !has_fraction(&decoded.value)).then_some(decoded)
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        _ => false,
    }
}

/// The tree in a text; `None` if it is deeper than `depth`.
fn read(text: &str, depth: usize) -> Option<Result<DecodedBody, DecodeError>> {
    let notes = YamlDecodeState {
        strict_errors: RefCell::default(),
        objects: Cell::new(MAX_OBJECTS),
        levels: Cell::new(depth),
    };
    let budget = serde_saphyr::budget! { max_depth: MAX_DEPTH };
    let options = serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let value = serde_saphyr::with_deserializer_from_str_with_options(text, options, |de| {
        YamlValueSeed(&notes).deserialize(de)
    });
    match value {
        Ok(value) => Some(Ok(DecodedBody {
            value,
            strict_errors: notes.strict_errors.into_inner(),
        })),
        Err(_) if notes.levels.get() == 0 => None,
        Err(_) if notes.objects.get() == 0 => Some(Err(DecodeError::TooMany)),
        Err(error) => Some(Err(DecodeError::Yaml(error_message(&error)))),
    }
}

/// What is wrong, as far as it can be reported in the wording clients know.
fn error_message(error: &serde_saphyr::Error) -> String {
    let line = error.location().map_or(0, |location| location.line());
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = if first.starts_with("unclosed") {
        "did not find expected node content"
    } else {
        first
    };
    format!("line {line}: {message}")
}

/// What is noticed on the way.
struct YamlDecodeState {
    strict_errors: RefCell<StrictErrors>,
    /// How many more objects there may be.
    objects: Cell<usize>,
    /// How many more levels there may be below; zero for good once it is too deep.
    levels: Cell<usize>,
}

// --- YamlDecodeState ---

impl YamlDecodeState {
    /// Reads what stands a level deeper.
    fn below<T, E: serde::de::Error>(&self, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let left = self.levels.get().saturating_sub(1);
        self.levels.set(left);
        if left == 0 {
            return Err(E::custom("exceeded max depth"));
        }
        let found = read()?;
        self.levels.set(left + 1);
        Ok(found)
    }
}

/// Any value.
#[derive(Clone, Copy)]
struct YamlValueSeed<'n>(&'n YamlDecodeState);

// --- YamlValueSeed ---

impl<'de> DeserializeSeed<'de> for YamlValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for YamlValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        number::float(value).ok_or_else(|| E::custom("json: unsupported value"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.below(|| {
            let mut list = Vec::new();
            while let Some(item) = items.next_element_seed(self)? {
                list.push(item);
            }
            Ok(Value::Array(list))
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let left = self.0.objects.get().saturating_sub(1);
        self.0.objects.set(left);
        if left == 0 {
            return Err(A::Error::custom("too many objects"));
        }
        self.0.below(|| {
            let mut map = Map::new();
            while let Some(key) = entries.next_key::<Spanned<String>>()? {
                let value = entries.next_value_seed(self)?;
                let line = key.referenced.line();
                if map.insert(key.value.clone(), value).is_some() {
                    let error = StrictError::YamlDuplicate { line, key: key.value };
                    self.0.strict_errors.borrow_mut().add(error);
                }
            }
            Ok(Value::Object(map))
        })
    }
}
