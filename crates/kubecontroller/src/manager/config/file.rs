//! A file of settings.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{BadConfig, Given, Origin};

/// A value in a file.
enum Node {
    Text(String),
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

/// Reads a file: the keys of nested maps are joined with dots, the items of a list with commas.
pub(super) fn read(path: &str, text: &str) -> Result<Vec<Given>, BadConfig> {
    let bad = |line: Option<u64>, why: &str| BadConfig {
        faults: vec![line.map_or_else(
            || format!("{path}: {why}"),
            |line| format!("{path}:{line}: {why}"),
        )],
    };
    let root: Option<Spanned<Node>> = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map(|place| place.line());
        // The message is shown with a picture of the place; its first line says it all.
        let why = error.to_string();
        bad(line, why.lines().next().unwrap_or_default())
    })?;
    let mut given = Vec::new();
    let Some(root) = root else { return Ok(given) };
    match root.value {
        Node::Map(entries) => {
            for (key, node) in entries {
                flatten(path, key, node, &mut given);
            }
        }
        Node::Text(text) if text.is_empty() => {}
        _ => return Err(bad(None, "want keys and values")),
    }
    Ok(given)
}

fn flatten(path: &str, key: String, node: Spanned<Node>, given: &mut Vec<Given>) {
    let line = node.referenced.line();
    let value = match node.value {
        Node::Map(entries) => {
            for (inner, node) in entries {
                flatten(path, format!("{key}.{inner}"), node, given);
            }
            return;
        }
        Node::Text(text) => text,
        Node::List(items) => {
            let texts = items.into_iter().map(|item| match item.value {
                Node::Text(text) => text,
                // No setting is a list of lists or maps: whoever takes the value will not know it.
                Node::List(_) | Node::Map(_) => "{}".to_owned(),
            });
            texts.collect::<Vec<_>>().join(",")
        }
    };
    let origin = Origin::File {
        path: path.to_owned(),
        line,
    };
    given.push(Given { key, value, origin });
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
        Ok(Node::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
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
