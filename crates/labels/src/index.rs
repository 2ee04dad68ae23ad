//! Selectors with many requirements, by key: to match an object costs its labels, not the requirements.

use std::collections::{HashMap, HashSet};

use crate::{Labels, Operator, Requirement};

/// What is required of each key that a selector names.
#[derive(Debug, Default)]
pub(crate) struct KeyIndex {
    keys: HashMap<String, KeyCondition>,
    /// How many keys must be there.
    required: usize,
}

/// All requirements of one key.
#[derive(Debug, Default)]
struct KeyCondition {
    is_required: bool,
    is_forbidden: bool,
    /// The values of all `in` and `=` together.
    allowed: Option<HashSet<String>>,
    denied: HashSet<String>,
    above: Option<i64>,
    below: Option<i64>,
}

// --- KeyIndex ---

impl KeyIndex {
    pub(crate) fn new(requirements: &[Requirement]) -> Self {
        let mut keys: HashMap<String, KeyCondition> = HashMap::new();
        for requirement in requirements {
            keys.entry(requirement.key().to_owned())
                .or_default()
                .add(requirement);
        }
        let required = keys.values().filter(|condition| condition.is_required).count();
        KeyIndex { keys, required }
    }

    pub(crate) fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let mut found = 0;
        let mut is_match = true;
        labels.visit(&mut |key, value| {
            if is_match && let Some(condition) = self.keys.get(key) {
                is_match = condition.allows(value);
                found += usize::from(condition.is_required);
            }
        });
        is_match && found == self.required
    }
}

// --- KeyCondition ---

impl KeyCondition {
    fn add(&mut self, requirement: &Requirement) {
        let values = || requirement.values().iter().cloned();
        match requirement.operator() {
            Operator::Equals | Operator::DoubleEquals | Operator::In => {
                let values: HashSet<String> = values().collect();
                self.allowed = Some(match self.allowed.take() {
                    None => values,
                    Some(allowed) => allowed.intersection(&values).cloned().collect(),
                });
            }
            Operator::NotEquals | Operator::NotIn => self.denied.extend(values()),
            Operator::Exists => {}
            Operator::DoesNotExist => self.is_forbidden = true,
            Operator::GreaterThan => {
                self.above = self.above.max(requirement.bound());
            }
            Operator::LessThan => {
                self.below = self.below.into_iter().chain(requirement.bound()).min();
            }
        }
        self.is_required |= !matches!(
            requirement.operator(),
            Operator::NotEquals | Operator::NotIn | Operator::DoesNotExist
        );
    }

    fn allows(&self, value: &str) -> bool {
        let is_listed = self
            .allowed
            .as_ref()
            .is_none_or(|allowed| allowed.contains(value));
        !self.is_forbidden && is_listed && !self.denied.contains(value) && self.is_between(value)
    }

    fn is_between(&self, value: &str) -> bool {
        if self.above.is_none() && self.below.is_none() {
            return true;
        }
        let Ok(number) = value.parse::<i64>() else {
            return false;
        };
        self.above.is_none_or(|above| number > above) && self.below.is_none_or(|below| number < below)
    }
}
