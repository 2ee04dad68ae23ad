//! A plugin that is defined outside of the crate: registered by name for a profile, it filters, scores, and is asked whether
//! an event helps the pods that it rejected.

use std::{sync::Arc, time::Duration};

use k3_scheduler::{
    BackoffOptions, CandidateNode, ClusterEvent, ClusterEventKind, CycleContext, Decision, ExtensionPoint,
    FilterResult, PreFilterResult, PreScoreResult, Profile, Rejection, SchedulerCache, SchedulerCore,
    SchedulerPlugin, StringInterner,
    object::{Node, Pod, SchedulerObject},
};
use serde_json::{Value, json};

const NOW: Duration = Duration::from_secs(1);
/// The label of pods with the license they need, and of nodes with the license they have.
const LICENSE: &str = "example.com/license";
/// The label of nodes with the number of licenses that are left.
const LEFT: &str = "example.com/licenses-left";

/// Places pods on nodes that have their license, and prefers nodes with many licenses left.
#[derive(Debug)]
struct License;

impl SchedulerPlugin for License {
    /// The license that the pod needs.
    type State = Option<Arc<str>>;

    fn name(&self) -> &'static str {
        "License"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter, ExtensionPoint::Score]
    }

    fn weight(&self) -> i64 {
        100
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[ClusterEventKind::NodeAdd, ClusterEventKind::NodeUpdate]
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        match event {
            ClusterEvent::NodeAdd(node) | ClusterEvent::NodeUpdate { new: node, .. } => {
                node.labels.get(LICENSE) == pod.labels.get(LICENSE)
            }
            _ => false,
        }
    }

    fn pre_filter(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut Self::State,
    ) -> Result<PreFilterResult, Rejection> {
        *state = cycle.pod.labels.get(LICENSE).map(|license| (**license).into());
        Ok(PreFilterResult::all_if(state.is_some()))
    }

    fn filter(&self, _: &CycleContext<'_>, state: &Self::State, node: &CandidateNode<'_>) -> FilterResult {
        let has = node.node.labels.get(LICENSE);
        if has.map(|license| &**license) == state.as_deref() {
            Ok(())
        } else {
            Err(Rejection::unresolvable("node(s) had no license"))
        }
    }

    fn pre_score(
        &self,
        _: &CycleContext<'_>,
        state: &mut Self::State,
        _: &[CandidateNode<'_>],
    ) -> PreScoreResult {
        PreScoreResult::score_if(state.is_some())
    }

    fn score(&self, _: &CycleContext<'_>, _: &Self::State, node: &CandidateNode<'_>) -> i64 {
        let left = node.node.labels.get(LEFT);
        left.and_then(|left| left.parse().ok()).unwrap_or(0)
    }
}

#[derive(Default)]
struct LicensedCluster(StringInterner);

impl LicensedCluster {
    fn read<T: SchedulerObject>(&mut self, object: Value) -> Arc<T> {
        let source = serde_json::from_value(object).expect("the test writes valid objects");
        Arc::new(T::read(&source, &mut self.0))
    }

    fn node(&mut self, name: &str, license: &str, left: &str) -> Arc<Node> {
        self.read(json!({
            "metadata": {"name": name, "labels": {LICENSE: license, LEFT: left}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        }))
    }

    fn pod(&mut self, name: &str, scheduler: &str, license: &str) -> Arc<Pod> {
        self.read(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {LICENSE: license}},
            "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]},
        }))
    }
}

fn next(core: &mut SchedulerCore, now: Duration) -> Option<Result<String, String>> {
    Some(match core.next(now)? {
        Decision::Bind { node, .. } => Ok(node.to_string()),
        Decision::Fail { message, .. } => Err(message),
        Decision::Skip(pod) => panic!("{} was skipped", pod.name),
    })
}

#[test]
fn filters_scores_and_requeues_for_the_profile_that_enables_it() {
    let mut cluster = LicensedCluster::default();
    let profiles = vec![
        Profile::default(),
        Profile::named("licensed").with_plugin(|| License),
    ];
    let mut core = SchedulerCore::new(profiles, BackoffOptions::default(), 1);
    for (name, license, left) in [("a", "cad", "10"), ("b", "cad", "90"), ("c", "cad", "20")] {
        core.node(&cluster.node(name, license, left), NOW);
    }

    core.pod(None, &cluster.pod("cad", "licensed", "cad"), NOW);
    assert_eq!(next(&mut core, NOW), Some(Ok("b".into())), "most licenses left");

    core.pod(
        None,
        &cluster.pod("other-profile", "default-scheduler", "sim"),
        NOW,
    );
    assert!(
        next(&mut core, NOW).unwrap().is_ok(),
        "the profile has no such plugin"
    );

    core.pod(None, &cluster.pod("sim", "licensed", "sim"), NOW);
    let message = next(&mut core, NOW).unwrap().unwrap_err();
    assert!(
        message.starts_with("0/3 nodes are available: 3 node(s) had no license."),
        "{message}"
    );
    core.node(&cluster.node("d", "cad", "1"), NOW);
    assert_eq!(
        next(&mut core, NOW),
        None,
        "the queueing hint ignores other licenses"
    );
    core.node(&cluster.node("e", "sim", "1"), NOW);
    assert_eq!(next(&mut core, NOW), Some(Ok("e".into())));
}

/// Accepts every node.
#[derive(Debug)]
struct UnlimitedResources;

impl SchedulerPlugin for UnlimitedResources {
    type State = ();

    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[]
    }
}

#[test]
fn replaces_a_plugin_of_the_same_name() {
    let mut cluster = LicensedCluster::default();
    let full: Arc<Node> = cluster.read(json!({
        "metadata": {"name": "full"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "0"}},
    }));
    for (profile, fits) in [
        (Profile::default(), false),
        (Profile::default().with_plugin(|| UnlimitedResources), true),
        (Profile::default().without("NodeResourcesFit"), true),
    ] {
        let mut core = SchedulerCore::new(vec![profile], BackoffOptions::default(), 1);
        core.node(&full, NOW);
        core.pod(None, &cluster.pod("p", "default-scheduler", ""), NOW);
        assert_eq!(next(&mut core, NOW).unwrap().is_ok(), fits);
    }
}
