//! Evaluation of paths.

// upstream: staging/src/k8s.io/client-go/util/jsonpath/jsonpath.go FindResults, evalField, evalArray, evalFilter, evalUnion

use serde_json::Value;

use crate::{
    error::EvaluationError,
    path::{JsonPath, PathStep},
};

/// How many values a step may find. Descents and unions find values more than once.
const MAX_VALUES: usize = 1_000_000;

/// What happens where a path does not fit the object, such as an index beyond the end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evaluation {
    /// The evaluation fails, like in client-go.
    Strict,
    /// The value is skipped: one unusual object does not hide the others of a list.
    Lenient,
}

// --- JsonPath ---

impl JsonPath {
    /// Returns the values at the end of the path, in order. Missing fields are skipped, missing items are an error.
    pub fn find<'v>(&'v self, object: &'v Value) -> Result<Vec<&'v Value>, EvaluationError> {
        self.evaluate(object, Evaluation::Strict)
    }

    /// Returns the values at the end of the path, in order. What the object does not have is skipped.
    pub fn find_lenient<'v>(&'v self, object: &'v Value) -> Vec<&'v Value> {
        self.evaluate(object, Evaluation::Lenient).unwrap_or_default()
    }

    /// Returns the first value at the end of the path.
    pub fn first<'v>(&'v self, object: &'v Value) -> Option<&'v Value> {
        self.find_lenient(object).into_iter().next()
    }

    pub(crate) fn evaluate<'v>(
        &'v self,
        object: &'v Value,
        evaluation: Evaluation,
    ) -> Result<Vec<&'v Value>, EvaluationError> {
        let mut found = vec![object];
        for step in &self.steps {
            found = step.evaluate(&found, evaluation)?;
        }
        Ok(found)
    }
}

// --- PathStep ---

impl PathStep {
    fn evaluate<'v>(
        &'v self,
        from: &[&'v Value],
        evaluation: Evaluation,
    ) -> Result<Vec<&'v Value>, EvaluationError> {
        let mut found = Vec::new();
        match self {
            PathStep::Field(name) if name.is_empty() => found.extend(from),
            PathStep::Field(name) => found.extend(from.iter().filter_map(|value| value.get(name))),
            PathStep::Wildcard => found.extend(from.iter().flat_map(|value| children(value))),
            PathStep::Descent => {
                for value in from {
                    descend(value, &mut found)?;
                }
            }
            PathStep::Union(paths) => {
                for path in paths {
                    let mut ends = from.to_vec();
                    for step in &path.steps {
                        ends = step.evaluate(&ends, evaluation)?;
                    }
                    found.extend(ends);
                    limit(&found)?;
                }
            }
            PathStep::Literal(value) => found.extend(from.iter().map(|_| value)),
            PathStep::Identifier(name) => return Err(EvaluationError::Identifier(name.clone())),
            PathStep::Index(_) | PathStep::Slice { .. } | PathStep::Filter(_) => {
                for value in from.iter().filter(|value| !value.is_null()) {
                    match (self.select(value, evaluation), evaluation) {
                        (Ok(items), _) => found.extend(items),
                        (Err(_), Evaluation::Lenient) => {}
                        (Err(error), Evaluation::Strict) => return Err(error),
                    }
                }
            }
        }
        limit(&found)?;
        Ok(found)
    }

    /// Returns the items of a list that an index, a slice or a filter selects.
    fn select<'v>(
        &self,
        value: &'v Value,
        evaluation: Evaluation,
    ) -> Result<Vec<&'v Value>, EvaluationError> {
        let items = value.as_array().ok_or(EvaluationError::NotList)?;
        let length = i64::try_from(items.len()).map_err(|_| EvaluationError::TooMany)?;
        let from_end = |index: i64| {
            if index < 0 {
                index.saturating_add(length)
            } else {
                index
            }
        };
        let out_of_bounds = |index: i64| EvaluationError::OutOfBounds {
            index,
            length: items.len(),
        };
        match self {
            PathStep::Index(index) => {
                let index = from_end(*index);
                let item = usize::try_from(index).ok().and_then(|index| items.get(index));
                Ok(vec![item.ok_or_else(|| out_of_bounds(index))?])
            }
            PathStep::Slice { start, end, step } => {
                let start = from_end(start.unwrap_or(0));
                let end = from_end(end.unwrap_or(length)).min(length);
                let step = usize::try_from(step.unwrap_or(1)).unwrap_or(0);
                if step == 0 {
                    return Err(EvaluationError::Step);
                }
                if start < 0 || (start >= length && length > 0) {
                    return Err(out_of_bounds(start));
                }
                let bound = |index: i64| usize::try_from(index).unwrap_or(0);
                let slice = items.get(bound(start)..bound(end)).unwrap_or_default();
                Ok(slice.iter().step_by(step).collect())
            }
            PathStep::Filter(filter) => {
                let mut selected = Vec::new();
                for item in items {
                    match (filter.matches(item, evaluation), evaluation) {
                        (Ok(true), _) => selected.push(item),
                        (Ok(false), _) | (Err(_), Evaluation::Lenient) => {}
                        (Err(error), Evaluation::Strict) => return Err(error),
                    }
                }
                Ok(selected)
            }
            _ => Ok(Vec::new()),
        }
    }
}

fn limit(found: &[&Value]) -> Result<(), EvaluationError> {
    if found.len() > MAX_VALUES {
        return Err(EvaluationError::TooMany);
    }
    Ok(())
}

/// Adds a value and all values below it.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) -> Result<(), EvaluationError> {
    limit(found)?;
    found.push(value);
    children(value).try_for_each(|child| descend(child, found))
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}
