//! Label selectors: `app=web,tier in (a,b),!canary`.
//!
//! Promises: texts are read, refused and written as clients of the API know it; matching allocates nothing.

// upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go Selector, Requirement, NewRequirement, Matches

mod index;
mod lexer;
mod object;
mod parser;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
};

use serde_json::{Map, Value};

use self::index::KeyIndex;
pub use self::{
    object::{FromObjectError, InvalidValues, UnknownOperators, validate, validate_requirement},
    parser::ParseError,
};
use crate::{
    field::{self, Error, Path},
    name,
};

/// Labels, however they are kept.
pub trait Labels {
    /// The value of a label.
    fn get(&self, key: &str) -> Option<&str>;

    /// Calls `see` with each label.
    fn visit(&self, see: &mut dyn FnMut(&str, &str));
}

/// What labels must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// `None` if nothing is meant at all. Sorted by key.
    requirements: Option<Vec<Requirement>>,
    /// The requirements once more if they are many: a list matches each of thousands of objects.
    index: Option<Arc<KeyIndex>>,
}

/// What one label must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// One for equality and order, none for existence, some for sets.
    values: Vec<String>,
    /// The value as a number, for order.
    bound: i64,
    /// The values once more if they are many: each object is looked up among them.
    lookup: HashSet<String>,
}

/// From so many requirements on they are looked up rather than scanned.
const MANY_REQUIREMENTS: usize = 16;

