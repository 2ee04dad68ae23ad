//! Runs one probe of one container periodically.
// upstream: pkg/kubelet/prober/worker.go worker

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{
    manager::ResultsManager,
    prober::{ProbeTarget, Prober},
    schedule::ThresholdCounter,
};

/// Probes a container until no further result can change its outcome. Dropping the task stops a running probe too.
// upstream: pkg/kubelet/prober/worker.go run, doProbe
pub(super) async fn run_worker(
    results: Arc<ResultsManager>,
    prober: Prober,
    uid: String,
    target: ProbeTarget,
    first: Instant,
    period: Duration,
) {
    let mut counter = ThresholdCounter::new(target.kind, &target.probe);
    let mut ticks = interval_at(first, period);
    // A probe that takes longer than the period delays the next one: no burst of probes afterwards.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let Some(result) = prober.probe(&target).await else {
            continue;
        };
        let decision = counter.count(result);
        if let Some(outcome) = decision.outcome {
            results.set(&uid, &target, outcome);
        }
        if decision.is_last {
            return;
        }
    }
}
