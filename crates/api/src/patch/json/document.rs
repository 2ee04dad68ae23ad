//! The document that a JSON patch changes.
//!
//! Lists are kept in pieces, so that to insert or to remove an item moves a piece and not the rest of the list. A part is
//! opened when an operation first passes through it; the rest stays as it is.

// upstream: vendor/gopkg.in/evanphx/json-patch.v4/patch.go lazyNode, partialDoc, partialArray

use std::{
    collections::{BTreeMap, btree_map},
    iter, mem, vec,
};

use serde_json::{Map, Value};

use super::pointer::{index, unescape};

/// A part of the document.
#[derive(Debug)]
pub(super) enum DocumentPart {
    /// No operation passed through it.
    Whole(Value),
    /// An object.
    Fields(BTreeMap<String, DocumentPart>),
    /// A list.
    Items(ListPieces),
}

/// A list in pieces.
#[derive(Debug, Default)]
pub(super) struct ListPieces {
    /// None is empty, none has more than [`MAX_ITEMS`].
    pieces: Vec<Vec<DocumentPart>>,
    len: usize,
}

/// Items of a piece.
const MAX_ITEMS: usize = 512;

/// The container that a pointer leads to, and the key in it.
pub(super) struct PointerTarget<'d> {
    part: &'d mut DocumentPart,
    name: String,
}

/// An object or a list that becomes a tree, while one of its parts does.
enum UnfinishedContainer {
    Fields {
        done: Map<String, Value>,
        /// The field whose value is next.
        name: String,
        rest: btree_map::IntoIter<String, DocumentPart>,
    },
    Items {
        done: Vec<Value>,
        rest: iter::Flatten<vec::IntoIter<Vec<DocumentPart>>>,
    },
}

// --- DocumentPart ---

impl DocumentPart {
    /// The container that a path leads to; `None` if nothing does.
    pub(super) fn holder(&mut self, path: &str) -> Option<PointerTarget<'_>> {
        let (parents, name) = path.rsplit_once('/')?;
        let mut part = self;
        // What stands before the first slash does not count.
        for step in parents.split('/').skip(1) {
            part = part.open().child(&unescape(step))?;
        }
        let part = part.open();
        match part {
            DocumentPart::Fields(_) | DocumentPart::Items(_) => Some(PointerTarget {
                part,
                name: unescape(name),
            }),
            DocumentPart::Whole(_) => None,
        }
    }

    /// The part as a tree. It takes no more of the stack for a deep part than for a flat one.
    pub(super) fn into_value(self) -> Value {
        let mut above = Vec::new();
        let mut part = self;
        loop {
            let mut value = match part {
                DocumentPart::Whole(value) => value,
                DocumentPart::Fields(fields) => {
                    let mut rest = fields.into_iter();
                    if let Some((name, first)) = rest.next() {
                        let done = Map::new();
                        above.push(UnfinishedContainer::Fields { done, name, rest });
                        part = first;
                        continue;
                    }
                    Value::Object(Map::new())
                }
                DocumentPart::Items(items) => {
                    let mut rest = items.pieces.into_iter().flatten();
                    if let Some(first) = rest.next() {
                        let done = Vec::with_capacity(items.len);
                        above.push(UnfinishedContainer::Items { done, rest });
                        part = first;
                        continue;
                    }
                    Value::Array(Vec::new())
                }
            };
            // What is finished may finish what is above it.
            part = loop {
                let Some(unfinished) = above.pop() else {
                    return value;
                };
                match unfinished.take(value) {
                    Ok((unfinished, next)) => {
                        above.push(unfinished);
                        break next;
                    }
                    Err(finished) => value = finished,
                }
            };
        }
    }

    /// A copy as a tree. The part itself is closed by that: it is whole again.
    pub(super) fn copy_value(&mut self) -> Value {
        let value = mem::replace(self, DocumentPart::Whole(Value::Null)).into_value();
        *self = DocumentPart::Whole(value.clone());
        value
    }

    /// Whether it is this value.
    pub(super) fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (DocumentPart::Whole(own), value) => own == value,
            (DocumentPart::Fields(fields), Value::Object(map)) => {
                fields.len() == map.len()
                    && fields
                        .iter()
                        .all(|(name, part)| map.get(name).is_some_and(|value| part.is(value)))
            }
            (DocumentPart::Items(items), Value::Array(list)) => {
                items.len == list.len()
                    && items
                        .pieces
                        .iter()
                        .flatten()
                        .zip(list)
                        .all(|(part, value)| part.is(value))
            }
            _ => false,
        }
    }

    /// Whether it is null.
    pub(super) fn is_null(&self) -> bool {
        matches!(self, DocumentPart::Whole(Value::Null))
    }

    /// Opens an object or a list.
    fn open(&mut self) -> &mut Self {
        if let DocumentPart::Whole(Value::Object(map)) = self {
            let fields = mem::take(map).into_iter();
            *self = DocumentPart::Fields(
                fields
                    .map(|(name, value)| (name, DocumentPart::Whole(value)))
                    .collect(),
            );
        } else if let DocumentPart::Whole(Value::Array(list)) = self {
            *self = DocumentPart::Items(ListPieces::new(mem::take(list)));
        }
        self
    }

    fn child(&mut self, name: &str) -> Option<&mut DocumentPart> {
        match self {
            DocumentPart::Fields(fields) => fields.get_mut(name),
            DocumentPart::Items(items) => {
                let at = index(name, items.len)?;
                Some(items.get_mut(at))
            }
            DocumentPart::Whole(_) => None,
        }
    }
}

