//! Runs the plugins of a profile at their extension points.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    CandidateNode, CycleContext, ExtensionPoint, PluginId, PluginSet, PostFilterContext, PostFilterResult,
    PreFilterResult, PreScoreResult,
    dyn_plugin::{DynPlugin, DynPluginCycle, NeedsState},
    volume_binding::PodVolumes,
};
use crate::{
    cache::{NodeInfo, SchedulerCache},
    cluster_event::{ClusterEvent, ClusterEventKind},
    cycle::Nominator,
    interner::Text,
    object::Pod,
    profile::Profile,
    status::{FilterResult, Rejection, RejectionCode},
};

/// The frameworks of all profiles, by scheduler name.
// upstream: pkg/scheduler/profile/profile.go Map
#[derive(Debug, Default)]
pub(crate) struct Frameworks {
    by_scheduler: HashMap<Text, Framework>,
    names: Vec<&'static str>,
    registered: HashMap<ClusterEventKind, PluginSet>,
}

/// A profile with instances of its plugins.
// upstream: pkg/scheduler/framework/runtime/framework.go frameworkImpl
#[derive(Debug)]
pub(crate) struct Framework {
    /// The profile.
    pub profile: Profile,
    plugins: Vec<ProfilePlugin>,
}

#[derive(Debug)]
struct ProfilePlugin {
    id: PluginId,
    name: &'static str,
    weight: i64,
    plugin: Box<dyn DynPlugin>,
    // The extension points, looked up once.
    filters: bool,
    scores: bool,
    reserves: bool,
}

/// A scheduling cycle: the pod, the cluster, and the state of the plugins.
#[derive(Debug)]
pub(crate) struct SchedulingCycle<'c> {
    /// The pod and the cluster.
    pub context: CycleContext<'c>,
    framework: &'c Framework,
    /// Those whose filters run, in the order of the profile.
    filtering: Vec<RunningPlugin<'c>>,
    /// Those whose filters are skipped, but which keep state for `Score` or `Reserve`.
    skipped: Vec<RunningPlugin<'c>>,
}

#[derive(Debug)]
struct RunningPlugin<'c> {
    plugin: &'c ProfilePlugin,
    cycle: Box<dyn DynPluginCycle + 'c>,
}

/// The nodes that remain after `PreFilter`.
#[derive(Debug, Default)]
pub(crate) struct PreFilterNodes {
    /// Their names; `None` for all nodes.
    pub names: Option<Vec<Text>>,
    /// The plugins that limited the nodes.
    pub plugins: PluginSet,
}

impl Frameworks {
    /// Instantiates the plugins of all profiles.
    // upstream: pkg/scheduler/profile/profile.go NewMap
    pub(crate) fn new(profiles: Vec<Profile>) -> Self {
        let mut frameworks = Frameworks::default();
        for profile in profiles {
            let factories = profile.factories();
            let plugins = factories.map(|(factory, weight)| {
                let plugin = factory.instance();
                let points = plugin.extension_points();
                let id = frameworks.id(factory.name());
                for event in plugin.events_to_register() {
                    frameworks.registered.entry(*event).or_default().insert(id);
                }
                ProfilePlugin {
                    id,
                    name: factory.name(),
                    weight,
                    filters: points.contains(&ExtensionPoint::Filter),
                    scores: points.contains(&ExtensionPoint::Score),
                    reserves: points.contains(&ExtensionPoint::Reserve),
                    plugin,
                }
            });
            let plugins = plugins.collect();
            let name = profile.name.clone();
            frameworks
                .by_scheduler
                .insert(name, Framework { profile, plugins });
        }
        frameworks
    }

    /// The framework for pods of a scheduler name.
    pub(crate) fn get(&self, scheduler: &str) -> Option<&Framework> {
        self.by_scheduler.get(scheduler)
    }

    /// The plugins that register for an event: pods that only other plugins rejected are not checked.
    // upstream: pkg/scheduler/scheduler.go buildQueueingHintMap
    pub(crate) fn registered_for(&self, event: &ClusterEvent<'_>) -> PluginSet {
        self.registered.get(&event.kind()).copied().unwrap_or_default()
    }

    /// The name of a plugin.
    pub(crate) fn name(&self, plugin: PluginId) -> &'static str {
        self.names[plugin.index()]
    }

    /// The set of the plugins of these names.
    #[cfg(test)]
    pub(crate) fn set(&self, names: &[&str]) -> PluginSet {
        let indices = self.names.iter().enumerate();
        indices
            .filter(|(_, name)| names.contains(name))
            .map(|(index, _)| PluginId::new(index))
            .collect()
    }

    fn id(&mut self, name: &'static str) -> PluginId {
        let known = self.names.iter().position(|known| *known == name);
        PluginId::new(known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        }))
    }
}

