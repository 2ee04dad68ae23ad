//! Plugins without their types, as the framework calls them.
//!
//! [`SchedulerPlugin`] has a state type and so cannot be a trait object itself. The two traits here can: [`DynPlugin`] is a
//! plugin, [`DynPluginCycle`] a plugin together with its state in one scheduling cycle. `filter` is one indirect call per
//! plugin and node; scoring is one indirect call per plugin, with a statically dispatched loop over the nodes. A state is
//! boxed at most once per pod, and not at all if the plugin is skipped.

// upstream: pkg/scheduler/framework/runtime/framework.go runFilterPlugin, runScorePlugin; Go's interfaces need no such erasure

use std::fmt::Debug;

use super::{
    CandidateNode, CycleContext, ExtensionPoint, PostFilterContext, PostFilterResult, PreFilterResult,
    PreScoreResult, SchedulerPlugin, volume_binding::PodVolumes,
};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    object::Pod,
    status::{FilterResult, Rejection},
};

/// A [`SchedulerPlugin`] as a trait object.
pub(crate) trait DynPlugin: Debug + Send + Sync {
    fn extension_points(&self) -> &'static [ExtensionPoint];
    fn events_to_register(&self) -> &'static [ClusterEventKind];
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, cluster: &SchedulerCache) -> bool;
    fn pre_enqueue(&self, pod: &Pod) -> bool;
    fn post_filter(&self, context: &mut PostFilterContext<'_>) -> (PostFilterResult, Option<String>);

    /// Runs `pre_filter` on a new state. The state is dropped if the filter is skipped, unless another extension point
    /// `needs_state`.
    fn begin_cycle(&self, cycle: &CycleContext<'_>, needs_state: NeedsState) -> BegunCycle<'_>;

    /// Scores with a new state; for plugins without another extension point that has a state.
    fn score_only(
        &self,
        cycle: &CycleContext<'_>,
        nodes: &[CandidateNode<'_>],
        scores: &mut Vec<i64>,
    ) -> PreScoreResult;
}

/// Whether a state is needed after `pre_filter` skipped the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeedsState {
    ForFilter,
    ForScoreOrReserve,
}

/// Result of `pre_filter`, with the plugin's state unless it is not needed.
pub(crate) type BegunCycle<'p> = Result<(PreFilterResult, Option<Box<dyn DynPluginCycle + 'p>>), Rejection>;

/// A plugin and its state in one scheduling cycle. The methods are those of [`SchedulerPlugin`].
pub(crate) trait DynPluginCycle: Debug {
    fn filter(&self, cycle: &CycleContext<'_>, node: &CandidateNode<'_>) -> FilterResult;
    fn add_pod(&mut self, cycle: &CycleContext<'_>, added: &Pod, node: &CandidateNode<'_>);
    fn remove_pod(&mut self, cycle: &CycleContext<'_>, removed: &Pod, node: &CandidateNode<'_>);
    fn reserve(
        &self,
        cycle: &CycleContext<'_>,
        node: &CandidateNode<'_>,
        volumes: &mut PodVolumes,
    ) -> Result<(), Rejection>;

    /// Runs `pre_score`, then scores all nodes into `scores` and normalizes the scores.
    fn score(
        &mut self,
        cycle: &CycleContext<'_>,
        nodes: &[CandidateNode<'_>],
        scores: &mut Vec<i64>,
    ) -> PreScoreResult;

    /// A copy for a simulation.
    fn clone_for_simulation<'s>(&'s self) -> Box<dyn DynPluginCycle + 's>;

    fn end_cycle(self: Box<Self>);
}

#[derive(Debug)]
struct PluginCycle<'p, P: SchedulerPlugin> {
    plugin: &'p P,
    state: P::State,
}

impl<P: SchedulerPlugin> DynPlugin for P {
    fn extension_points(&self) -> &'static [ExtensionPoint] {
        SchedulerPlugin::extension_points(self)
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        SchedulerPlugin::events_to_register(self)
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, cluster: &SchedulerCache) -> bool {
        SchedulerPlugin::queueing_hint(self, pod, event, cluster)
    }

    fn pre_enqueue(&self, pod: &Pod) -> bool {
        SchedulerPlugin::pre_enqueue(self, pod)
    }

    fn post_filter(&self, context: &mut PostFilterContext<'_>) -> (PostFilterResult, Option<String>) {
        SchedulerPlugin::post_filter(self, context)
    }

    fn begin_cycle(&self, cycle: &CycleContext<'_>, needs_state: NeedsState) -> BegunCycle<'_> {
        let mut state = P::State::default();
        let result = self.pre_filter(cycle, &mut state);
        let skipped = matches!(result, Ok(PreFilterResult::Skip)) && needs_state == NeedsState::ForFilter;
        if skipped || result.is_err() {
            SchedulerPlugin::end_cycle(self, state);
            return result.map(|result| (result, None));
        }
        let cycle: Box<dyn DynPluginCycle> = Box::new(PluginCycle { plugin: self, state });
        result.map(|result| (result, Some(cycle)))
    }

    fn score_only(
        &self,
        cycle: &CycleContext<'_>,
        nodes: &[CandidateNode<'_>],
        scores: &mut Vec<i64>,
    ) -> PreScoreResult {
        let state = P::State::default();
        let mut plugin = PluginCycle { plugin: self, state };
        let result = plugin.score(cycle, nodes, scores);
        SchedulerPlugin::end_cycle(self, plugin.state);
        result
    }
}

impl<P: SchedulerPlugin> DynPluginCycle for PluginCycle<'_, P> {
    fn filter(&self, cycle: &CycleContext<'_>, node: &CandidateNode<'_>) -> FilterResult {
        self.plugin.filter(cycle, &self.state, node)
    }

    fn add_pod(&mut self, cycle: &CycleContext<'_>, added: &Pod, node: &CandidateNode<'_>) {
        self.plugin.add_pod(cycle, &mut self.state, added, node);
    }

    fn remove_pod(&mut self, cycle: &CycleContext<'_>, removed: &Pod, node: &CandidateNode<'_>) {
        self.plugin.remove_pod(cycle, &mut self.state, removed, node);
    }

    fn reserve(
        &self,
        cycle: &CycleContext<'_>,
        node: &CandidateNode<'_>,
        volumes: &mut PodVolumes,
    ) -> Result<(), Rejection> {
        self.plugin.reserve(cycle, &self.state, node, volumes)
    }

    fn score(
        &mut self,
        cycle: &CycleContext<'_>,
        nodes: &[CandidateNode<'_>],
        scores: &mut Vec<i64>,
    ) -> PreScoreResult {
        let result = self.plugin.pre_score(cycle, &mut self.state, nodes);
        if result == PreScoreResult::Score {
            scores.clear();
            scores.extend(
                nodes
                    .iter()
                    .map(|node| self.plugin.score(cycle, &self.state, node)),
            );
            self.plugin.normalize_score(&self.state, nodes, scores);
        }
        result
    }

    fn clone_for_simulation<'s>(&'s self) -> Box<dyn DynPluginCycle + 's> {
        Box::new(PluginCycle {
            plugin: self.plugin,
            state: self.state.clone(),
        })
    }

    fn end_cycle(self: Box<Self>) {
        self.plugin.end_cycle(self.state);
    }
}
