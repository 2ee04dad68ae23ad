//! Label selectors.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer};

/// A `LabelSelector`. The empty one means every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<SelectorRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SelectorRequirement {
    label: Box<str>,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
    Exists,
    DoesNotExist,
    /// An operator that no validated object has: upstream refuses to use such a selector, here it means no object.
    Unknown(Box<str>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct RawSelectorFields {
    match_labels: BTreeMap<Box<str>, Box<str>>,
    match_expressions: Vec<SelectorExpression>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SelectorExpression {
    key: Box<str>,
    operator: Box<str>,
    values: Vec<Box<str>>,
}

// --- Selector ---

impl Selector {
    /// A selector that requires these label values, as Services and ReplicationControllers have it.
    pub fn from_labels(labels: &BTreeMap<Box<str>, Box<str>>) -> Self {
        let requirements = labels.iter().map(|(label, value)| SelectorRequirement {
            label: label.clone(),
            operator: Operator::In(vec![value.clone()]),
        });
        Selector {
            requirements: requirements.collect(),
        }
    }

    /// Whether labels are as asked.
    // upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go Matches
    pub fn matches(&self, labels: &BTreeMap<Box<str>, Box<str>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.label);
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::Unknown(_) => false,
            }
        })
    }

    /// Whether it has no requirements, and so matches every object.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl<'de> Deserialize<'de> for Selector {
    // upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = RawSelectorFields::deserialize(from)?;
        let mut selector = Selector::from_labels(&written.match_labels);
        for SelectorExpression {
            key,
            operator,
            values,
        } in written.match_expressions
        {
            let operator = match &*operator {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => Operator::Unknown(operator),
            };
            selector
                .requirements
                .push(SelectorRequirement { label: key, operator });
        }
        Ok(selector)
    }
}

/// As clients write it in a query and in `status.selector` of a scale.
impl fmt::Display for Selector {
    // upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go String
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, SelectorRequirement { label, operator }) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::In(values) if values.len() == 1 => write!(f, "{label}={}", values[0])?,
                Operator::In(values) => write!(f, "{label} in ({})", values.join(","))?,
                Operator::NotIn(values) => write!(f, "{label} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(label)?,
                Operator::DoesNotExist => write!(f, "!{label}")?,
                Operator::Unknown(operator) => write!(f, "{label} {operator}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_matches_labels() {
        let selector: Selector = serde_json::from_str(
            r#"{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"NotIn","values":["db"]},
                {"key":"old","operator":"DoesNotExist"},{"key":"zone","operator":"Exists"}]}"#,
        )
        .unwrap();
        let labels = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        assert!(selector.matches(&labels(&[("app", "web"), ("zone", "a")])));
        assert!(!selector.matches(&labels(&[("app", "web"), ("zone", "a"), ("tier", "db")])));
        assert!(!selector.matches(&labels(&[("app", "web"), ("zone", "a"), ("old", "")])));
        assert!(!selector.matches(&labels(&[("app", "web")])));
        assert!(Selector::default().matches(&labels(&[])));
        assert_eq!(selector.to_string(), "app=web,tier notin (db),!old,zone");
    }
}
