//! `LabelSelector` as objects have it.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::{InvalidRequirement, Operator, Requirement, Selector};

/// A `LabelSelector` as objects have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Values that labels must have.
    pub match_labels: BTreeMap<String, String>,
    /// Other requirements.
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One of the expressions of a `LabelSelector` or of a node selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LabelSelectorRequirement {
    /// The label.
    pub key: String,
    /// How it is compared.
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

impl LabelSelector {
    /// What it means; everything if it is empty.
    pub fn to_selector(&self) -> Result<Selector, LabelSelectorError> {
        let mut requirements = Vec::with_capacity(self.match_labels.len() + self.match_expressions.len());
        for (key, value) in &self.match_labels {
            requirements.push(Requirement::try_new(key, Operator::Equals, vec![value.clone()])?);
        }
        for expression in &self.match_expressions {
            let operator = Operator::from_name(&expression.operator).filter(|operator| !operator.is_order());
            let operator =
                operator.ok_or_else(|| LabelSelectorError::Operator(expression.operator.clone()))?;
            requirements.push(Requirement::try_new(
                &expression.key,
                operator,
                expression.values.clone(),
            )?);
        }
        Ok(Selector::new(requirements))
    }
}

// --- LabelSelectorRequirement ---

impl LabelSelectorRequirement {
    /// What it means in a node selector, which may compare numbers; `None` if it is not valid.
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go nodeSelectorRequirementsAsSelector
    pub fn to_node_requirement(&self) -> Option<Requirement> {
        let operator = Operator::from_name(&self.operator)?;
        Requirement::try_new(&self.key, operator, self.values.clone()).ok()
    }
}

/// From a `LabelSelector`. One that is not valid means no object: API servers refuse it.
impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let selector = LabelSelector::deserialize(from)?;
        Ok(selector.to_selector().unwrap_or(Selector::NOTHING))
    }
}