impl Framework {
    /// The plugin that keeps a pod out of the active queue, if any.
    // upstream: pkg/scheduler/backend/queue/scheduling_queue.go runPreEnqueuePlugins
    pub(crate) fn gating_plugin(&self, pod: &Pod) -> Option<PluginId> {
        let mut plugins = self.with_point(ExtensionPoint::PreEnqueue);
        plugins
            .find(|plugin| !plugin.plugin.pre_enqueue(pod))
            .map(|plugin| plugin.id)
    }

    /// Whether an event may make a pod schedulable that a plugin rejected.
    pub(crate) fn queueing_hint(
        &self,
        plugin: PluginId,
        pod: &Pod,
        event: &ClusterEvent<'_>,
        cluster: &SchedulerCache,
    ) -> bool {
        let plugin = self.plugins.iter().find(|known| known.id == plugin);
        plugin.is_some_and(|plugin| plugin.plugin.queueing_hint(pod, event, cluster))
    }

    /// Runs the `PostFilter` plugins until one has a candidate.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunPostFilterPlugins
    pub(crate) fn run_post_filter_plugins(
        &self,
        context: &mut PostFilterContext<'_>,
    ) -> (PostFilterResult, Option<String>) {
        let mut last = PostFilterResult::Noop;
        let mut messages = Vec::new();
        for plugin in self.with_point(ExtensionPoint::PostFilter) {
            let (result, message) = plugin.plugin.post_filter(context);
            match result {
                PostFilterResult::Candidate(_) => return (result, message),
                PostFilterResult::NoCandidate => last = result,
                PostFilterResult::Noop => {}
            }
            messages.extend(message);
        }
        (last, (!messages.is_empty()).then(|| messages.join(", ")))
    }

    /// The names of plugins, sorted, in brackets.
    pub(crate) fn names(&self, plugins: PluginSet) -> String {
        let known = |id| self.plugins.iter().find(move |plugin| plugin.id == id);
        let mut names: Vec<_> = plugins.iter().filter_map(known).map(|known| known.name).collect();
        names.sort_unstable();
        format!("[{}]", names.join(" "))
    }

    fn with_point(&self, point: ExtensionPoint) -> impl Iterator<Item = &ProfilePlugin> {
        let plugins = self.plugins.iter();
        plugins.filter(move |plugin| plugin.plugin.extension_points().contains(&point))
    }
}

impl<'c> SchedulingCycle<'c> {
    /// Runs the `PreFilter` plugins.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunPreFilterPlugins
    pub(crate) fn begin(
        framework: &'c Framework,
        pod: &'c Pod,
        cluster: &'c SchedulerCache,
    ) -> (Self, Result<PreFilterNodes, Rejection>) {
        let mut cycle = SchedulingCycle {
            context: CycleContext { pod, cluster },
            framework,
            filtering: Vec::with_capacity(framework.plugins.len()),
            skipped: Vec::new(),
        };
        let nodes = cycle.run_pre_filter_plugins();
        (cycle, nodes)
    }

    fn run_pre_filter_plugins(&mut self) -> Result<PreFilterNodes, Rejection> {
        let mut nodes = PreFilterNodes::default();
        for plugin in &self.framework.plugins {
            if !plugin.filters && !plugin.reserves {
                continue;
            }
            let needs_state = if plugin.scores || plugin.reserves {
                NeedsState::ForScoreOrReserve
            } else {
                NeedsState::ForFilter
            };
            let begun = plugin.plugin.begin_cycle(&self.context, needs_state);
            let (result, cycle) = begun.map_err(|rejection| rejection.by(plugin.id))?;
            let running = cycle.map(|cycle| RunningPlugin { plugin, cycle });
            if plugin.filters && !matches!(result, PreFilterResult::Skip) {
                self.filtering.extend(running);
            } else {
                self.skipped.extend(running);
            }
            if let PreFilterResult::Only(names) = result {
                nodes.narrow(self.framework, plugin.id, names)?;
            }
        }
        Ok(nodes)
    }

    /// Runs the filters on a node, which may be a simulated one.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunFilterPlugins
    pub(crate) fn run_filter_plugins(&self, slot: usize, info: &NodeInfo) -> FilterResult {
        let Some(node) = CandidateNode::new(slot, info) else {
            return Err(Rejection::error("node not found".into()));
        };
        for running in &self.filtering {
            running
                .cycle
                .filter(&self.context, &node)
                .map_err(|rejection| rejection.by(running.plugin.id))?;
        }
        Ok(())
    }

    /// Runs the filters twice: with the nominated pods of the node added, and without them.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunFilterPluginsWithNominatedPods, addGENominatedPods
    pub(crate) fn run_filter_plugins_with_nominated_pods(
        &self,
        slot: usize,
        info: &NodeInfo,
        nominator: &Nominator,
    ) -> FilterResult {
        let pod = self.context.pod;
        let nominated = nominator.on(&info.name).iter();
        let mut nominated = nominated
            .filter(|other| other.priority() >= pod.priority() && other.uid != pod.uid)
            .peekable();
        if nominated.peek().is_some() {
            let mut info = info.clone();
            let mut simulation = self.clone_for_simulation();
            for pod in nominated {
                simulation.add_pod(slot, &mut info, pod);
            }
            simulation.run_filter_plugins(slot, &info)?;
        }
        self.run_filter_plugins(slot, info)
    }

