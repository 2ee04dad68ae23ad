//! Limits the cost of one strategic merge patch.
//!
//! To merge a list costs its length. A patch may name one item of a list many times, and each time a list within it: that
//! would cost the product of both. Such a patch is refused.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::Error;

/// How many more items and fields may be looked at.
pub(super) struct PatchCost(Cell<usize>);

/// A patch looks at each part of the object and of itself a few times.
const TIMES: usize = 4;

/// The cost that is allowed in addition to the size, so that small patches are not rejected.
const BASE_BUDGET: usize = 100_000;

// --- PatchCost ---

impl PatchCost {
    /// As much as a patch for this object may cost.
    pub(super) fn new(object: &Map<String, Value>, patch: &Map<String, Value>) -> Self {
        let parts = fields(object) + fields(patch);
        PatchCost(Cell::new(parts * TIMES + BASE_BUDGET))
    }

    /// Looks at so many items or fields.
    pub(super) fn take(&self, parts: usize) -> Result<(), Error> {
        let rest = self.0.get().checked_sub(parts).ok_or(Error::TooMuchWork)?;
        self.0.set(rest);
        Ok(())
    }
}

fn parts(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(parts).sum::<usize>(),
        Value::Object(map) => 1 + fields(map),
        _ => 1,
    }
}

fn fields(map: &Map<String, Value>) -> usize {
    map.values().map(parts).sum()
}
