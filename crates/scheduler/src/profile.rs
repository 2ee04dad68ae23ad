//! Which rules a scheduler asks, and how much each weighs.

use crate::{
    interner::Text,
    plugins::{Plugin, PluginSet},
};

/// The rules of one scheduler name.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name that pods ask for.
    pub name: Text,
    plugins: PluginSet,
    weights: Vec<(Plugin, i64)>,
    percentage: i64,
}

/// Below this many nodes all are looked at.
const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;
/// The least share of nodes that is looked at.
const MIN_FEASIBLE_NODES_PERCENTAGE_TO_FIND: usize = 5;

/// The name of the scheduler that pods get when they ask for none.
pub const DEFAULT: &str = "default-scheduler";

impl Default for Profile {
    fn default() -> Self {
        Profile {
            name: DEFAULT.into(),
            plugins: PluginSet::all(),
            weights: vec![
                (Plugin::TaintToleration, 3),
                (Plugin::NodeAffinity, 2),
                (Plugin::PodTopologySpread, 2),
                (Plugin::InterPodAffinity, 2),
            ],
            percentage: 0,
        }
    }
}

impl Profile {
    /// The usual rules under another name.
    pub fn named(name: &str) -> Self {
        Profile {
            name: name.into(),
            ..Profile::default()
        }
    }

    /// Without a rule.
    #[must_use]
    pub fn without(mut self, plugin: Plugin) -> Self {
        self.plugins.remove(plugin);
        self
    }

    /// With another weight for a rule.
    #[must_use]
    pub fn with_weight(mut self, plugin: Plugin, weight: i64) -> Self {
        self.weights.retain(|(known, _)| *known != plugin);
        self.weights.push((plugin, weight));
        self
    }

    /// Looks for this share of the nodes in percent; zero finds a share by the size of the cluster.
    #[must_use]
    pub fn percentage_of_nodes_to_score(mut self, percentage: i64) -> Self {
        self.percentage = percentage.clamp(0, 100);
        self
    }

    /// The rules.
    pub fn plugins(&self) -> PluginSet {
        self.plugins
    }

    /// How much a rule weighs.
    pub fn weight(&self, plugin: Plugin) -> i64 {
        self.weights
            .iter()
            .find(|(known, _)| *known == plugin)
            .map_or(1, |(_, weight)| *weight)
    }

    /// How many nodes that do are enough.
    // upstream: pkg/scheduler/schedule_one.go numFeasibleNodesToFind
    pub fn num_feasible_nodes_to_find(&self, nodes: usize) -> usize {
        if nodes < MIN_FEASIBLE_NODES_TO_FIND {
            return nodes;
        }
        let asked = usize::try_from(self.percentage).unwrap_or(0);
        let percentage = if asked == 0 {
            50_usize
                .saturating_sub(nodes / 125)
                .max(MIN_FEASIBLE_NODES_PERCENTAGE_TO_FIND)
        } else {
            asked
        };
        (nodes * percentage / 100).max(MIN_FEASIBLE_NODES_TO_FIND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_clusters_are_not_searched_to_the_end() {
        let profile = Profile::default();
        for (nodes, enough) in [
            (0, 0),
            (99, 99),
            (100, 100),
            (250, 120),
            (1000, 420),
            (5000, 500),
            (20_000, 1000),
        ] {
            assert_eq!(profile.num_feasible_nodes_to_find(nodes), enough, "{nodes}");
        }
        assert_eq!(
            profile
                .percentage_of_nodes_to_score(50)
                .num_feasible_nodes_to_find(5000),
            2500
        );
    }
}
