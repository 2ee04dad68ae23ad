//! Which plugins a scheduler runs, and the weights of their scores.

use crate::{
    interner::Text,
    plugins::{PluginFactory, SchedulerPlugin, new_in_tree_registry},
};

/// The plugins for pods of one scheduler name.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The scheduler name.
    pub name: Text,
    /// The plugins in the order in which they run, with their weights.
    plugins: Vec<(PluginFactory, i64)>,
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
        let plugins = new_in_tree_registry().into_iter();
        Profile {
            name: DEFAULT.into(),
            plugins: plugins
                .map(|factory| {
                    let weight = factory.weight();
                    (factory, weight)
                })
                .collect(),
            percentage: 0,
        }
    }
}

impl Profile {
    /// The default plugins under another scheduler name.
    pub fn named(name: &str) -> Self {
        Profile {
            name: name.into(),
            ..Profile::default()
        }
    }

    /// Enables a plugin, after all others and with its default weight; a plugin of the same name is replaced where it is.
    /// Each scheduler calls `make` for an instance of its own.
    #[must_use]
    pub fn with_plugin<P: SchedulerPlugin>(mut self, make: impl Fn() -> P + Send + Sync + 'static) -> Self {
        let factory = PluginFactory::new(make);
        let weight = factory.weight();
        let known = self
            .plugins
            .iter_mut()
            .find(|(known, _)| known.name() == factory.name());
        match known {
            Some(known) => *known = (factory, weight),
            None => self.plugins.push((factory, weight)),
        }
        self
    }

    /// Disables a plugin.
    #[must_use]
    pub fn without(mut self, plugin: &str) -> Self {
        self.plugins.retain(|(known, _)| known.name() != plugin);
        self
    }

    /// Sets the weight of a plugin that is enabled.
    #[must_use]
    pub fn with_weight(mut self, plugin: &str, weight: i64) -> Self {
        for (known, known_weight) in &mut self.plugins {
            if known.name() == plugin {
                *known_weight = weight;
            }
        }
        self
    }

    /// Looks for this share of the nodes in percent; zero finds a share by the size of the cluster.
    #[must_use]
    pub fn percentage_of_nodes_to_score(mut self, percentage: i64) -> Self {
        self.percentage = percentage.clamp(0, 100);
        self
    }

    /// The names of the plugins, in the order in which they run.
    pub fn plugins(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|(factory, _)| factory.name())
    }

    /// The weight of a plugin; `None` if it is not enabled.
    pub fn weight(&self, plugin: &str) -> Option<i64> {
        let found = self.plugins.iter().find(|(known, _)| known.name() == plugin);
        found.map(|(_, weight)| *weight)
    }

    /// The factories of the plugins and the weights of their scores.
    pub(crate) fn factories(&self) -> impl Iterator<Item = (&PluginFactory, i64)> {
        self.plugins.iter().map(|(factory, weight)| (factory, *weight))
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

    #[test]
    fn plugins_are_disabled_and_weighed_by_name() {
        let profile = Profile::default()
            .without("ImageLocality")
            .with_weight("TaintToleration", 7);
        assert_eq!(profile.weight("ImageLocality"), None);
        assert_eq!(profile.weight("TaintToleration"), Some(7));
        assert_eq!(profile.weight("PodTopologySpread"), Some(2));
        assert_eq!(profile.weight("NodeResourcesFit"), Some(1));
    }
}
