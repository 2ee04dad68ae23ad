//! `LabelSelector` as objects have it.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer};

use crate::{InvalidRequirement, Operator, Requirement, Selector};

/// A `LabelSelector` as objects have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Values that labels must have.
    pub match_labels: BTreeMap<String, String>,
    /// Other requirements.
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One of the expressions of a `LabelSelector` or of a node selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SelectorRequirement {
    /// The label, or the field.
    pub key: String,
    /// How it is compared, such as `In`.
    pub operator: String,
    /// What it is compared with.
    pub values: Vec<String>,
}

/// An object that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorError {
    /// A key or value is not valid, or there are too many or too few values.
    #[error(transparent)]
    Requirement(#[from] InvalidRequirement),
    /// No such operator.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
}

// --- LabelSelector ---

/// In the form of Go's `%v`, which upstream has in messages.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("&LabelSelector{MatchLabels:map[string]string{")?;
        for (label, value) in &self.match_labels {
            write!(f, "{label}: {value},")?;
        }
        f.write_str("},MatchExpressions:[]LabelSelectorRequirement{")?;
        for SelectorRequirement {
            key,
            operator,
            values,
        } in &self.match_expressions
        {
            let values = values.join(" ");
            write!(
                f,
                "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
            )?;
        }
        f.write_str("},}")
    }
}

/// What it means; everything if it is empty.
impl TryFrom<LabelSelector> for Selector {
    type Error = LabelSelectorError;

    fn try_from(selector: LabelSelector) -> Result<Self, LabelSelectorError> {
        let labels = selector.match_labels.into_iter();
        let labels = labels.map(|(key, value)| Requirement::try_new(key, Operator::Equals, vec![value]));
        let expressions = selector.match_expressions.into_iter().map(|expression| {
            let SelectorRequirement {
                key,
                operator,
                values,
            } = expression;
            match Operator::from_label_selector(&operator) {
                Some(operator) => Ok(Requirement::try_new(key, operator, values)?),
                None => Err(LabelSelectorError::Operator(operator)),
            }
        });
        let requirements = labels.map(|label| Ok(label?)).chain(expressions);
        Ok(Selector::new(
            requirements.collect::<Result<_, LabelSelectorError>>()?,
        ))
    }
}

/// From a `LabelSelector`. One that is not valid means no object: API servers refuse it.
impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let selector = LabelSelector::deserialize(from)?;
        Ok(selector.try_into().unwrap_or(Selector::NOTHING))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_selectors_like_go() {
        let text = r#"{"matchLabels":{"app":"a","b":"c"},"matchExpressions":[{"key":"k","operator":"In","values":["x","y"]}]}"#;
        let selector: LabelSelector = serde_json::from_str(text).unwrap();
        let message = "&LabelSelector{MatchLabels:map[string]string{app: a,b: c,},\
            MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}";
        assert_eq!(selector.to_string(), message);
    }
}
