//! Label selectors as objects carry them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A label selector as it is written in an object. The empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have these values.
    pub match_labels: BTreeMap<Box<str>, Box<str>>,
    /// Further requirements.
    pub match_expressions: Vec<SelectorRequirement>,
}

/// A requirement of a label selector or a node selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct SelectorRequirement {
    /// The label, or the field.
    pub key: Box<str>,
    /// How its value is compared, such as `In`.
    pub operator: Box<str>,
    /// The values that it is compared with.
    pub values: Vec<Box<str>>,
}
