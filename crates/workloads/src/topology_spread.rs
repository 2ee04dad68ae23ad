//! How the pods of a group are spread.

use kubecontroller::selector::Selector;
use serde::Deserialize;

/// A topology spread constraint of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpreadConstraint {
    /// The largest difference between two domains.
    pub max_skew: i64,
    /// The label of nodes whose values are the domains.
    pub topology_key: Box<str>,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: Box<str>,
    /// Which pods count.
    pub label_selector: Option<Selector>,
    /// Labels whose values on the pod are added to the selector.
    pub match_label_keys: Vec<Box<str>>,
    /// The least number of domains.
    pub min_domains: Option<i64>,
    /// `Honor`, the default, or `Ignore`.
    pub node_affinity_policy: Option<Box<str>>,
    /// `Honor` or `Ignore`, the default.
    pub node_taints_policy: Option<Box<str>>,
}
