//! Limits the nesting depth of a document during a JSON patch.
//!
//! Whatever drops, copies or encodes a document descends into it level by level on the stack, so every operation is
//! checked before it nests anything. Nothing here recurses.

use serde_json::Value;

use super::document::DocumentPart;
use crate::decode::MAX_DEPTH;

/// How deep operations may nest a document: as deep as bodies are decoded.
pub(super) const MAX_NESTING: usize = MAX_DEPTH;

/// How many values are visited to measure what operations move. Few moves need it: see [`Depth::check_moved`].
const MAX_MEASURED: usize = 4_000_000;

/// The depth of a document: how many objects and lists enclose its deepest value.
#[derive(Debug)]
pub(super) struct Depth {
    /// The document is not deeper than this.
    bound: usize,
    /// How many values may still be visited.
    left: usize,
}

/// A value to visit.
enum VisitedValue<'d> {
    Part(&'d DocumentPart),
    Value(&'d Value),
}

// --- Depth ---

impl Depth {
    pub(super) fn new(document: &Value) -> Self {
        let mut visits = usize::MAX;
        Depth {
            // Without a limit and with enough visits there is always a result.
            bound: measure(VisitedValue::Value(document), usize::MAX, &mut visits).unwrap_or(usize::MAX),
            left: MAX_MEASURED,
        }
    }

    /// Notes that a value is set at a path; `None` if that is too deep. It visits the whole value.
    pub(super) fn check_added(&mut self, path: &str, value: &Value) -> Option<()> {
        let above = levels(path);
        let remaining = MAX_NESTING.checked_sub(above)?;
        let mut visits = usize::MAX;
        let depth = measure(VisitedValue::Value(value), remaining, &mut visits)?;
        self.bound = self.bound.max(above + depth);
        Some(())
    }

    /// Notes that a part is set at a path after it was taken from another; `None` if that is too deep, or if there was
    /// too much to measure.
    ///
    /// What is known of the document bounds the depth of the part. The part is measured only where that is not enough,
    /// so that many moves of large parts cost little.
    pub(super) fn check_moved(&mut self, from: &str, path: &str, part: &DocumentPart) -> Option<()> {
        let above = levels(path);
        let remaining = MAX_NESTING.checked_sub(above)?;
        let bound = self.bound.saturating_sub(levels(from));
        let depth = if bound <= remaining {
            bound
        } else {
            measure(VisitedValue::Part(part), remaining, &mut self.left)?
        };
        self.bound = self.bound.max(above + depth);
        Some(())
    }
}

/// How many objects and lists enclose what is at a path.
fn levels(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

/// The depth of a value; `None` if it is above the limit, or if it takes more visits than are left.
fn measure(value: VisitedValue<'_>, limit: usize, left: &mut usize) -> Option<usize> {
    let mut deepest = 0;
    let mut waiting = vec![(value, 0)];
    while let Some((value, above)) = waiting.pop() {
        *left = left.checked_sub(1)?;
        let within = above + 1;
        match value {
            VisitedValue::Part(DocumentPart::Whole(value)) => {
                // The same value, so it counts once.
                *left += 1;
                waiting.push((VisitedValue::Value(value), above));
                continue;
            }
            VisitedValue::Part(DocumentPart::Fields(fields)) => {
                waiting.extend(fields.values().map(|part| (VisitedValue::Part(part), within)));
            }
            VisitedValue::Part(DocumentPart::Items(items)) => {
                waiting.extend(items.iter().map(|part| (VisitedValue::Part(part), within)));
            }
            VisitedValue::Value(Value::Object(map)) => {
                waiting.extend(map.values().map(|value| (VisitedValue::Value(value), within)));
            }
            VisitedValue::Value(Value::Array(list)) => {
                waiting.extend(list.iter().map(|value| (VisitedValue::Value(value), within)));
            }
            VisitedValue::Value(_) => continue,
        }
        if within > limit {
            return None;
        }
        deepest = deepest.max(within);
    }
    Some(deepest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |value, _| {
            Value::Object([("n".to_owned(), value)].into_iter().collect())
        })
    }

    #[test]
    fn objects_and_lists_are_levels_and_what_they_hold_is_not() {
        for (value, depth) in [
            (json!(1), 0),
            (json!({}), 1),
            (json!([1, "a"]), 1),
            (json!({"a": [{"b": 1}], "c": 1}), 3),
            (nested(300), 300),
        ] {
            assert_eq!(Depth::new(&value).bound, depth, "{value}");
        }
    }

    #[test]
    fn moves_are_measured_only_where_the_bound_is_not_enough_and_not_without_end() {
        let mut depth = Depth::new(&json!({"a": {"b": [1, 2]}, "c": {}}));
        let part = DocumentPart::Whole(json!({"b": [1, 2]}));
        depth.check_moved("/a", "/c/a", &part).unwrap();
        assert_eq!((depth.bound, depth.left), (4, MAX_MEASURED));

        depth.bound = MAX_NESTING;
        depth.left = 10;
        depth.check_moved("/a", "/c/a", &part).unwrap();
        depth.check_moved("/a", "/c/a", &part).unwrap();
        assert_eq!((depth.bound, depth.left), (MAX_NESTING, 2));
        assert!(depth.check_moved("/a", "/c/a", &part).is_none());
    }
}