// --- UnfinishedContainer ---

impl UnfinishedContainer {
    /// Takes in the tree of the part that it waited for, and gives the part it waits for next; `Err` if that was the last.
    fn take(self, mut value: Value) -> Result<(Self, DocumentPart), Value> {
        match self {
            UnfinishedContainer::Fields {
                mut done,
                mut name,
                mut rest,
            } => loop {
                done.insert(name, value);
                match rest.next() {
                    None => return Err(Value::Object(done)),
                    Some((next, DocumentPart::Whole(whole))) => (name, value) = (next, whole),
                    Some((name, part)) => {
                        return Ok((UnfinishedContainer::Fields { done, name, rest }, part));
                    }
                }
            },
            UnfinishedContainer::Items { mut done, mut rest } => loop {
                done.push(value);
                match rest.next() {
                    None => return Err(Value::Array(done)),
                    Some(DocumentPart::Whole(whole)) => value = whole,
                    Some(part) => return Ok((UnfinishedContainer::Items { done, rest }, part)),
                }
            },
        }
    }
}

// --- PointerTarget ---

impl<'d> PointerTarget<'d> {
    /// What is at the location; `None` if its object has no such field, or its list no such item.
    pub(super) fn get(self) -> Option<&'d mut DocumentPart> {
        self.part.child(&self.name)
    }

    /// Whether the container is a list.
    pub(super) fn is_item(&self) -> bool {
        matches!(self.part, DocumentPart::Items(_))
    }

    /// Sets a field, or inserts an item; `None` if the list has no such location.
    pub(super) fn add(self, value: DocumentPart) -> Option<()> {
        match self.part {
            DocumentPart::Items(items) if self.name == "-" => items.insert(items.len, value),
            DocumentPart::Items(items) => items.insert(index(&self.name, items.len + 1)?, value),
            DocumentPart::Fields(fields) => drop(fields.insert(self.name, value)),
            DocumentPart::Whole(_) => return None,
        }
        Some(())
    }

    /// Sets a field, or the item that is there.
    pub(super) fn replace(self, value: DocumentPart) -> Option<()> {
        match self.part {
            DocumentPart::Items(items) => *items.get_mut(index(&self.name, items.len)?) = value,
            DocumentPart::Fields(fields) => drop(fields.insert(self.name, value)),
            DocumentPart::Whole(_) => return None,
        }
        Some(())
    }

    /// Takes out a field or an item.
    pub(super) fn remove(self) -> Option<DocumentPart> {
        match self.part {
            DocumentPart::Items(items) => Some(items.remove(index(&self.name, items.len)?)),
            DocumentPart::Fields(fields) => fields.remove(&self.name),
            DocumentPart::Whole(_) => None,
        }
    }
}

// --- ListPieces ---

impl ListPieces {
    fn new(list: Vec<Value>) -> Self {
        let len = list.len();
        let mut pieces = Vec::with_capacity(len.div_ceil(MAX_ITEMS));
        let mut rest = list.into_iter().map(DocumentPart::Whole);
        loop {
            let piece: Vec<_> = rest.by_ref().take(MAX_ITEMS).collect();
            if piece.is_empty() {
                return ListPieces { pieces, len };
            }
            pieces.push(piece);
        }
    }

    /// The items in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &DocumentPart> {
        self.pieces.iter().flatten()
    }

    /// The piece in which an item stands, and where in it. Behind the last item: the end of the last piece.
    fn locate(&self, mut at: usize) -> (usize, usize) {
        for (number, piece) in self.pieces.iter().enumerate() {
            if at < piece.len() || (at == piece.len() && number + 1 == self.pieces.len()) {
                return (number, at);
            }
            at -= piece.len();
        }
        (0, 0)
    }

    fn get_mut(&mut self, at: usize) -> &mut DocumentPart {
        let (piece, at) = self.locate(at);
        &mut self.pieces[piece][at]
    }

    fn insert(&mut self, at: usize, part: DocumentPart) {
        self.len += 1;
        if self.pieces.is_empty() {
            self.pieces.push(vec![part]);
            return;
        }
        let (number, at) = self.locate(at);
        let piece = &mut self.pieces[number];
        piece.insert(at, part);
        if piece.len() > MAX_ITEMS {
            let half = piece.split_off(MAX_ITEMS / 2);
            self.pieces.insert(number + 1, half);
        }
    }

    fn remove(&mut self, at: usize) -> DocumentPart {
        self.len -= 1;
        let (number, at) = self.locate(at);
        let part = self.pieces[number].remove(at);
        if self.pieces[number].is_empty() {
            self.pieces.remove(number);
        }
        part
    }
}
