mod api;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    Key,
    manager::{BoxError, Stop},
    metrics::{self, Metrics},
    workqueue::{ExponentialBackoff, WorkQueueOptions},
};

const SECOND: Duration = Duration::from_secs(1);

/// A source that a test speaks through.
#[derive(Clone)]
struct Script {
    keys: watch::Sender<Option<Enqueuer>>,
    is_synced: watch::Sender<bool>,
}

struct Playing(Script);

impl Script {
    fn new() -> Self {
        Script {
            keys: watch::Sender::new(None),
            is_synced: watch::Sender::new(true),
        }
    }

    fn add(&self, key: &str) -> bool {
        let keys = self.keys.borrow();
        keys.as_ref().is_some_and(|keys| {
            keys.add(key.parse().unwrap());
            true
        })
    }

    /// Adds a key once the controller listens.
    async fn say(&self, key: &str) {
        self.keys.subscribe().wait_for(Option::is_some).await.unwrap();
        assert!(self.add(key));
    }
}

impl Source for Script {
    fn start(&self, keys: Enqueuer) -> Box<dyn RunningSource> {
        self.keys.send_replace(Some(keys));
        Box::new(Playing(self.clone()))
    }
}

impl RunningSource for Playing {
    fn wait_for_sync(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut is_synced = self.0.is_synced.subscribe();
            is_synced.wait_for(|is_synced| *is_synced).await.unwrap();
        })
    }

    fn sync_error(&self) -> Option<String> {
        Some("nobody answers".to_owned())
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        self.0.keys.send_replace(None);
    }
}

/// What was run, in order.
#[derive(Clone, Default)]
struct CacheLookup(Arc<Mutex<Vec<(String, u32)>>>);

impl CacheLookup {
    fn note(&self, request: &Request) -> usize {
        let mut runs = self.0.lock().unwrap();
        runs.push((request.key.to_string(), request.failures));
        runs.len()
    }

