//! [`SchedulerPlugin`], the interface of a plugin, and the types of its extension points.

use std::fmt::Debug;

use super::{framework::SchedulingCycle, volume_binding::PodVolumes};
use crate::{
    cache::{NodeInfo, SchedulerCache},
    cluster_event::{ClusterEvent, ClusterEventKind},
    cycle::Nominator,
    interner::Text,
    object::{Node, Pod},
    rng::Rng,
    status::{Diagnosis, FilterResult, Rejection},
};
use std::sync::Arc;

/// A scheduler plugin. A profile has one instance of each of its plugins.
///
/// Only [`name`](Self::name) and [`extension_points`](Self::extension_points) are required; every other method belongs to an
/// extension point and is called only if the plugin lists that point. A plugin from outside of this crate is enabled by
/// [`Profile::with_plugin`](crate::Profile::with_plugin):
///
/// ```
/// use k3_scheduler::{
///     CandidateNode, CycleContext, ExtensionPoint, FilterResult, Profile, Rejection, SchedulerPlugin,
/// };
///
/// /// Keeps pods off nodes without the label `example.com/ready`.
/// #[derive(Debug)]
/// struct ReadyLabel;
///
/// impl SchedulerPlugin for ReadyLabel {
///     type State = ();
///
///     fn name(&self) -> &'static str {
///         "ReadyLabel"
///     }
///
///     fn extension_points(&self) -> &'static [ExtensionPoint] {
///         &[ExtensionPoint::Filter]
///     }
///
///     fn filter(&self, _: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> FilterResult {
///         match node.node.labels.get("example.com/ready") {
///             Some(_) => Ok(()),
///             None => Err(Rejection::unresolvable("node(s) were not labelled as ready")),
///         }
///     }
/// }
///
/// let profile = Profile::default().with_plugin(|| ReadyLabel);
/// assert!(profile.plugins().any(|name| name == "ReadyLabel"));
/// ```
// upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go Plugin, PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, EnqueueExtensions
pub trait SchedulerPlugin: Debug + Send + Sync + 'static {
    /// What the plugin keeps during one scheduling cycle: upstream's entries of `CycleState`, but typed. Each cycle begins
    /// with the default. It is cloned for each simulated node, so large parts belong into an `Arc`.
    type State: Clone + Debug + Default;

    /// The name, unique in its profile. It appears in messages and in [`Profile::without`](crate::Profile::without).
    fn name(&self) -> &'static str;

    /// The extension points that the plugin implements. The methods of all other points are not called.
    fn extension_points(&self) -> &'static [ExtensionPoint];

    /// The weight of the scores in a profile that sets none.
    fn weight(&self) -> i64 {
        1
    }

    /// The events that may make a pod schedulable which the plugin rejected. Updates of the pod itself always count.
    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[]
    }

    /// The queueing hint: whether a registered event, or an update of the pod itself, is a reason to try a rejected pod again.
    // upstream: staging/src/k8s.io/kube-scheduler/framework/types.go QueueingHintFn
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, cluster: &SchedulerCache) -> bool {
        let _ = (pod, event, cluster);
        true
    }

    /// Whether a pod may enter the active queue; at [`ExtensionPoint::PreEnqueue`].
    fn pre_enqueue(&self, pod: &Pod) -> bool {
        let _ = pod;
        true
    }

    /// Prepares the state of a cycle, once per pod; at [`ExtensionPoint::Filter`] and [`ExtensionPoint::Reserve`].
    fn pre_filter(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut Self::State,
    ) -> Result<PreFilterResult, Rejection> {
        let _ = (cycle, state);
        Ok(PreFilterResult::All)
    }

    /// Whether a node suits the pod; at [`ExtensionPoint::Filter`]. This is the hot path: up to all nodes for every pod.
    fn filter(
        &self,
        cycle: &CycleContext<'_>,
        state: &Self::State,
        node: &CandidateNode<'_>,
    ) -> FilterResult {
        let _ = (cycle, state, node);
        Ok(())
    }

    /// Applies a simulated add of another pod to the state of `node`; at [`ExtensionPoint::Filter`].
    // upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go PreFilterExtensions
    fn add_pod(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut Self::State,
        added: &Pod,
        node: &CandidateNode<'_>,
    ) {
        let _ = (cycle, state, added, node);
    }

    /// Applies a simulated removal of another pod to the state of `node`; at [`ExtensionPoint::Filter`].
    fn remove_pod(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut Self::State,
        removed: &Pod,
        node: &CandidateNode<'_>,
    ) {
        let _ = (cycle, state, removed, node);
    }

    /// Reacts when no node suits the pod; at [`ExtensionPoint::PostFilter`]. The message becomes part of the pod's condition.
    fn post_filter(&self, context: &mut PostFilterContext<'_>) -> (PostFilterResult, Option<String>) {
        let _ = context;
        (PostFilterResult::Noop, None)
    }

    /// Prepares scoring, once per pod; at [`ExtensionPoint::Score`].
    fn pre_score(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut Self::State,
        nodes: &[CandidateNode<'_>],
    ) -> PreScoreResult {
        let _ = (cycle, state, nodes);
        PreScoreResult::Score
    }

    /// The score of a node that passed the filters, before normalization; at [`ExtensionPoint::Score`].
    fn score(&self, cycle: &CycleContext<'_>, state: &Self::State, node: &CandidateNode<'_>) -> i64 {
        let _ = (cycle, state, node);
        0
    }

    /// Brings the scores, one per node, into the range from 0 to 100; at [`ExtensionPoint::Score`].
    fn normalize_score(&self, state: &Self::State, nodes: &[CandidateNode<'_>], scores: &mut [i64]) {
        let _ = (state, nodes, scores);
    }

    /// Adds what must be written for the selected node before the pod is bound; at [`ExtensionPoint::Reserve`].
    fn reserve(
        &self,
        cycle: &CycleContext<'_>,
        state: &Self::State,
        node: &CandidateNode<'_>,
        volumes: &mut PodVolumes,
    ) -> Result<(), Rejection> {
        let _ = (cycle, state, node, volumes);
        Ok(())
    }

    /// Takes the state back at the end of the cycle, whatever its result, to reuse parts of it in a later cycle.
    fn end_cycle(&self, state: Self::State) {
        drop(state);
    }
}

/// A point of the scheduling cycle at which a plugin is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionPoint {
    /// [`SchedulerPlugin::pre_enqueue`]
    PreEnqueue,
    /// [`SchedulerPlugin::pre_filter`] and [`SchedulerPlugin::filter`]
    Filter,
    /// [`SchedulerPlugin::post_filter`]
    PostFilter,
    /// [`SchedulerPlugin::pre_score`], [`SchedulerPlugin::score`] and [`SchedulerPlugin::normalize_score`]
    Score,
    /// [`SchedulerPlugin::pre_filter`] and [`SchedulerPlugin::reserve`]
    Reserve,
}

