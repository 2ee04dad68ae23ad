//! A file of settings.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::{ConfigError, ConfigValue, Origin};

/// What a file says of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key, with dots for levels.
    pub key: String,
    /// Its value as it is written; several for a list, and an empty one for nothing.
    pub values: Vec<String>,
    /// Whether the value is written as a list, even of one.
    pub is_list: bool,
    /// The line that the value begins on.
    pub line: u64,
}

/// Why a text is not a file of settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ConfigFileError {
    /// Where, if it is somewhere.
    pub line: Option<u64>,
    /// What is wrong there.
    pub why: String,
}

/// A value in a file.
enum Node {
    Text(String),
    /// As YAML understands it. Whoever wants a text wants the one that was written: `007` and `1.10`.
    Number(String),
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

/// Reads a file of settings in YAML: the keys of nested maps are joined with dots.
///
/// ```
/// use kubecontroller::manager::config::parse_entries;
///
/// let found = entries("log:\n  level: debug\nnames: [a, b]").unwrap();
/// assert_eq!((found[0].key.as_str(), found[0].line), ("log.level", 2));
/// assert_eq!(found[1].values, ["a", "b"]);
/// ```
pub fn parse_entries(text: &str) -> Result<Vec<ConfigEntry>, ConfigFileError> {
    let root: Option<Spanned<Node>> = serde_saphyr::from_str(text).map_err(|error| {
        // The message is shown with a picture of the place; its first line says it all.
        let why = error.to_string();
        ConfigFileError {
            line: error.location().map(|place| place.line()),
            why: why.lines().next().unwrap_or_default().to_owned(),
        }
    })?;
    let mut found = Vec::new();
    let Some(root) = root else { return Ok(found) };
    match root.value {
        Node::Map(entries) => {
            for (key, node) in entries {
                flatten(text, key, node, &mut found);
            }
        }
        Node::Text(text) if text.is_empty() => {}
        _ => {
            return Err(ConfigFileError {
                line: None,
                why: "want keys and values".to_owned(),
            });
        }
    }
    Ok(found)
}

/// The same, as what was given; the items of a list are joined with commas.
pub(super) fn read(path: &str, text: &str) -> Result<Vec<ConfigValue>, ConfigError> {
    let found = parse_entries(text).map_err(|bad| ConfigError {
        errors: vec![match bad.line {
            Some(line) => format!("{path}:{line}: {bad}"),
            None => format!("{path}: {bad}"),
        }],
    })?;
    let given = found.into_iter().map(|entry| ConfigValue {
        key: entry.key,
        value: entry.values.join(","),
        origin: Origin::File {
            path: path.to_owned(),
            line: entry.line,
        },
    });
    Ok(given.collect())
}

fn flatten(text: &str, key: String, node: Spanned<Node>, found: &mut Vec<ConfigEntry>) {
    let line = node.referenced.line();
    let is_list = matches!(node.value, Node::List(_));
    let values = match node.value {
        Node::Map(entries) => {
            for (inner, node) in entries {
                flatten(text, format!("{key}.{inner}"), node, found);
            }
            return;
        }
        Node::Text(_) | Node::Number(_) => vec![scalar(text, node)],
        Node::List(items) => items.into_iter().map(|item| scalar(text, item)).collect(),
    };
    found.push(ConfigEntry {
        key,
        values,
        is_list,
        line,
    });
}

fn scalar(text: &str, node: Spanned<Node>) -> String {
    match node.value {
        Node::Text(value) => value,
        Node::Number(value) => written(text, node.defined).map_or(value, str::to_owned),
        // No setting is a list of lists or maps: whoever takes the value will not know it.
        Node::List(_) | Node::Map(_) => "{}".to_owned(),
    }
}

/// What stands at a place in a text.
fn written(text: &str, place: Location) -> Option<&str> {
    let span = place.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    text.get(start..start.checked_add(length)?).map(str::trim)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Text(String::new()))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Node, S::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut entries: M) -> Result<Node, M::Error> {
        let mut map: Vec<(String, Spanned<Node>)> = Vec::new();
        while let Some((key, value)) = entries.next_entry::<String, _>()? {
            if map.iter().any(|(known, _)| *known == key) {
                return Err(M::Error::custom(format!("{key} is there twice")));
            }
            map.push((key, value));
        }
        Ok(Node::Map(map))
    }
}