    fn keys(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    async fn reaches(&self, count: usize) {
        let reached = async {
            while self.count() < count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = timeout(Duration::from_hours(10), reached).await;
        assert!(in_time.is_ok(), "{} of {count} runs", self.count());
    }
}

/// A controller that runs, in a task that ends with this.
struct Running {
    stop: Stop,
    tasks: JoinSet<Result<(), BoxError>>,
    handle: ControllerHandle,
}

fn start<R: Reconciler>(runner: ControllerRunner<R>) -> Running {
    let (stop, mut tasks, handle) = (Stop::new(), JoinSet::new(), runner.handle());
    let told = stop.clone();
    tasks.spawn(async move { runner.run(told).await });
    Running { stop, tasks, handle }
}

impl Running {
    async fn stop(mut self, grace: Duration) -> Result<(), BoxError> {
        self.stop.stop(grace);
        self.tasks.join_next().await.unwrap().unwrap()
    }
}

fn controller(script: &Script) -> Controller {
    Controller::new("test").source(script.clone())
}

#[tokio::test(start_paused = true)]
async fn what_happens_during_a_run_causes_one_more_and_no_two_run_at_once() {
    let (script, seen, gate) = (Script::new(), CacheLookup::default(), Arc::new(Semaphore::new(0)));
    let (told, held) = (seen.clone(), Arc::clone(&gate));
    let running = start(
        controller(&script)
            .workers(4)
            .reconciler(reconcile_fn(move |request| {
                let held = Arc::clone(&held);
                told.note(&request);
                async move {
                    held.acquire().await?.forget();
                    Ok(Outcome::Done)
                }
            })),
    );
    script.say("shop/web").await;
    seen.reaches(1).await;
    for _ in 0..100 {
        script.add("shop/web");
    }
    sleep(SECOND).await;
    assert_eq!(seen.count(), 1);
    assert_eq!(
        running.handle.processing(),
        [(Key::new("shop", "web"), running.handle.processing()[0].1)]
    );
    gate.add_permits(10);
    seen.reaches(2).await;
    sleep(SECOND).await;
    assert_eq!((seen.count(), running.handle.stats().running), (2, 0));
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn as_many_run_at_once_as_there_are_workers() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let [now, most] = [0, 1].map(|_| Arc::new(AtomicUsize::new(0)));
    let (told, running_now, most_then) = (seen.clone(), Arc::clone(&now), Arc::clone(&most));
    let running = start(
        controller(&script)
            .workers(3)
            .reconciler(reconcile_fn(move |request| {
                let (told, now, most) = (told.clone(), Arc::clone(&running_now), Arc::clone(&most_then));
                async move {
                    most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    sleep(SECOND).await;
                    now.fetch_sub(1, SeqCst);
                    told.note(&request);
                    Ok(Outcome::Done)
                }
            })),
    );
    for number in 0..30 {
        script.say(&format!("shop/{number}")).await;
    }
    let begin = Instant::now();
    seen.reaches(30).await;
    assert_eq!(most.load(SeqCst), 3);
    assert!(begin.elapsed() < 11 * SECOND, "{:?}", begin.elapsed());
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn outcomes_say_when_a_key_runs_again() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let told = seen.clone();
    let priorities: Arc<Mutex<Vec<i32>>> = Arc::default();
    let noted = Arc::clone(&priorities);
    let running = start(
        controller(&script)
            .workers(1)
            .reconciler(reconcile_fn(move |request: Request| {
                noted.lock().unwrap().push(request.priority);
                let outcome = match told.note(&request) {
                    1 => Outcome::requeue_after(10 * SECOND),
                    2 => Outcome::RequeueWithPriority(7),
                    _ => Outcome::done(),
                };
                async move { Ok(outcome) }
            })),
    );
    let begin = Instant::now();
    script.say("shop/web").await;
    seen.reaches(3).await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    sleep(100 * SECOND).await;
    assert_eq!(
        (seen.count(), priorities.lock().unwrap().clone()),
        (3, vec![0, 0, 7])
    );
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_is_tried_again_later_each_time() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let told = seen.clone();
    let backoff = |options| WorkQueueOptions {
        backoff: ExponentialBackoff {
            base: SECOND,
            max: 4 * SECOND,
        },
        ..options
    };
    let runner = controller(&script)
        .queue(backoff)
        .reconciler(reconcile_fn(move |request| {
            let run = told.note(&request);
            async move {
                match run {
                    1..=4 => Err(Error::unknown("not yet")),
                    _ => Ok(Outcome::Done),
                }
            }
        }));
    let running = start(runner);
    let begin = Instant::now();
    script.say("shop/web").await;
    seen.reaches(5).await;
    assert_eq!(begin.elapsed().as_secs(), 1 + 2 + 4 + 4);
    script.say("shop/web").await;
    seen.reaches(6).await;
    let failures: Vec<_> = seen
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|(_, failures)| *failures)
        .collect();
    assert_eq!(failures, [0, 1, 2, 3, 4, 0]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_is_given_up_after_exactly_as_many_retries_as_it_may_have() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let told = seen.clone();
    let running = start(
        controller(&script)
            .max_retries(5)
            .reconciler(reconcile_fn(move |request| {
                told.note(&request);
                async { Err(Error::transient("never")) }
            })),
    );
    script.say("shop/web").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(seen.count(), 6);
    let last = &running.handle.last_errors()[0];
    assert_eq!(
        (last.key.as_str(), last.failures, last.message.as_str()),
        ("shop/web", 6, "never")
    );
    // Until something happens to it.
    script.say("shop/web").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(seen.count(), 12);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_succeed_is_not_tried_again_until_the_object_changes() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let told = seen.clone();
    let running = start(controller(&script).reconciler(reconcile_fn(move |request| {
        told.note(&request);
        async { Err(Error::permanent("a size must be a number")) }
    })));
    script.say("shop/web").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(seen.count(), 1);
    script.say("shop/web").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(seen.count(), 2);
    assert_eq!(running.handle.last_errors().len(), 2);
    assert_eq!(running.handle.last_errors()[0].class, Some(ErrorClass::Permanent));
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_asks_to_be_left_alone_is() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let told = seen.clone();
    let running = start(controller(&script).reconciler(reconcile_fn(move |request| {
        told.note(&request);
        async { Err(Error::transient("busy").with_retry_after(10 * SECOND)) }
    })));
    let begin = Instant::now();
    script.say("shop/web").await;
    seen.reaches(3).await;
    assert_eq!(begin.elapsed().as_secs(), 20);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_survives_panics_and_hanging_reconciles() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    let told = seen.clone();
    let controller = controller(&script)
        .workers(1)
        .timeout(10 * SECOND)
        .metrics(&metrics);
    let running = start(controller.reconciler(reconcile_fn(move |request| {
        let run = told.note(&request);
        // One panics before there is a future, one within it.
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
    script.say("shop/web").await;
    seen.reaches(4).await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    sleep(SECOND).await;
    let text = metrics::encode_text(&registry);
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
        "it took longer than 10s",
        "it panicked: the second",
        "it panicked: the first",
    ];
    assert_eq!(messages, expected);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_is_worked_off_before_the_end() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let told = seen.clone();
    let running = start(
        controller(&script)
            .workers(2)
            .reconciler(reconcile_fn(move |request| {
                let told = told.clone();
                async move {
                    sleep(SECOND).await;
                    told.note(&request);
                    Ok(Outcome::requeue_after(SECOND))
                }
            })),
    );
    for number in 0..20 {
        script.say(&format!("shop/{number}")).await;
    }
    let begin = Instant::now();
    running.stop(60 * SECOND).await.unwrap();
    assert_eq!((seen.count(), begin.elapsed()), (20, 10 * SECOND));
    assert!(!script.add("shop/late"));
}

#[tokio::test(start_paused = true)]
async fn there_is_an_end_even_if_work_is_left() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let told = seen.clone();
    let running = start(
        controller(&script)
            .workers(1)
            .reconciler(reconcile_fn(move |request| {
                told.note(&request);
                async {
                    sleep(Duration::from_hours(1)).await;
                    Ok(Outcome::Done)
                }
            })),
    );
    script.say("shop/a").await;
    script.say("shop/b").await;
    seen.reaches(1).await;
    let begin = Instant::now();
    running.stop(5 * SECOND).await.unwrap();
    assert_eq!((begin.elapsed(), seen.count()), (5 * SECOND, 1));
}

#[tokio::test(start_paused = true)]
async fn no_worker_begins_before_the_sources_are_synced_and_waiting_has_an_end() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    script.is_synced.send_replace(false);
    let told = seen.clone();
    let runner = controller(&script)
        .cache_sync_timeout(30 * SECOND)
        .reconciler(reconcile_fn(move |request| {
            told.note(&request);
            async { Ok(Outcome::Done) }
        }));
    let begin = Instant::now();
    let (ended, ()) = tokio::join!(runner.run(Stop::new()), script.say("shop/web"));
    let mistake = ended.unwrap_err().to_string();
    assert_eq!((begin.elapsed(), seen.count()), (30 * SECOND, 0));
    assert!(
        mistake.contains("test") && mistake.contains("nobody answers"),
        "{mistake}"
    );
    // It may be started again, and then it works.
    script.is_synced.send_replace(true);
    let running = start(runner);
    script.say("shop/web").await;
    seen.reaches(1).await;
    assert!(running.handle.is_synced());
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sources_come_and_go_while_it_runs() {
    let (first, second, seen) = (Script::new(), Script::new(), CacheLookup::default());
    let told = seen.clone();
    let running = start(controller(&first).reconciler(reconcile_fn(move |request| {
        told.note(&request);
        async { Ok(Outcome::Done) }
    })));
    first.say("shop/a").await;
    let id = running.handle.add_source(second.clone());
    assert!(second.add("shop/b"));
    seen.reaches(2).await;
    assert!(running.handle.remove_source(id) && !running.handle.remove_source(id));
    assert!(!second.add("shop/c"));
    first.say("shop/d").await;
    seen.reaches(3).await;
    assert_eq!(seen.keys(), ["shop/a", "shop/b", "shop/d"]);
    running.stop(SECOND).await.unwrap();
    assert!(!first.add("shop/e"));
}

#[tokio::test(start_paused = true)]
async fn a_filter_keeps_the_others_out() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let told = seen.clone();
    let controller = controller(&script).filter("shop/*; !shop/b".parse().unwrap());
    let running = start(controller.reconciler(reconcile_fn(move |request| {
        told.note(&request);
        async { Ok(Outcome::Done) }
    })));
    for key in ["shop/a", "shop/b", "blog/a", "shop/c"] {
        script.say(key).await;
    }
    seen.reaches(2).await;
    sleep(SECOND).await;
    assert_eq!(seen.keys(), ["shop/a", "shop/c"]);
    running.stop(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hot_key_and_a_busy_namespace_do_not_keep_the_others_waiting() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let (told, again) = (seen.clone(), script.clone());
    let running = start(
        controller(&script)
            .workers(1)
            .reconciler(reconcile_fn(move |request| {
                told.note(&request);
                // Something happens to the hot key whenever it runs.
                if request.key.name() == "hot" {
                    again.add("busy/hot");
                }
                async {
                    sleep(SECOND).await;
                    Ok(Outcome::Done)
                }
            })),
    );
    script.say("busy/hot").await;
    for number in 0..100 {
        script.say(&format!("busy/{number}")).await;
    }
    script.say("quiet/a").await;
    script.say("quiet/b").await;
    seen.reaches(104).await;
    let keys = seen.keys();
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
async fn the_fifth_failure_in_a_row_is_reported_once() {
    let (script, seen) = (Script::new(), CacheLookup::default());
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    let told = seen.clone();
    let running = start(
        controller(&script)
            .metrics(&metrics)
            .reconciler(reconcile_fn(move |request| {
                told.note(&request);
                async { Err(Error::unknown("no")) }
            })),
    );
    let stuck = |times: usize| {
        let line = format!(r#"controller_reconcile_stuck_total{{controller="test"}} {times}"#);
        metrics::encode_text(&registry).contains(&line)
    };
    script.say("shop/web").await;
    seen.reaches(5).await;
    sleep(Duration::from_millis(1)).await;
    assert!(stuck(1));
    seen.reaches(12).await;
    assert!(stuck(1));
    running.stop(SECOND).await.unwrap();
}
