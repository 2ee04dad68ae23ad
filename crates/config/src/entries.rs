//! A file as a list of values with lines. JSON is YAML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The value of one key in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key, with dots for levels.
    pub key: String,
    /// The value as it is written; the items of a list; an empty string for null.
    pub values: Vec<String>,
    /// Whether the value is a list, even if it has one item.
    pub is_list: bool,
    /// The first line of the value.
    pub line: u64,
}

/// A syntax error in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ConfigFileError {
    /// The line of the error, if it has one.
    pub line: Option<u64>,
    /// The message.
    pub why: String,
}

/// A value in a file.
enum ConfigNode {
    Text(String),
    /// As YAML parses it. For strings such as `007` and `1.10`, see [`source_text`].
    Number(String),
    List(Vec<Spanned<ConfigNode>>),
    Map(Vec<(String, Spanned<ConfigNode>)>),
}

/// Parses a YAML configuration file. The keys of nested maps are joined with dots.
///
/// ```
/// use k3_config::parse_entries;
///
/// let found = parse_entries("log:\n  level: debug\nnames: [a, b]").unwrap();
/// assert_eq!((found[0].key.as_str(), found[0].line), ("log.level", 2));
/// assert_eq!(found[1].values, ["a", "b"]);
/// ```
pub fn parse_entries(text: &str) -> Result<Vec<ConfigEntry>, ConfigFileError> {
    let root: Option<Spanned<ConfigNode>> = serde_saphyr::from_str(text).map_err(|error| {
        // The parser appends an excerpt of the source to the message; the first line is the message itself.
        let why = error.to_string();
        ConfigFileError {
            line: error.location().map(|location| location.line()),
            why: why.lines().next().unwrap_or_default().to_owned(),
        }
    })?;
    let mut found = Vec::new();
    let Some(root) = root else { return Ok(found) };
    match root.value {
        ConfigNode::Map(entries) => {
            for (key, node) in entries {
                flatten(text, key, node, &mut found);
            }
        }
        ConfigNode::Text(text) if text.is_empty() => {}
        _ => {
            return Err(ConfigFileError {
                line: None,
                why: "expected a map of keys and values".to_owned(),
            });
        }
    }
    Ok(found)
}

fn flatten(text: &str, key: String, node: Spanned<ConfigNode>, found: &mut Vec<ConfigEntry>) {
    let line = node.referenced.line();
    let is_list = matches!(node.value, ConfigNode::List(_));
    let values = match node.value {
        ConfigNode::Map(entries) => {
            for (inner, node) in entries {
                flatten(text, format!("{key}.{inner}"), node, found);
            }
            return;
        }
        ConfigNode::Text(_) | ConfigNode::Number(_) => vec![scalar(text, node)],
        ConfigNode::List(items) => items.into_iter().map(|item| scalar(text, item)).collect(),
    };
    found.push(ConfigEntry {
        key,
        values,
        is_list,
        line,
    });
}

fn scalar(text: &str, node: Spanned<ConfigNode>) -> String {
    match node.value {
        ConfigNode::Text(value) => value,
        ConfigNode::Number(value) => source_text(text, node.defined).map_or(value, str::to_owned),
        // No setting is a list of lists or maps, so the validation of the setting rejects this value.
        ConfigNode::List(_) | ConfigNode::Map(_) => "{}".to_owned(),
    }
}

/// The source text at a location.
fn source_text(text: &str, location: Location) -> Option<&str> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    text.get(start..start.checked_add(length)?).map(str::trim)
}

impl<'de> Deserialize<'de> for ConfigNode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ConfigNodeVisitor)
    }
}

struct ConfigNodeVisitor;

impl<'de> Visitor<'de> for ConfigNodeVisitor {
    type Value = ConfigNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<ConfigNode, E> {
        Ok(ConfigNode::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ConfigNode, E> {
        Ok(ConfigNode::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ConfigNode, E> {
        Ok(ConfigNode::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ConfigNode, E> {
        Ok(ConfigNode::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<ConfigNode, E> {
        Ok(ConfigNode::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<ConfigNode, E> {
        Ok(ConfigNode::Text(String::new()))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<ConfigNode, S::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(ConfigNode::List(list))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut entries: M) -> Result<ConfigNode, M::Error> {
        let mut map: Vec<(String, Spanned<ConfigNode>)> = Vec::new();
        while let Some((key, value)) = entries.next_entry::<String, _>()? {
            if map.iter().any(|(known, _)| *known == key) {
                return Err(M::Error::custom(format!("duplicate key {key}")));
            }
            map.push((key, value));
        }
        Ok(ConfigNode::Map(map))
    }
}
