//! Lists.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Value;
use crate::{
    decl::{DeclType, ListKind},
    error::EvalError,
};

/// The most items of a list that an expression makes: joining costs next to nothing, so something must end it.
const LONGEST: usize = 4_000_000;

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Part of a tree.
    Json {
        /// The items.
        items: &'a [Json],
        /// What they are.
        decl: Arc<DeclType>,
        /// What they are to each other.
        kind: ListKind,
    },
    /// Made by an expression.
    Owned(Arc<Vec<Value<'a>>>),
    /// Joined by an expression of what are no mere lists.
    Joined(Arc<Vec<Value<'a>>>, ListKind),
}

impl<'a> List<'a> {
    /// How many items.
    pub fn len(&self) -> usize {
        match self {
            List::Json { items, .. } => items.len(),
            List::Owned(items) | List::Joined(items, _) => items.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An item.
    pub fn get(&self, at: usize) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            List::Json { items, decl, .. } => items.get(at).map(|item| Value::read(item, decl)),
            List::Owned(items) | List::Joined(items, _) => items.get(at).cloned().map(Ok),
        }
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> + '_ {
        (0..self.len()).map_while(|at| self.get(at))
    }

    pub(crate) fn to_vec(&self) -> Result<Vec<Value<'a>>, EvalError> {
        match self {
            List::Owned(items) | List::Joined(items, _) => Ok(items.to_vec()),
            List::Json { .. } => self.iter().collect(),
        }
    }

    /// This list and another. Of sets, what is new is added; of lists of objects with keys, what is new, and what is
    /// there is replaced.
    pub(crate) fn join(self, other: &List<'a>) -> Result<List<'a>, EvalError> {
        if self.len() + other.len() > LONGEST {
            return Err(EvalError::cost_limit());
        }
        let kind = self.kind();
        let mut items = match self {
            List::Owned(items) | List::Joined(items, _) => {
                Arc::try_unwrap(items).unwrap_or_else(|items| items.to_vec())
            }
            json @ List::Json { .. } => json.to_vec()?,
        };
        match &kind {
            ListKind::Atomic => {
                items.reserve(other.len());
                for item in other.iter() {
                    items.push(item?);
                }
                return Ok(List::Owned(Arc::new(items)));
            }
            ListKind::Set => super::compare::add_to_set(&mut items, other)?,
            ListKind::Map(keys) => super::compare::add_to_map(&mut items, other, keys)?,
        }
        Ok(List::Joined(Arc::new(items), kind))
    }

    /// What the items are to each other.
    pub(crate) fn kind(&self) -> ListKind {
        match self {
            List::Json { kind, .. } | List::Joined(_, kind) => kind.clone(),
            List::Owned(_) => ListKind::Atomic,
        }
    }
}