/// The pod of a scheduling cycle, and the cluster, which does not change during the cycle.
#[derive(Clone, Copy, Debug)]
pub struct CycleContext<'c> {
    /// The pod.
    pub pod: &'c Pod,
    /// All nodes and pods, and the other objects that scheduling reads.
    pub cluster: &'c SchedulerCache,
}

/// A node that is filtered or scored.
#[derive(Clone, Copy, Debug)]
pub struct CandidateNode<'n> {
    /// The index of the node in the cache.
    pub slot: usize,
    /// The pods of the node and what they request; with simulated adds and removes in a simulation.
    pub info: &'n NodeInfo,
    /// The node object.
    pub node: &'n Node,
}

/// Result of [`SchedulerPlugin::pre_filter`].
#[derive(Debug)]
pub enum PreFilterResult {
    /// The filter of the plugin is skipped in this cycle.
    Skip,
    /// All nodes are filtered.
    All,
    /// Only the nodes of these names are filtered.
    Only(Vec<Text>),
}

/// Result of [`SchedulerPlugin::pre_score`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreScoreResult {
    /// The plugin does not score nodes in this cycle.
    Skip,
    /// Nodes are scored.
    Score,
}

impl PreFilterResult {
    /// [`All`](Self::All) if the filter applies to the pod, else [`Skip`](Self::Skip).
    pub fn all_if(applies: bool) -> Self {
        if applies {
            PreFilterResult::All
        } else {
            PreFilterResult::Skip
        }
    }
}

impl PreScoreResult {
    /// [`Score`](Self::Score) if the plugin has a preference for the pod, else [`Skip`](Self::Skip).
    pub fn score_if(applies: bool) -> Self {
        if applies {
            PreScoreResult::Score
        } else {
            PreScoreResult::Skip
        }
    }
}

/// Result of [`SchedulerPlugin::post_filter`].
#[derive(Debug)]
pub enum PostFilterResult {
    /// Victims were found; the pod is nominated to their node.
    Candidate(Candidate),
    /// The plugin cannot help; the nomination of the pod is cleared.
    NoCandidate,
    /// The plugin did not try; the nomination of the pod stays.
    Noop,
}

/// A node and the victims to evict from it.
// upstream: pkg/scheduler/framework/preemption/types.go Candidate
#[derive(Debug)]
pub struct Candidate {
    /// The name of the node.
    pub node: Text,
    /// The pods to evict.
    pub victims: Vec<Arc<Pod>>,
}

/// What [`SchedulerPlugin::post_filter`] knows about the failed cycle.
#[derive(Debug)]
pub struct PostFilterContext<'c> {
    pub(crate) cycle: &'c SchedulingCycle<'c>,
    pub(crate) diagnosis: &'c Diagnosis,
    pub(crate) nominator: &'c Nominator,
    pub(crate) rng: &'c mut Rng,
}

impl<'c> PostFilterContext<'c> {
    /// The pod and the cluster.
    pub fn cycle(&self) -> CycleContext<'c> {
        self.cycle.context
    }

    /// The nodes that a filter rejected, each with the rejection. Nodes that were not filtered are absent.
    pub fn rejected_nodes(&self) -> impl Iterator<Item = (&'c NodeInfo, &'c Rejection)> {
        let cluster = self.cycle.context.cluster;
        let rejected = self.diagnosis.nodes.iter();
        rejected.map(move |(slot, rejection)| (cluster.info(*slot), rejection))
    }
}
