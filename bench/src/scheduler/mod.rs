//! The scheduler alone: how many pods it places in a second, and what a placed pod weighs.
//!
//! Promises: the clusters and the pods are those of upstream's own measurements (`scheduler_perf`); every pod has its node
//! before the clock stops; what the cluster would answer is answered at once, so that nothing but deciding is measured, with
//! the queue and with the events of its own decisions.

mod report;
mod scene;

use std::time::Duration;

use k3_scheduler::{BackoffOptions, Decision, Profile, SchedulerCore};
use tokio::time::Instant;

use self::{
    report::{Row, SchedulerReport},
    scene::{Builder, SCENES, SchedulingScenario},
};
use crate::{
    BenchError,
    choices::BenchEffort,
    directories::{results, write},
    flags::ApiOptions,
    machine::MachineInfo,
    memory::resident,
};

/// Upstream's size.
const NODES: usize = 5000;
const QUICK_NODES: usize = 1000;
/// How often each scene is measured; what counts is the median.
const ROUNDS: usize = 3;
/// How many pods are weighed.
const WEIGHED: usize = 150_000;

/// Measures everything, prints it, and writes it down.
pub(crate) fn run(options: &ApiOptions) -> Result<(), BenchError> {
    let (nodes, rounds) = match options.effort {
        BenchEffort::Quick => (QUICK_NODES, 1),
        BenchEffort::Full => (NODES, ROUNDS),
    };
    let mut report = SchedulerReport::new(MachineInfo::find(&std::env::temp_dir())?, nodes);
    for scene in SCENES {
        let mut rates = Vec::new();
        for _ in 0..rounds {
            rates.push(measure(scene, nodes)?);
        }
        rates.sort_by(f64::total_cmp);
        let rate = rates[rates.len() / 2];
        eprintln!("{}: {rate:.0} pods/s", scene.name);
        report.rows.push(Row {
            scene: scene.name,
            pods: scene.pods(nodes),
            rate,
        });
    }
    report.bytes_per_pod = Some(weigh(nodes)?);
    report.check_requirements();
    report.print();
    write(&report, &results(options.json.as_deref(), "scheduler.json"))
}

/// Pods per second.
fn measure(scene: &SchedulingScenario, nodes: usize) -> Result<f64, BenchError> {
    let mut builder = Builder::default();
    let mut core = SchedulerCore::new(vec![Profile::default()], BackoffOptions::default(), 1);
    let now = Duration::from_secs(1);
    for index in 0..nodes {
        core.node(&builder.node(scene, index), now);
    }
    for service in builder.services() {
        core.service(&service);
    }
    let before = builder.pods(scene.before, "before", scene.pods_before(nodes));
    schedule_all(&mut core, &before, now)?;
    let pods = builder.pods(scene.measured, "measured", scene.pods(nodes));
    let start = Instant::now();
    schedule_all(&mut core, &pods, now)?;
    Ok(real(pods.len()) / start.elapsed().as_secs_f64())
}

fn schedule_all(
    core: &mut SchedulerCore,
    pods: &[std::sync::Arc<k3_scheduler::object::Pod>],
    now: Duration,
) -> Result<(), BenchError> {
    for pod in pods {
        core.pod(None, pod, now);
    }
    let mut placed = 0;
    while let Some(decision) = core.next(now) {
        match decision {
            Decision::Bind { pod, node, .. } => {
                core.bound(&pod.uid);
                core.pod(Some(&pod), &std::sync::Arc::new(pod.on(node)), now);
                placed += 1;
            }
            Decision::Fail { message, .. } => return Err(message.into()),
            Decision::Skip(_) => {}
        }
    }
    if placed == pods.len() {
        Ok(())
    } else {
        Err(format!("{placed} of {} pods placed", pods.len()).into())
    }
}

/// What a pod on a node weighs, beside the cluster it is in.
fn weigh(nodes: usize) -> Result<f64, BenchError> {
    let scene = &SCENES[0];
    let mut builder = Builder::default();
    let mut core = SchedulerCore::new(vec![Profile::default()], BackoffOptions::default(), 1);
    let now = Duration::from_secs(1);
    for index in 0..nodes {
        core.node(&builder.node(scene, index), now);
    }
    let before = resident("self")?;
    for index in 0..WEIGHED {
        let pod = builder.pod(scene.measured, "weighed", index);
        let node = scene::node_name(index % nodes);
        core.pod(None, &std::sync::Arc::new(pod.on(node.into())), now);
    }
    let after = resident("self")?;
    drop(core);
    Ok(real(usize::try_from(after.saturating_sub(before))?) / real(WEIGHED))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are small")]
fn real(number: usize) -> f64 {
    number as f64
}
