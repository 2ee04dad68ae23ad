//! Selectors of labels, ready to be asked often.

use std::collections::BTreeMap;

use k3_workloads::{LabelSelector, SelectorRequirement};

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
    test: RequirementTest,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RequirementTest {
    In(Box<[Text]>),
    NotIn(Box<[Text]>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl Selector {
    /// The selector that all labels match.
    pub fn everything() -> Self {
        Selector::All(Box::new([]))
    }

    /// The selector of a field: without one, nothing is selected.
    pub fn read(raw: Option<&LabelSelector>, interner: &mut StringInterner) -> Self {
        let Some(raw) = raw else { return Selector::Nothing };
        let labels = Self::from_labels(&raw.match_labels, interner);
        let rules = raw
            .match_expressions
            .iter()
            .map(|rule| Requirement::read(rule, interner));
        match rules.collect() {
            Some(rules) => labels.and(rules),
            None => Selector::Nothing,
        }
    }

    /// The selector of exactly these labels.
    pub fn from_labels(labels: &BTreeMap<Box<str>, Box<str>>, interner: &mut StringInterner) -> Self {
        let pairs = labels.iter();
        Selector::All(
            pairs
                .map(|(key, value)| Requirement::equal(interner.text(key), interner.text(value)))
                .collect(),
        )
    }

    /// The rules of a node selector; `None` when one of them is not a rule.
    pub fn of_requirements(raw: &[SelectorRequirement], interner: &mut StringInterner) -> Option<Self> {
        raw.iter()
            .map(|rule| Requirement::read(rule, interner))
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
            test: RequirementTest::In(Box::new([value])),
        }
    }

    fn read(raw: &SelectorRequirement, interner: &mut StringInterner) -> Option<Self> {
        let mut values = || raw.values.iter().map(|value| interner.text(value)).collect();
        let number = || raw.values.first()?.parse().ok();
        let test = match &*raw.operator {
            "In" => RequirementTest::In(values()),
            "NotIn" => RequirementTest::NotIn(values()),
            "Exists" => RequirementTest::Exists,
            "DoesNotExist" => RequirementTest::Absent,
            "Gt" => RequirementTest::Above(number()?),
            "Lt" => RequirementTest::Below(number()?),
            _ => return None,
        };
        let key = interner.text(&raw.key);
        Some(Requirement { key, test })
    }

    fn holds(&self, value: Option<&Text>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            RequirementTest::In(values) => value.is_some_and(|value| values.contains(value)),
            RequirementTest::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            RequirementTest::Exists => value.is_some(),
            RequirementTest::Absent => value.is_none(),
            RequirementTest::Above(limit) => number().is_some_and(|number| number > *limit),
            RequirementTest::Below(limit) => number().is_some_and(|number| number < *limit),
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
            let raw = serde_json::from_value(json!({"matchExpressions": [rule]})).unwrap();
            let selector = Selector::read(Some(&raw), &mut interner);
            assert_eq!(selector.matches(&labels), holds, "{raw:?}");
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