/// From so many values on they are looked up rather than scanned.
const MANY_VALUES: usize = 16;

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`; also true if there is no such label.
    NotEquals,
    /// `in`
    In,
    /// `notin`; also true if there is no such label.
    NotIn,
    /// The key alone.
    Exists,
    /// `!` before the key.
    DoesNotExist,
    /// `>`
    GreaterThan,
    /// `<`
    LessThan,
}

// --- Labels ---

impl Labels for Map<String, Value> {
    fn get(&self, key: &str) -> Option<&str> {
        Map::get(self, key)?.as_str()
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        for (key, value) in self {
            if let Some(value) = value.as_str() {
                see(key, value);
            }
        }
    }
}

impl Labels for BTreeMap<String, String> {
    fn get(&self, key: &str) -> Option<&str> {
        BTreeMap::get(self, key).map(String::as_str)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        for (key, value) in self {
            see(key, value);
        }
    }
}

impl<L: Labels> Labels for Option<L> {
    fn get(&self, key: &str) -> Option<&str> {
        self.as_ref()?.get(key)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        if let Some(labels) = self {
            labels.visit(see);
        }
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn get(&self, key: &str) -> Option<&str> {
        (**self).get(key)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        (**self).visit(see);
    }
}

// --- Selector ---

impl Selector {
    /// All objects, also those without labels.
    pub const EVERYTHING: Selector = Selector {
        requirements: Some(Vec::new()),
        index: None,
    };

    /// No object.
    pub const NOTHING: Selector = Selector {
        requirements: None,
        index: None,
    };

    /// All of these at once.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        let index = (requirements.len() >= MANY_REQUIREMENTS).then(|| Arc::new(KeyIndex::new(&requirements)));
        Selector {
            requirements: Some(requirements),
            index,
        }
    }

    /// Reads a selector. Errors name no location; see [`Selector::parse_at`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_at(text, &Path::NIL)
    }

    /// Reads a selector that stands in a field.
    pub fn parse_at(text: &str, at: &Path<'_>) -> Result<Self, ParseError> {
        parser::parse(text, at).map(Self::new)
    }

    /// Whether labels are as they must be.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        if let Some(index) = &self.index {
            return index.matches(labels);
        }
        self.requirements
            .as_ref()
            .is_some_and(|all| all.iter().all(|one| one.matches(labels)))
    }

    /// Whether every object is meant.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// What is asked for, by key; empty if nothing is meant.
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// The one value a label must have, if it must have one: an index by that label then finds all objects.
    pub fn exact(&self, key: &str) -> Option<&str> {
        let one = self.requirements().iter().find(|one| one.key == key)?;
        match (one.operator, one.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

/// The one text for a selector: requirements by key, values of sets sorted.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, one) in self.requirements().iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            one.fmt(f)?;
        }
        Ok(())
    }
}

// --- Requirement ---

impl Requirement {
    /// A requirement, if key and values are valid and as many as the operator takes.
    pub fn try_new(
        key: impl Into<String>,
        operator: Operator,
        values: Vec<String>,
        at: &Path<'_>,
    ) -> Result<Self, Vec<Error>> {
        let key = key.into();
        let mut errors = Vec::new();
        let faults = name::validate_label_key(&key);
        if !faults.is_empty() {
            errors.push(Error::invalid(&at.child("key"), &key, faults.join("; ")));
        }
        let values_at = at.child("values");
        if let Some(detail) = operator.miscounted(values.len()) {
            errors.push(Error::invalid(&values_at, Value::from(values.clone()), detail));
        }
        let mut bound = 0;
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (i, value) in values.iter().enumerate() {
                if let Ok(number) = value.parse() {
                    bound = number;
                } else {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(Error::invalid(&values_at.index(i), value, detail));
                }
            }
        }
        for (i, value) in values.iter().enumerate() {
            let faults = name::validate_label_value(value);
            if !faults.is_empty() {
                errors.push(Error::invalid(
                    &values_at.index(i).key(&key),
                    value,
                    faults.join("; "),
                ));
            }
        }
        if errors.is_empty() {
            let lookup = if values.len() >= MANY_VALUES {
                values.iter().cloned().collect()
            } else {
                HashSet::new()
            };
            Ok(Requirement {
                key,
                operator,
                values,
                bound,
                lookup,
            })
        } else {
            Err(errors)
        }
    }

    /// The label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How it is compared.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// What it is compared with.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether the label is as it must be.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let found = labels.get(&self.key);
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => found.is_some_and(|v| self.has(v)),
            Operator::NotEquals | Operator::NotIn => found.is_none_or(|v| !self.has(v)),
            Operator::Exists => found.is_some(),
            Operator::DoesNotExist => found.is_none(),
            Operator::GreaterThan => self.order(found) == Some(Ordering::Greater),
            Operator::LessThan => self.order(found) == Some(Ordering::Less),
        }
    }

    fn has(&self, value: &str) -> bool {
        if self.lookup.is_empty() {
            return self.values.iter().any(|v| v == value);
        }
        self.lookup.contains(value)
    }

    fn order(&self, found: Option<&str>) -> Option<Ordering> {
        let number: i64 = found?.parse().ok()?;
        Some(number.cmp(&self.bound))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<_> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::In | Operator::NotIn => write!(f, "{key} {} ({values})", self.operator.word()),
            _ => write!(f, "{key}{}{values}", self.operator.sign()),
        }
    }
}

// --- Operator ---

impl Operator {
    /// As errors list it.
    pub fn word(self) -> &'static str {
        match self {
            Operator::Equals => "=",
            Operator::DoubleEquals => "==",
            Operator::NotEquals => "!=",
            Operator::In => "in",
            Operator::NotIn => "notin",
            Operator::Exists => "exists",
            Operator::DoesNotExist => "!",
            Operator::GreaterThan => "gt",
            Operator::LessThan => "lt",
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Operator::GreaterThan => ">",
            Operator::LessThan => "<",
            _ => self.word(),
        }
    }

    fn miscounted(self, count: usize) -> Option<&'static str> {
        let (fits, detail) = match self {
            Operator::In | Operator::NotIn => (
                count > 0,
                "for 'in', 'notin' operators, values set can't be empty",
            ),
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
                (count == 1, "exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist => (
                count == 0,
                "values set must be empty for exists and does not exist",
            ),
            Operator::GreaterThan | Operator::LessThan => (
                count == 1,
                "for 'Gt', 'Lt' operators, exactly one value is required",
            ),
        };
        (!fits).then_some(detail)
    }
}

/// The text of the errors of one requirement.
fn joined(errors: &[Error]) -> String {
    field::aggregate(errors).unwrap_or_default()
}

#[cfg(test)]
mod tests;
