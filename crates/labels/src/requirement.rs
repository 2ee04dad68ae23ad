//! Requirements: what one label must be like.

use std::{
    cmp::Ordering,
    collections::HashSet,
    fmt,
    hash::{Hash, Hasher},
};

use crate::{
    Labels,
    key::{ErrorMessages, validate_label_key, validate_label_value},
};

/// What one label must be like.
#[derive(Clone, Debug)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// One for equality and order, none for existence, some for sets.
    values: Vec<String>,
    /// The first value as a number, for order.
    bound: Option<i64>,
    /// The values once more if they are many: each object is looked up among them.
    #[expect(
        clippy::box_collection,
        reason = "few requirements have it, and the others stay small"
    )]
    lookup: Option<Box<HashSet<String>>>,
}

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

/// What is wrong with a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequirementError {
    /// The key is not that of a label.
    Key(ErrorMessages),
    /// There are too many or too few values.
    ValueCount(&'static str),
    /// The value at this position is not a number.
    NotInteger(usize, &'static str),
    /// The value at this position is not that of a label.
    Value(usize, ErrorMessages),
}

/// A requirement that cannot be, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct InvalidRequirement {
    /// The key.
    pub key: String,
    /// The values.
    pub values: Vec<String>,
    /// What is wrong with them; at least one error.
    pub errors: Vec<RequirementError>,
}

/// From so many values on they are looked up rather than scanned.
const MANY_VALUES: usize = 16;

// --- Requirement ---

impl Requirement {
    /// A requirement, if key and values are valid and as many as the operator takes.
    pub fn try_new(
        key: impl Into<String>,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, InvalidRequirement> {
        let key = key.into();
        let mut errors = Vec::new();
        let messages = validate_label_key(&key);
        if !messages.is_empty() {
            errors.push(RequirementError::Key(messages));
        }
        errors.extend(
            operator
                .count_error(values.len())
                .map(RequirementError::ValueCount),
        );
        if operator.is_order() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            for (position, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    errors.push(RequirementError::NotInteger(position, detail));
                }
            }
        }
        for (position, value) in values.iter().enumerate() {
            let messages = validate_label_value(value);
            if !messages.is_empty() {
                errors.push(RequirementError::Value(position, messages));
            }
        }
        if !errors.is_empty() {
            return Err(InvalidRequirement { key, values, errors });
        }
        Ok(Requirement::from_valid(key, operator, values))
    }

    /// A requirement whose key and values are taken as valid.
    pub fn from_valid(key: impl Into<String>, operator: Operator, values: Vec<String>) -> Self {
        let lookup = (values.len() >= MANY_VALUES).then(|| Box::new(values.iter().cloned().collect()));
        Requirement {
            key: key.into(),
            operator,
            bound: values.first().and_then(|value| value.parse().ok()),
            values,
            lookup,
        }
    }

    /// The requirement that a label has a value, both taken as valid.
    pub fn equals(key: impl Into<String>, value: impl Into<String>) -> Self {
        Requirement::from_valid(key, Operator::Equals, vec![value.into()])
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

    /// The number it is compared with, for order; `None` is neither greater nor less than any.
    pub(crate) fn bound(&self) -> Option<i64> {
        self.bound
    }

    /// Whether the label is as it must be.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.matches_value(labels.get(&self.key))
    }

    /// Whether the label is as it must be if it has this value, or does not exist.
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(|v| self.has(v)),
            Operator::NotEquals | Operator::NotIn => value.is_none_or(|v| !self.has(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.order(value) == Some(Ordering::Greater),
            Operator::LessThan => self.order(value) == Some(Ordering::Less),
        }
    }

    fn has(&self, value: &str) -> bool {
        match &self.lookup {
            Some(lookup) => lookup.contains(value),
            None => self.values.iter().any(|v| v == value),
        }
    }

    fn order(&self, value: Option<&str>) -> Option<Ordering> {
        let number: i64 = value?.parse().ok()?;
        Some(number.cmp(&self.bound?))
    }
}

// Bound and lookup are functions of the values.
impl PartialEq for Requirement {
    fn eq(&self, other: &Self) -> bool {
        (&self.key, self.operator, &self.values) == (&other.key, other.operator, &other.values)
    }
}

impl Eq for Requirement {}

impl Hash for Requirement {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.key, self.operator, &self.values).hash(state);
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
    /// The operator with this name in a `LabelSelector`.
    // upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector
    pub fn from_label_selector(name: &str) -> Option<Self> {
        match name {
            "In" => Some(Operator::In),
            "NotIn" => Some(Operator::NotIn),
            "Exists" => Some(Operator::Exists),
            "DoesNotExist" => Some(Operator::DoesNotExist),
            _ => None,
        }
    }

    /// The operator with this name in a node selector, which may compare numbers.
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go nodeSelectorRequirementsAsSelector
    pub fn from_node_selector(name: &str) -> Option<Self> {
        match name {
            "Gt" => Some(Operator::GreaterThan),
            "Lt" => Some(Operator::LessThan),
            _ => Operator::from_label_selector(name),
        }
    }

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

    /// Whether it compares numbers.
    fn is_order(self) -> bool {
        matches!(self, Operator::GreaterThan | Operator::LessThan)
    }

    fn sign(self) -> &'static str {
        match self {
            Operator::GreaterThan => ">",
            Operator::LessThan => "<",
            _ => self.word(),
        }
    }

    fn count_error(self, count: usize) -> Option<&'static str> {
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

// --- InvalidRequirement ---

impl InvalidRequirement {
    fn message(&self) -> String {
        let messages = self.errors.iter().map(|error| match error {
            RequirementError::Key(messages) => format!("key {:?}: {}", self.key, messages.join("; ")),
            RequirementError::ValueCount(detail) => format!("values of {:?}: {detail}", self.key),
            RequirementError::NotInteger(position, detail) => {
                format!("value {:?} of {:?}: {detail}", self.values[*position], self.key)
            }
            RequirementError::Value(position, messages) => {
                let value = &self.values[*position];
                format!("value {value:?} of {:?}: {}", self.key, messages.join("; "))
            }
        });
        messages.collect::<Vec<_>>().join(", ")
    }
}
