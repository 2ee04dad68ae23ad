//! Selectors of labels with interned texts, ready to be asked often.
//!
//! They are made of [`kubecontroller::selector::Selector`], which reads and validates them, and match as it does: texts are equal if they are
//! one in the interner.

use std::collections::BTreeMap;

use kubecontroller::selector::{self, LabelSelector, LabelSelectorRequirement, Operator};

use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
};

/// What labels must be like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// No labels do.
    Nothing,
    /// All of these must hold; without any, all labels do.
    All(Box<[Requirement]>),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Text,
    operator: Operator,
    values: Box<[Text]>,
    /// The value as a number, for order.
    bound: i64,
}

impl Selector {
    /// The selector that all labels match.
    pub fn everything() -> Self {
        Selector::All(Box::new([]))
    }

    /// The selector of a field: without one, or with one that is not valid, nothing is selected.
    pub fn read(raw: Option<&LabelSelector>, interner: &mut StringInterner) -> Self {
        match raw.map(LabelSelector::to_selector) {
            Some(Ok(selector)) => {
                let requirements = selector.requirements().iter();
                Selector::All(
                    requirements
                        .map(|one| Requirement::intern(one, interner))
                        .collect(),
                )
            }
            Some(Err(_)) | None => Selector::Nothing,
        }
    }

    /// The selector of exactly these labels.
    pub fn from_labels(labels: &BTreeMap<String, String>, interner: &mut StringInterner) -> Self {
        let pairs = labels.iter();
        Selector::All(
            pairs
                .map(|(key, value)| Requirement::equal(interner.text(key), interner.text(value)))
                .collect(),
        )
    }

    /// The rules of a node selector; `None` when one of them is not a rule.
    pub fn of_requirements(raw: &[LabelSelectorRequirement], interner: &mut StringInterner) -> Option<Self> {
        raw.iter()
            .map(|rule| Some(Requirement::intern(&rule.to_node_requirement()?, interner)))
            .collect::<Option<_>>()
            .map(Selector::All)
    }

    /// This and more rules.
    #[must_use]
    pub fn and(self, more: Vec<Requirement>) -> Self {
        match self {
            Selector::Nothing => Selector::Nothing,
            Selector::All(rules) => Selector::All(rules.into_iter().chain(more).collect()),
        }
    }

    /// The rules, if any labels can match.
    pub fn rules(&self) -> Option<&[Requirement]> {
        match self {
            Selector::Nothing => None,
            Selector::All(rules) => Some(rules),
        }
    }

    /// Whether it has no requirements and selects everything.
    pub fn is_empty(&self) -> bool {
        matches!(self, Selector::All(rules) if rules.is_empty())
    }

    /// Whether these labels are selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Selector::Nothing => false,
            Selector::All(rules) => rules.iter().all(|rule| rule.holds(labels.get(&rule.key))),
        }
    }
}

impl Requirement {
    /// A label must have this value.
    pub fn equal(key: Text, value: Text) -> Self {
        Requirement {
            key,
            operator: Operator::Equals,
            values: Box::new([value]),
            bound: 0,
        }
    }

    fn intern(requirement: &selector::Requirement, interner: &mut StringInterner) -> Self {
        let values = requirement.values().iter();
        Requirement {
            key: interner.text(requirement.key()),
            values: values.map(|value| interner.text(value)).collect(),
            operator: requirement.operator(),
            bound: requirement.bound(),
        }
    }

    fn holds(&self, value: Option<&Text>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => {
                value.is_some_and(|value| self.values.contains(value))
            }
            Operator::NotEquals | Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => number().is_some_and(|number| number > self.bound),
            Operator::LessThan => number().is_some_and(|number| number < self.bound),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn evaluates_each_operator() {
        let mut interner = StringInterner::default();
        let labels = Labels::read([("app", "web"), ("size", "7")], &mut interner);
        for (rule, holds) in [
            (
                json!({"key": "app", "operator": "In", "values": ["db", "web"]}),
                true,
            ),
            (json!({"key": "app", "operator": "In", "values": ["db"]}), false),
            (json!({"key": "none", "operator": "In", "values": ["web"]}), false),
            (
                json!({"key": "app", "operator": "NotIn", "values": ["web"]}),
                false,
            ),
            (
                json!({"key": "none", "operator": "NotIn", "values": ["web"]}),
                true,
            ),
            (json!({"key": "app", "operator": "Exists"}), true),
            (json!({"key": "app", "operator": "DoesNotExist"}), false),
            (json!({"key": "none", "operator": "DoesNotExist"}), true),
            (json!({"key": "size", "operator": "Gt", "values": ["6"]}), true),
            (json!({"key": "size", "operator": "Gt", "values": ["7"]}), false),
            (json!({"key": "size", "operator": "Lt", "values": ["8"]}), true),
            (json!({"key": "app", "operator": "Lt", "values": ["8"]}), false),
            (json!({"key": "app", "operator": "Gt", "values": ["x"]}), false),
            (json!({"key": "app", "operator": "Like"}), false),
        ] {
            let raw: LabelSelectorRequirement = serde_json::from_value(rule).unwrap();
            let interned = Selector::of_requirements(std::slice::from_ref(&raw), &mut interner);
            assert_eq!(interned.is_some_and(|one| one.matches(&labels)), holds, "{raw:?}");
            // What is interned matches as what it is made of does.
            let plain = BTreeMap::from([("app", "web"), ("size", "7")]);
            let requirement = raw.to_node_requirement();
            assert_eq!(
                requirement.is_some_and(|one| one.matches(&plain)),
                holds,
                "{raw:?}"
            );
        }
    }

    #[test]
    fn no_selector_selects_nothing_and_an_empty_one_everything() {
        let mut interner = StringInterner::default();
        assert!(!Selector::read(None, &mut interner).matches(&Labels::default()));
        let empty = Selector::read(Some(&LabelSelector::default()), &mut interner);
        assert!(empty.is_empty() && empty.matches(&Labels::default()));
    }
}
