//! Limits the cost of validating one custom resource.
//!
//! The cost is the size of the object times the size of the schemas that each of its values is validated by. Objects and
//! schemas that people write stay far below the limit; beyond it the object is refused.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use super::super::pattern::{Pattern, PatternError};

/// Steps that validating one object may take: a value validated by a schema, a required field looked up, or 64 bytes of
/// the text of an error.
const MAX_STEPS: usize = 2_000_000;

/// What is reported of an object that would take more.
pub(super) const OBJECT_TOO_LARGE: &str = "the object is too large to be validated by its schema";

/// The cost of one validation so far, and the patterns it has compiled.
#[derive(Debug)]
pub(super) struct ValidationCost<'n> {
    steps: Cell<usize>,
    patterns: RefCell<HashMap<&'n str, Result<Pattern, PatternError>>>,
}

// --- ValidationCost ---

impl<'n> ValidationCost<'n> {
    pub(super) fn new() -> Self {
        ValidationCost {
            steps: Cell::new(MAX_STEPS),
            patterns: RefCell::default(),
        }
    }

    /// Takes some steps; whether there were as many left.
    pub(super) fn take(&self, steps: usize) -> bool {
        let rest = self.steps.get().saturating_sub(steps);
        self.steps.set(rest);
        rest > 0
    }

    /// Whether the object would take too much.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    /// Whether a text matches a pattern of the schema; an error if that does not compile. A pattern is compiled once
    /// for all values of the object.
    pub(super) fn matches(&self, pattern: &'n str, text: &str) -> Result<bool, PatternError> {
        let mut patterns = self.patterns.borrow_mut();
        let compiled = patterns.entry(pattern).or_insert_with(|| Pattern::new(pattern));
        compiled
            .as_ref()
            .map(|pattern| pattern.matches(text))
            .map_err(Clone::clone)
    }
}