    /// A copy whose filters are run after simulated adds and removes of pods on one node.
    // upstream: pkg/scheduler/framework/cycle_state.go Clone
    pub(crate) fn clone_for_simulation(&self) -> SchedulingCycle<'_> {
        let filtering = self.filtering.iter().map(|running| RunningPlugin {
            plugin: running.plugin,
            cycle: running.cycle.clone_for_simulation(),
        });
        SchedulingCycle {
            context: self.context,
            framework: self.framework,
            filtering: filtering.collect(),
            skipped: Vec::new(),
        }
    }

    /// Simulates that a pod is on the node.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunPreFilterExtensionAddPod
    pub(crate) fn add_pod(&mut self, slot: usize, info: &mut NodeInfo, added: &Arc<Pod>) {
        info.add(added.clone());
        if let Some(node) = CandidateNode::new(slot, info) {
            for running in &mut self.filtering {
                running.cycle.add_pod(&self.context, added, &node);
            }
        }
    }

    /// Simulates that a pod is not on the node any more.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunPreFilterExtensionRemovePod
    pub(crate) fn remove_pod(&mut self, slot: usize, info: &mut NodeInfo, removed: &Pod) {
        info.remove(&removed.uid);
        if let Some(node) = CandidateNode::new(slot, info) {
            for running in &mut self.filtering {
                running.cycle.remove_pod(&self.context, removed, &node);
            }
        }
    }

    /// Runs the score plugins; the weighted sum per node.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunPreScorePlugins, RunScorePlugins
    pub(crate) fn run_score_plugins(&mut self, slots: &[usize]) -> Vec<i64> {
        let context = self.context;
        let nodes = slots
            .iter()
            .filter_map(|slot| CandidateNode::new(*slot, context.cluster.info(*slot)));
        let nodes: Vec<_> = nodes.collect();
        let mut totals = vec![0; slots.len()];
        let mut scores = Vec::with_capacity(slots.len());
        let mut add = |plugin: &ProfilePlugin, scores: &[i64]| {
            let totals = totals.iter_mut().zip(scores);
            totals.for_each(|(total, score)| *total += plugin.weight * score);
        };
        for running in self.filtering.iter_mut().chain(&mut self.skipped) {
            if running.plugin.scores
                && running.cycle.score(&context, &nodes, &mut scores) == PreScoreResult::Score
            {
                add(running.plugin, &scores);
            }
        }
        for plugin in &self.framework.plugins {
            let has_state = plugin.filters || plugin.reserves;
            if plugin.scores
                && !has_state
                && plugin.plugin.score_only(&context, &nodes, &mut scores) == PreScoreResult::Score
            {
                add(plugin, &scores);
            }
        }
        totals
    }

    /// Runs the `Reserve` plugins: the volumes to bind or provision for the pod on a node.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunReservePluginsReserve
    pub(crate) fn run_reserve_plugins(&self, slot: usize) -> Result<PodVolumes, Rejection> {
        let mut volumes = PodVolumes::default();
        let Some(node) = CandidateNode::new(slot, self.context.cluster.info(slot)) else {
            return Ok(volumes);
        };
        for running in self.filtering.iter().chain(&self.skipped) {
            if running.plugin.reserves {
                let reserved = running.cycle.reserve(&self.context, &node, &mut volumes);
                reserved.map_err(|rejection| rejection.by(running.plugin.id))?;
            }
        }
        Ok(volumes)
    }

    /// Ends the cycle: the plugins take their state back.
    pub(crate) fn end(self) {
        for running in self.filtering.into_iter().chain(self.skipped) {
            running.cycle.end_cycle();
        }
    }
}

impl<'n> CandidateNode<'n> {
    /// The node in a slot of the cache; `None` if only its pods are known.
    pub(crate) fn new(slot: usize, info: &'n NodeInfo) -> Option<Self> {
        let node = info.node.as_deref()?;
        Some(CandidateNode { slot, info, node })
    }
}

impl PreFilterNodes {
    fn narrow(&mut self, framework: &Framework, plugin: PluginId, names: Vec<Text>) -> Result<(), Rejection> {
        self.plugins.insert(plugin);
        let left: Vec<_> = match self.names.take() {
            None => names,
            Some(known) => known.into_iter().filter(|name| names.contains(name)).collect(),
        };
        if left.is_empty() {
            let only_this = PluginSet::from_iter([plugin]);
            let all = framework.names(self.plugins);
            let reason = if self.plugins == only_this {
                let name = all.trim_matches(['[', ']']);
                format!("node(s) didn't satisfy plugin {name}")
            } else {
                format!("node(s) didn't satisfy plugin(s) {all} simultaneously")
            };
            let code = RejectionCode::UnschedulableAndUnresolvable;
            return Err(Rejection::many(code, [reason.into()]));
        }
        self.names = Some(left);
        Ok(())
    }
}
