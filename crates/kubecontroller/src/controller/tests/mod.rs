//! Controllers with a scripted source.

mod api;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    Backoff, Key,
    manager::{BoxError, Stop},
    metrics::Metrics,
    workqueue::WorkQueueOptions,
};

const SECOND: Duration = Duration::from_secs(1);

/// A source whose keys the test adds.
#[derive(Clone)]
struct ScriptedSource {
    enqueuer: watch::Sender<Option<Enqueuer>>,
    is_synced: watch::Sender<bool>,
}

struct RunningScriptedSource(ScriptedSource);

impl ScriptedSource {
    fn new() -> Self {
        ScriptedSource {
            enqueuer: watch::Sender::new(None),
            is_synced: watch::Sender::new(true),
        }
    }

    /// Adds a key. Returns false if the source is not started.
    fn add(&self, key: &str) -> bool {
        let enqueuer = self.enqueuer.borrow();
        enqueuer.as_ref().is_some_and(|enqueuer| {
            enqueuer.add(key.parse().unwrap());
            true
        })
    }

    /// Adds a key as soon as the source is started.
    async fn add_when_started(&self, key: &str) {
        self.enqueuer.subscribe().wait_for(Option::is_some).await.unwrap();
        assert!(self.add(key));
    }
}

impl Source for ScriptedSource {
    fn start(&self, enqueuer: Enqueuer) -> Box<dyn RunningSource> {
        self.enqueuer.send_replace(Some(enqueuer));
        Box::new(RunningScriptedSource(self.clone()))
    }
}

impl RunningSource for RunningScriptedSource {
    fn wait_for_sync(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut is_synced = self.0.is_synced.subscribe();
            is_synced.wait_for(|is_synced| *is_synced).await.unwrap();
        })
    }

    fn sync_error(&self) -> Option<String> {
        Some("no response".to_owned())
    }
}

impl Drop for RunningScriptedSource {
    fn drop(&mut self) {
        self.0.enqueuer.send_replace(None);
    }
}

/// The keys that were reconciled, in order, with their failures before.
#[derive(Clone, Default)]
struct RecordedRuns(Arc<Mutex<Vec<(String, u32)>>>);

impl RecordedRuns {
    /// Records a run. Returns the number of runs.
    fn record(&self, request: &Request) -> usize {
        let mut runs = self.0.lock();
        runs.push((request.key.to_string(), request.failures));
        runs.len()
    }

    fn keys(&self) -> Vec<String> {
        self.0.lock().iter().map(|(key, _)| key.clone()).collect()
    }

    fn count(&self) -> usize {
        self.0.lock().len()
    }

