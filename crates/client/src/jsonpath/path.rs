//! JSONPath evaluation.

use std::cmp::Ordering;

use serde_json::Value;

/// A path: a sequence of steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JsonPath {
    /// Whether the path starts at the root (`$`) instead of the current value.
    pub(super) is_rooted: bool,
    pub(super) steps: Vec<PathStep>,
}

/// A step from values to other values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    /// `.name`, `['a','b']`
    Fields(Vec<String>),
    /// `.*`, `[*]`
    Every,
    /// `..`
    Below,
    /// `[0]`, `[-1]`, `[0,2]`
    Items(Vec<i64>),
    /// `[1:3]`, `[::2]`
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        step: Option<i64>,
    },
    /// `[?(@.a=="b")]`
    Where(Box<PathFilter>),
}

/// A condition on list items.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PathFilter {
    pub(super) left: FilterOperand,
    /// `None` when the filter only requires that the operand exists.
    pub(super) test: Option<(FilterComparison, FilterOperand)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FilterOperand {
    JsonPath(JsonPath),
    Value(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterComparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

// --- JsonPath ---

impl JsonPath {
    /// Returns the values at the path, starting at `here`, in order.
    pub(crate) fn find<'a>(&self, root: &'a Value, here: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![if self.is_rooted { root } else { here }];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                step.walk(root, value, &mut next);
            }
            found = next;
        }
        found
    }

    /// Returns the first value at the path.
    pub(crate) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.find(object, object).into_iter().next()
    }
}

// --- PathStep ---

impl PathStep {
    fn walk<'a>(&self, root: &'a Value, value: &'a Value, next: &mut Vec<&'a Value>) {
        match self {
            Self::Fields(names) => next.extend(names.iter().filter_map(|name| value.get(name))),
            Self::Every => next.extend(children(value)),
            Self::Below => below(value, next),
            Self::Items(indices) => {
                let Some(items) = value.as_array() else { return };
                let at = |&index: &i64| items.get(position(index, items.len()));
                next.extend(indices.iter().filter_map(at));
            }
            Self::Slice { from, to, step } => {
                let Some(items) = value.as_array() else { return };
                let from = position(from.unwrap_or(0), items.len()).min(items.len());
                let to = to
                    .map_or(items.len(), |to| position(to, items.len()))
                    .min(items.len());
                let step = usize::try_from(step.unwrap_or(1)).unwrap_or(1).max(1);
                next.extend(items.get(from..to).unwrap_or_default().iter().step_by(step));
            }
            Self::Where(filter) => next.extend(children(value).filter(|item| filter.takes(root, item))),
        }
    }
}

/// Resolves an index, which counts from the end when it is negative.
fn position(index: i64, length: usize) -> usize {
    match usize::try_from(index) {
        Ok(index) => index,
        // An index before the first item selects nothing.
        Err(_) => length
            .checked_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX))
            .unwrap_or(usize::MAX),
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn below<'a>(value: &'a Value, next: &mut Vec<&'a Value>) {
    next.push(value);
    for child in children(value) {
        below(child, next);
    }
}

// --- PathFilter ---

impl PathFilter {
    fn takes(&self, root: &Value, item: &Value) -> bool {
        let Some((comparison, right)) = &self.test else {
            return self.left.value(root, item).is_some();
        };
        let (Some(left), Some(right)) = (self.left.value(root, item), right.value(root, item)) else {
            return false;
        };
        comparison.holds(left, right)
    }
}

// --- FilterOperand ---

impl FilterOperand {
    fn value<'a>(&'a self, root: &'a Value, item: &'a Value) -> Option<&'a Value> {
        match self {
            Self::JsonPath(path) => path.find(root, item).into_iter().next(),
            Self::Value(value) => Some(value),
        }
    }
}

// --- FilterComparison ---

impl FilterComparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (left, right) if left == right => Some(Ordering::Equal),
            _ => None,
        };
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::Unequal => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}
