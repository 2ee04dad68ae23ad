//! Random changes: of bytes, which know nothing of what they mean, and of trees, which stay trees.

use std::fmt;

use proptest::{
    collection::vec,
    option::weighted,
    prelude::*,
    sample::{Index, select},
};
use serde_json::{Value, json};

use super::run::Size;

/// No input grows larger.
const MAX_BYTES: usize = 1 << 16;

/// Failing bytes are printed as text.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// A tree and another, as patches and what they change.
#[derive(Clone, Debug)]
pub(crate) struct Pair(pub(crate) Value, pub(crate) Value);

/// One change of bytes.
#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Insert(Index, &'static str),
    Remove(Index, usize),
    Copy(Index, usize, Index),
    Repeat(Index, usize, usize),
}

/// A sample, or any bytes, with changes.
pub(crate) fn bytes(samples: Vec<Vec<u8>>, tokens: &'static [&'static str]) -> impl Strategy<Value = Bytes> {
    let begin = prop_oneof![8 => select(samples), 1 => vec(any::<u8>(), 0..64)];
    let edit = prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        8 => (any::<Index>(), select(tokens)).prop_map(|(at, token)| Edit::Insert(at, token)),
        4 => (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        4 => (any::<Index>(), 1..200_usize, any::<Index>()).prop_map(|(from, length, to)| Edit::Copy(from, length, to)),
        1 => (any::<Index>(), 1..20_usize, 1..6000_usize)
            .prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
    ];
    (begin, vec(edit, 0..8)).prop_map(|(mut bytes, edits)| {
        for edit in edits {
            edit.make(&mut bytes);
        }
        bytes.truncate(MAX_BYTES);
        Bytes(bytes)
    })
}

/// Two samples with parts of them replaced, and now and then a list that is long.
pub(crate) fn pairs(samples: &[Value], tokens: &'static [&'static str]) -> impl Strategy<Value = Pair> {
    let changed = || {
        let changes = vec((any::<Index>(), leaf(tokens), any::<Index>()), 0..6);
        let growth = weighted(0.02, (any::<Index>(), 2..2000_usize));
        (select(samples.to_vec()), changes, growth)
    };
    (changed(), changed()).prop_map(|(left, right)| {
        let whole = left.0.clone();
        let [left, right] = [left, right].map(|(mut tree, changes, growth)| {
            for (field_path, leaf, source) in changes {
                replace(&mut tree, field_path, leaf, &whole, source);
            }
            if let Some((field_path, times)) = growth {
                grow(&mut tree, field_path, times);
            }
            tree
        });
        Pair(left, right)
    })
}

/// Repeats the first item of a list, under many names.
fn grow(tree: &mut Value, field_path: Index, times: usize) {
    let mut ways = ways(tree);
    ways.retain(|way| {
        tree.pointer(way)
            .and_then(Value::as_array)
            .is_some_and(|items| !items.is_empty())
    });
    if ways.is_empty() {
        return;
    }
    if let Some(Value::Array(items)) = tree.pointer_mut(&ways[field_path.index(ways.len())]) {
        let first = items[0].clone();
        items.extend((0..times).map(|number| match &first {
            Value::Object(fields) => {
                let mut fields = fields.clone();
                for (_, key) in fields
                    .iter_mut()
                    .filter(|(name, _)| ["name", "key", "type"].contains(&name.as_str()))
                {
                    *key = json!(format!("n{number}"));
                }
                Value::Object(fields)
            }
            Value::String(_) => json!(format!("n{number}")),
            other => other.clone(),
        }));
    }
}

/// A value to put somewhere; `None` is for a part of the other tree.
fn leaf(tokens: &'static [&'static str]) -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        3 => Just(None),
        3 => select(tokens).prop_map(|token| Some(json!(token))),
        1 => select(vec![
            json!(null), json!([]), json!({}), json!(""), json!(0), json!(-1), json!(1.5), json!(true), json!([null]),
            json!([[]]), json!(i64::MIN), json!(u64::MAX), json!({"": null}),
        ]).prop_map(Some),
        1 => (select(tokens), select(tokens)).prop_map(|(key, value)| Some(json!({key: value}))),
    ]
}

fn replace(tree: &mut Value, field_path: Index, leaf: Option<Value>, other: &Value, source: Index) {
    let value = leaf.unwrap_or_else(|| {
        let ways = ways(other);
        other
            .pointer(&ways[source.index(ways.len())])
            .cloned()
            .unwrap_or_default()
    });
    let ways = ways(tree);
    if let Some(part) = tree.pointer_mut(&ways[field_path.index(ways.len())]) {
        match (part, value) {
            // Half of the time a field is added.
            (Value::Object(fields), Value::Object(more)) if source.index(2) == 0 => fields.extend(more),
            (part, value) => *part = value,
        }
    }
}

/// The way to each part of a tree; the first is that to the whole.
fn ways(tree: &Value) -> Vec<String> {
    let mut ways = vec![String::new()];
    let mut next = 0;
    while let Some(way) = ways.get(next).cloned() {
        match tree.pointer(&way) {
            Some(Value::Object(fields)) => {
                let escaped = fields
                    .keys()
                    .map(|name| name.replace('~', "~0").replace('/', "~1"));
                ways.extend(escaped.map(|name| format!("{way}/{name}")));
            }
            Some(Value::Array(items)) => ways.extend((0..items.len()).map(|index| format!("{way}/{index}"))),
            _ => {}
        }
        next += 1;
    }
    ways
}

// --- Edit ---

impl Edit {
    fn make(self, bytes: &mut Vec<u8>) {
        let field_path = |at: Index| at.index(bytes.len() + 1);
        match self {
            Edit::Set(at, byte) => {
                let at = field_path(at);
                if let Some(old) = bytes.get_mut(at) {
                    *old = byte;
                }
            }
            Edit::Insert(at, token) => {
                let at = field_path(at);
                bytes.splice(at..at, token.bytes());
            }
            Edit::Remove(at, length) => {
                let at = field_path(at);
                let end = bytes.len().min(at + length);
                bytes.drain(at..end);
            }
            Edit::Copy(from, length, to) => {
                let from = field_path(from);
                let to = field_path(to);
                let part = bytes[from..bytes.len().min(from + length)].to_vec();
                bytes.splice(to..to, part);
            }
            Edit::Repeat(at, length, times) => {
                let at = field_path(at);
                let part = bytes[at..bytes.len().min(at + length)].to_vec();
                let max_times = MAX_BYTES / part.len().max(1);
                bytes.splice(at..at, part.repeat(times.min(max_times)));
            }
        }
    }
}

// --- Bytes ---

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl Size for Bytes {
    fn size(&self) -> usize {
        self.0.len()
    }
}

// --- Pair ---

impl Size for Pair {
    fn size(&self) -> usize {
        self.0.to_string().len() + self.1.to_string().len()
    }
}