    async fn wait_for(&self, count: usize) {
        let reached = async {
            while self.count() < count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = timeout(Duration::from_hours(10), reached).await;
        assert!(in_time.is_ok(), "{} of {count} runs", self.count());
    }
}

/// A running controller. Its task is aborted when this is dropped.
struct RunningController {
    stop: Stop,
    tasks: JoinSet<Result<(), BoxError>>,
    handle: ControllerHandle,
}

fn start<R: Reconciler>(runner: ControllerRunner<R>) -> RunningController {
    let stop = Stop::new();
    let mut tasks = JoinSet::new();
    let handle = runner.handle();
    let runner_stop = stop.clone();
    tasks.spawn(async move { runner.run(runner_stop).await });
    RunningController { stop, tasks, handle }
}

impl RunningController {
    async fn stop(mut self, grace: Duration) -> Result<(), BoxError> {
        self.stop.stop(grace);
        self.tasks.join_next().await.unwrap().unwrap()
    }
}

fn controller(script: &ScriptedSource) -> Controller {
    Controller::new("test").source(script.clone())
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_reconcile_cause_one_more_and_no_key_runs_twice_at_once() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let gate = Arc::new(Semaphore::new(0));
    let recorded = runs.clone();
    let held = Arc::clone(&gate);
    let running = start(
        controller(&script)
            .workers(4)
            .reconciler(reconcile_fn(move |request| {
                let held = Arc::clone(&held);
                recorded.record(&request);
                async move {
                    held.acquire().await?.forget();
                    Ok(Outcome::Done)
                }
            })),
    );
    script.add_when_started("shop/web").await;
    runs.wait_for(1).await;
    for _ in 0..100 {
        script.add("shop/web");
    }
    sleep(SECOND).await;
    assert_eq!(runs.count(), 1);
    assert_eq!(
        running.handle.processing(),
        [(Key::new("shop", "web"), running.handle.processing()[0].1)]
    );
    gate.add_permits(10);
    runs.wait_for(2).await;
    sleep(SECOND).await;
    assert_eq!((runs.count(), running.handle.stats().running), (2, 0));
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn workers_limit_concurrent_reconciles() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let [now, max_running] = [0, 1].map(|_| Arc::new(AtomicUsize::new(0)));
    let recorded = runs.clone();
    let running_now = Arc::clone(&now);
    let max_running_clone = Arc::clone(&max_running);
    let running = start(
        controller(&script)
            .workers(3)
            .reconciler(reconcile_fn(move |request| {
                let recorded = recorded.clone();
                let now = Arc::clone(&running_now);
                let max_running = Arc::clone(&max_running_clone);
                async move {
                    max_running.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    sleep(SECOND).await;
                    now.fetch_sub(1, SeqCst);
                    recorded.record(&request);
                    Ok(Outcome::Done)
                }
            })),
    );
    for number in 0..30 {
        script.add_when_started(&format!("shop/{number}")).await;
    }
    let begin = Instant::now();
    runs.wait_for(30).await;
    assert_eq!(max_running.load(SeqCst), 3);
    assert!(begin.elapsed() < 11 * SECOND, "{:?}", begin.elapsed());
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_outcome_decides_when_a_key_runs_again() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let priorities: Arc<Mutex<Vec<i32>>> = Arc::default();
    let recorded_priorities = Arc::clone(&priorities);
    let running = start(
        controller(&script)
            .workers(1)
            .reconciler(reconcile_fn(move |request: Request| {
                recorded_priorities.lock().push(request.priority);
                let outcome = match recorded.record(&request) {
                    1 => Outcome::requeue_after(10 * SECOND),
                    2 => Outcome::RequeueWithPriority(7),
                    _ => Outcome::done(),
                };
                async move { Ok(outcome) }
            })),
    );
    let begin = Instant::now();
    script.add_when_started("shop/web").await;
    runs.wait_for(3).await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    sleep(100 * SECOND).await;
    assert_eq!((runs.count(), priorities.lock().clone()), (3, vec![0, 0, 7]));
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failing_keys_are_retried_with_backoff() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let backoff = |options| WorkQueueOptions {
        backoff: Backoff::exponential(SECOND, 4 * SECOND),
        ..options
    };
    let runner = controller(&script)
        .queue(backoff)
        .reconciler(reconcile_fn(move |request| {
            let run = recorded.record(&request);
            async move {
                match run {
                    1..=4 => Err(Error::unknown("not yet")),
                    _ => Ok(Outcome::Done),
                }
            }
        }));
    let running = start(runner);
    let begin = Instant::now();
    script.add_when_started("shop/web").await;
    runs.wait_for(5).await;
    assert_eq!(begin.elapsed().as_secs(), 1 + 2 + 4 + 4);
    script.add_when_started("shop/web").await;
    runs.wait_for(6).await;
    let failures: Vec<_> = runs.0.lock().iter().map(|(_, failures)| *failures).collect();
    assert_eq!(failures, [0, 1, 2, 3, 4, 0]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_is_dropped_after_max_retries_until_it_is_added_again() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let running = start(
        controller(&script)
            .max_retries(5)
            .reconciler(reconcile_fn(move |request| {
                recorded.record(&request);
                async { Err(Error::transient("never")) }
            })),
    );
    script.add_when_started("shop/web").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(runs.count(), 6);
    let last = &running.handle.last_errors()[0];
    assert_eq!(
        (last.key.as_str(), last.failures, last.message.as_str()),
        ("shop/web", 6, "never")
    );
    // An addition starts over.
    script.add_when_started("shop/web").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(runs.count(), 12);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_are_not_retried_until_the_object_changes() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let running = start(controller(&script).reconciler(reconcile_fn(move |request| {
        recorded.record(&request);
        async { Err(Error::permanent("a size must be a number")) }
    })));
    script.add_when_started("shop/web").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(runs.count(), 1);
    script.add_when_started("shop/web").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(runs.count(), 2);
    assert_eq!(running.handle.last_errors().len(), 2);
    assert_eq!(running.handle.last_errors()[0].class, Some(ErrorClass::Permanent));
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn retry_after_delays_the_retry() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let running = start(controller(&script).reconciler(reconcile_fn(move |request| {
        recorded.record(&request);
        async { Err(Error::transient("busy").with_retry_after(10 * SECOND)) }
    })));
    let begin = Instant::now();
    script.add_when_started("shop/web").await;
    runs.wait_for(3).await;
    assert_eq!(begin.elapsed().as_secs(), 20);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn workers_survive_panics_and_timeouts() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let metrics = Metrics::default();
    let recorded = runs.clone();
    let controller = controller(&script)
        .workers(1)
        .timeout(10 * SECOND)
        .metrics(&metrics);
    let running = start(controller.reconciler(reconcile_fn(move |request| {
        let run = recorded.record(&request);
        // One reconcile panics before it returns a future, one in its future.
        assert!(run != 1, "the first");
        async move {
            match run {
                2 => panic!("the second"),
                3 => std::future::pending().await,
                _ => Ok(Outcome::Done),
            }
        }
    })));
    let begin = Instant::now();
    script.add_when_started("shop/web").await;
    runs.wait_for(4).await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    sleep(SECOND).await;
    let text = metrics.text();
    for line in [
        r#"controller_runtime_reconcile_panics_total{controller="test"} 2"#,
        r#"controller_runtime_reconcile_timeouts_total{controller="test"} 1"#,
        r#"controller_runtime_reconcile_errors_total{controller="test"} 3"#,
        r#"controller_runtime_reconcile_total{controller="test",result="error"} 3"#,
        r#"controller_runtime_reconcile_total{controller="test",result="success"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let messages: Vec<_> = running
        .handle
        .last_errors()
        .into_iter()
        .map(|error| error.message)
        .collect();
    let expected = [
        "timed out after 10s",
        "panicked: the second",
        "panicked: the first",
    ];
    assert_eq!(messages, expected);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ready_keys_are_reconciled_before_the_stop() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let running = start(
        controller(&script)
            .workers(2)
            .reconciler(reconcile_fn(move |request| {
                let recorded = recorded.clone();
                async move {
                    sleep(SECOND).await;
                    recorded.record(&request);
                    Ok(Outcome::requeue_after(SECOND))
                }
            })),
    );
    for number in 0..20 {
        script.add_when_started(&format!("shop/{number}")).await;
    }
    let begin = Instant::now();
    running.stop(60 * SECOND).await.unwrap();
    assert_eq!((runs.count(), begin.elapsed()), (20, 10 * SECOND));
    assert!(!script.add("shop/late"));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_a_stop_with_keys_left() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let running = start(
        controller(&script)
            .workers(1)
            .reconciler(reconcile_fn(move |request| {
                recorded.record(&request);
                async {
                    sleep(Duration::from_hours(1)).await;
                    Ok(Outcome::Done)
                }
            })),
    );
    script.add_when_started("shop/a").await;
    script.add_when_started("shop/b").await;
    runs.wait_for(1).await;
    let begin = Instant::now();
    running.stop(5 * SECOND).await.unwrap();
    assert_eq!((begin.elapsed(), runs.count()), (5 * SECOND, 1));
}

#[tokio::test(start_paused = true)]
async fn workers_start_after_the_sync_which_has_a_timeout() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    script.is_synced.send_replace(false);
    let recorded = runs.clone();
    let runner = controller(&script)
        .cache_sync_timeout(30 * SECOND)
        .reconciler(reconcile_fn(move |request| {
            recorded.record(&request);
            async { Ok(Outcome::Done) }
        }));
    let begin = Instant::now();
    let (result, ()) = tokio::join!(runner.run(Stop::new()), script.add_when_started("shop/web"));
    let error = result.unwrap_err().to_string();
    assert_eq!((begin.elapsed(), runs.count()), (30 * SECOND, 0));
    assert!(error.contains("test") && error.contains("no response"), "{error}");
    // The controller can be started again.
    script.is_synced.send_replace(true);
    let running = start(runner);
    script.add_when_started("shop/web").await;
    runs.wait_for(1).await;
    assert!(running.handle.is_synced());
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sources_can_be_added_and_removed_while_running() {
    let first = ScriptedSource::new();
    let second = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let running = start(controller(&first).reconciler(reconcile_fn(move |request| {
        recorded.record(&request);
        async { Ok(Outcome::Done) }
    })));
    first.add_when_started("shop/a").await;
    let id = running.handle.add_source(second.clone());
    assert!(second.add("shop/b"));
    runs.wait_for(2).await;
    assert!(running.handle.remove_source(id) && !running.handle.remove_source(id));
    assert!(!second.add("shop/c"));
    first.add_when_started("shop/d").await;
    runs.wait_for(3).await;
    assert_eq!(runs.keys(), ["shop/a", "shop/b", "shop/d"]);
    running.stop(SECOND).await.unwrap();
    assert!(!first.add("shop/e"));
}

#[tokio::test(start_paused = true)]
async fn the_filter_drops_other_keys() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let controller = controller(&script).filter("shop/*; !shop/b".parse().unwrap());
    let running = start(controller.reconciler(reconcile_fn(move |request| {
        recorded.record(&request);
        async { Ok(Outcome::Done) }
    })));
    for key in ["shop/a", "shop/b", "blog/a", "shop/c"] {
        script.add_when_started(key).await;
    }
    runs.wait_for(2).await;
    sleep(SECOND).await;
    assert_eq!(runs.keys(), ["shop/a", "shop/c"]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hot_key_and_a_busy_namespace_do_not_starve_others() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let recorded = runs.clone();
    let again = script.clone();
    let running = start(
        controller(&script)
            .workers(1)
            .reconciler(reconcile_fn(move |request| {
                recorded.record(&request);
                // The hot key is added again during each of its reconciles.
                if request.key.name() == "hot" {
                    again.add("busy/hot");
                }
                async {
                    sleep(SECOND).await;
                    Ok(Outcome::Done)
                }
            })),
    );
    script.add_when_started("busy/hot").await;
    for number in 0..100 {
        script.add_when_started(&format!("busy/{number}")).await;
    }
    script.add_when_started("quiet/a").await;
    script.add_when_started("quiet/b").await;
    runs.wait_for(104).await;
    let keys = runs.keys();
    let position = |key: &str| keys.iter().position(|known| known == key).unwrap_or(usize::MAX);
    assert!(position("quiet/a") <= 3 && position("quiet/b") <= 5, "{keys:?}");
    let mut counts = BTreeMap::new();
    for key in &keys {
        *counts.entry(key.as_str()).or_insert(0) += 1;
    }
    assert!(counts["busy/hot"] < 4, "{counts:?}");
    running.stop(Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_fifth_failure_in_a_row_is_counted_once() {
    let script = ScriptedSource::new();
    let runs = RecordedRuns::default();
    let metrics = Metrics::default();
    let recorded = runs.clone();
    let running = start(
        controller(&script)
            .metrics(&metrics)
            .reconciler(reconcile_fn(move |request| {
                recorded.record(&request);
                async { Err(Error::unknown("no")) }
            })),
    );
    let stuck = |times: usize| {
        let line = format!(r#"controller_reconcile_stuck_total{{controller="test"}} {times}"#);
        metrics.text().contains(&line)
    };
    script.add_when_started("shop/web").await;
    runs.wait_for(5).await;
    sleep(Duration::from_millis(1)).await;
    assert!(stuck(1));
    runs.wait_for(12).await;
    assert!(stuck(1));
    running.stop(SECOND).await.unwrap();
}
