use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use proptest::{collection::vec, prelude::*};
use tokio::{
    task::JoinSet,
    time::{Instant, advance, timeout},
};

use super::{BucketRateLimiter, Debounce, WorkQueue, WorkQueueOptions, state, time::QueueTime};
use crate::Backoff;

const MS: Duration = Duration::from_millis(1);

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(WorkQueueOptions::default())
}

async fn next<K: Clone + Eq + std::hash::Hash>(queue: &WorkQueue<K>) -> super::WorkItem<K> {
    queue.next().await.expect("the queue is open")
}

#[tokio::test(start_paused = true)]
async fn keys_are_handed_out_once_in_the_order_of_addition() {
    let queue = queue();
    for key in ["a", "b", "a", "c", "b"] {
        queue.add(key);
    }
    for key in ["a", "b", "c"] {
        let item = next(&queue).await;
        assert_eq!(*item.key(), key);
        item.done();
    }
    assert!(queue.try_next().is_none());
    assert_eq!(queue.stats().adds, 3);
}

#[tokio::test(start_paused = true)]
async fn additions_during_processing_cause_one_more_run() {
    let queue = queue();
    queue.add("a");
    let item = next(&queue).await;
    for _ in 0..100 {
        queue.add("a");
    }
    assert!(queue.try_next().is_none(), "no other worker gets the key");
    item.done();
    next(&queue).await.done();
    assert!(queue.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_are_handed_out_first_and_raise_queued_keys() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    queue.add_with_priority("c", 5);
    queue.add_with_priority("d", 1);
    queue.add_with_priority("a", -5);
    let mut order = Vec::new();
    while let Some(item) = queue.try_next() {
        order.push(*item.key());
        item.done();
    }
    assert_eq!(order, ["c", "d", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn lanes_take_turns() {
    let queue = WorkQueue::new(WorkQueueOptions::default().lanes_by(|key: &(u8, u16)| key.0));
    for number in 0..100 {
        queue.add((1, number));
    }
    queue.add((2, 0));
    queue.add((2, 1));
    let mut order = Vec::new();
    while let Some(item) = queue.try_next() {
        order.push(*item.key());
        item.done();
    }
    assert_eq!(order[..5], [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]);
    assert_eq!(order.len(), 102);
}

#[tokio::test(start_paused = true)]
async fn the_backoff_doubles_up_to_its_maximum() {
    let queue = WorkQueue::new(WorkQueueOptions {
        backoff: Backoff::exponential(5 * MS, 30 * MS),
        ..WorkQueueOptions::default()
    });
    queue.add("a");
    let mut waits = Vec::new();
    let mut reports = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        let failure = next(&queue).await.fail();
        waits.push(start.elapsed().as_millis());
        reports.push(failure.report);
    }
    assert_eq!(waits, [0, 5, 10, 20, 30, 30, 30]);
    assert_eq!(
        reports,
        [false, false, false, false, true, false, false],
        "only the fifth failure is reported"
    );
    next(&queue).await.done();
    queue.add("a");
    let failure = next(&queue).await.fail();
    assert_eq!(failure.failures, 1, "success resets the failures");
}

#[tokio::test(start_paused = true)]
async fn a_failure_during_the_backoff_does_not_increase_it() {
    let queue = WorkQueue::new(WorkQueueOptions {
        backoff: Backoff::exponential(100 * MS, 1000 * MS),
        ..WorkQueueOptions::default()
    });
    queue.add("a");
    let start = Instant::now();
    next(&queue).await.fail();
    for _ in 0..10 {
        queue.add("a");
        let failure = next(&queue).await.fail();
        assert_eq!(failure.failures, 1);
    }
    assert_eq!(
        start.elapsed(),
        Duration::ZERO,
        "an addition runs the key at once"
    );
    let failure = next(&queue).await.fail();
    assert_eq!(start.elapsed(), 100 * MS);
    assert_eq!(failure.retry_after, Some(200 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_dropped_after_max_retries() {
    let queue = WorkQueue::new(WorkQueueOptions {
        max_retries: Some(5),
        ..WorkQueueOptions::default()
    });
    queue.add("a");
    let mut runs = 1;
    while !next(&queue).await.fail().dropped {
        runs += 1;
    }
    assert_eq!(runs, 6);
    let expected = state::WorkQueueStats {
        adds: 6,
        retries: 5,
        ..state::WorkQueueStats::default()
    };
    assert_eq!(queue.stats(), expected);
}

#[tokio::test(start_paused = true)]
async fn retries_of_all_keys_share_a_token_bucket() {
    let queue = WorkQueue::new(WorkQueueOptions {
        bucket: Some(BucketRateLimiter {
            rate: 10.0,
            burst: 2.0,
        }),
        ..WorkQueueOptions::default()
    });
    let start = Instant::now();
    for key in 0..12 {
        queue.add(key);
        next(&queue).await.fail();
    }
    for _ in 0..12 {
        next(&queue).await.done();
    }
    assert_eq!(
        start.elapsed().as_millis() / 10,
        100,
        "a burst of two, then ten per second"
    );
}

#[tokio::test(start_paused = true)]
async fn the_earliest_scheduled_time_wins() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", 50 * MS);
    queue.add_after("a", 20 * MS);
    queue.add_after("a", 80 * MS);
    next(&queue).await.requeue_after(40 * MS);
    assert_eq!(start.elapsed(), 20 * MS);
    next(&queue).await.done();
    assert_eq!(start.elapsed(), 60 * MS);
    assert!(queue.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn debounce_waits_for_a_quiet_period_of_limited_length() {
    let queue = WorkQueue::new(WorkQueueOptions {
        debounce: Some(Debounce {
            quiet: 10 * MS,
            longest: 35 * MS,
        }),
        ..WorkQueueOptions::default()
    });
    let start = Instant::now();
    queue.add("a");
    advance(5 * MS).await;
    queue.add("a");
    next(&queue).await.done();
    assert_eq!(start.elapsed(), 15 * MS);
    let start = Instant::now();
    for _ in 0..7 {
        queue.add("b");
        advance(5 * MS).await;
    }
    next(&queue).await.done();
    assert_eq!(start.elapsed(), 35 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_drains_and_ends() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    queue.add_after("late", MS);
    let item = next(&queue).await;
    queue.add("a");
    queue.close();
    queue.add("c");
    let drained = queue.wait_until_drained();
    tokio::pin!(drained);
    assert!(timeout(MS, &mut drained).await.is_err(), "keys are left");
    let other = next(&queue).await;
    assert_eq!(*other.key(), "b");
    assert!(
        other.fail().retry_after.is_none(),
        "a closed queue does not retry"
    );
    item.done();
    assert_eq!(
        *next(&queue).await.key(),
        "a",
        "it was added before the queue was closed"
    );
    drained.await;
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn close_wakes_all_waiting_workers() {
    let queue = queue();
    let mut workers = JoinSet::new();
    for _ in 0..5 {
        let queue = queue.clone();
        workers.spawn(async move { queue.next().await.is_none() });
    }
    tokio::task::yield_now().await;
    queue.close();
    assert_eq!(workers.join_all().await, [true; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_item_counts_as_failed() {
    let queue = queue();
    queue.add("a");
    drop(next(&queue).await);
    assert_eq!(next(&queue).await.failures(), 1);
}

#[tokio::test(start_paused = true)]
async fn putting_a_key_back_keeps_its_failures() {
    let queue = queue();
    queue.add("a");
    next(&queue).await.fail();
    let start = Instant::now();
    next(&queue).await.put_back_after(Duration::from_secs(1));
    let item = next(&queue).await;
    assert_eq!((item.failures(), start.elapsed().as_secs()), (1, 1));
    item.put_back_after(Duration::from_hours(1));
    queue.add("a");
    assert_eq!(next(&queue).await.failures(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_can_set_a_minimum_delay() {
    let queue = queue();
    queue.add("a");
    let failure = next(&queue).await.fail_with_min_delay(Duration::from_secs(7));
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    let start = Instant::now();
    assert_eq!(next(&queue).await.failures(), 1);
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn requeues_do_not_keep_a_closed_queue_from_ending() {
    let queue = queue();
    queue.add("a");
    let item = next(&queue).await;
    queue.add("a");
    queue.close();
    item.requeue_with_priority(1);
    // The addition during processing still counts; requeues after the close do not.
    next(&queue).await.requeue_with_priority(1);
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn processing_lists_keys_and_durations() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    let first = next(&queue).await;
    let second = next(&queue).await;
    advance(Duration::from_secs(2)).await;
    let third = next(&queue).await;
    first.done();
    let mut running = queue.processing();
    running.sort_unstable();
    assert_eq!(running, [("b", Duration::from_secs(2)), ("c", Duration::ZERO)]);
    assert_eq!(second.done(), Duration::from_secs(2));
    let (processing_time, next_item) = third.done_and_next();
    assert_eq!((processing_time, queue.processing().len()), (Duration::ZERO, 1));
    drop(next_item);
    assert!(queue.processing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn there_is_always_a_timekeeper() {
    let queue = queue();
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let queue = queue.clone();
        workers.spawn(async move { next(&queue).await.done() });
    }
    // A timekeeper that stops waiting hands its role over.
    queue.add_after("a", Duration::from_secs(1));
    assert!(timeout(Duration::from_millis(500), queue.next()).await.is_err());
    let start = Instant::now();
    workers.join_next().await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(500));
    // An earlier time resets the timer, and each key that becomes ready wakes a worker.
    queue.add_after("b", Duration::from_mins(1));
    queue.add_after("c", Duration::from_secs(1));
    queue.add_after("d", Duration::from_secs(1));
    let start = Instant::now();
    for _ in 0..2 {
        workers.join_next().await.unwrap().unwrap();
    }
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert_eq!(*next(&queue).await.key(), "b");
    assert_eq!(start.elapsed(), Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn an_infinite_delay_does_not_overflow() {
    let queue = queue();
    queue.add_after("a", Duration::MAX);
    queue.add_after("b", Duration::from_secs(1));
    let item = next(&queue).await;
    assert_eq!(*item.key(), "b");
    item.requeue_after(Duration::MAX);
    assert_eq!(queue.stats().waiting, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_two_workers_have_the_same_key_and_no_addition_is_lost() {
    const KEYS: usize = 50;
    let queue = WorkQueue::new(WorkQueueOptions::default().lanes_by(|key: &usize| key % 7));
    let running: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let added: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let queue = queue.clone();
        let running = Arc::clone(&running);
        let added = Arc::clone(&added);
        let seen = Arc::clone(&seen);
        workers.spawn(async move {
            while let Some(item) = queue.next().await {
                let key = *item.key();
                assert_eq!(
                    running[key].fetch_add(1, Ordering::SeqCst),
                    0,
                    "no other worker has the key"
                );
                let state = added[key].load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                seen[key].store(state, Ordering::SeqCst);
                running[key].fetch_sub(1, Ordering::SeqCst);
                item.done();
            }
        });
    }
    for round in 0..20_000 {
        let key = round * 31 % KEYS;
        added[key].fetch_add(1, Ordering::SeqCst);
        queue.add(key);
        if round % 97 == 0 {
            tokio::task::yield_now().await;
        }
    }
    queue.close();
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    for key in 0..KEYS {
        assert_eq!(
            seen[key].load(Ordering::SeqCst),
            added[key].load(Ordering::SeqCst)
        );
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, i32),
    After(u8, u64),
    Take,
    Done(usize),
    Requeue(usize, u64),
    Fail(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_u8, -1..2_i32).prop_map(|(key, priority)| Step::Add(key, priority)),
        1 => (0..12_u8, 0..40_u64).prop_map(|(key, after)| Step::After(key, after)),
        4 => Just(Step::Take),
        2 => (0..8_usize).prop_map(Step::Done),
        1 => (0..8_usize, 0..40_u64).prop_map(|(item, after)| Step::Requeue(item, after)),
        1 => (0..8_usize).prop_map(Step::Fail),
        2 => (0..30_u64).prop_map(Step::Advance),
    ]
}

/// The simplest model of the queue: from when on each key has to be handed out.
#[derive(Default)]
struct QueueModel {
    due: HashMap<u8, QueueTime>,
    processing: HashSet<u8>,
}

impl QueueModel {
    fn schedule(&mut self, key: u8, at: QueueTime) {
        let due = self.due.entry(key).or_insert(at);
        *due = at.min(*due);
    }
}

proptest! {
    #[test]
    fn exactly_the_due_keys_are_handed_out(steps in vec(step(), 1..200)) {
        let mut now = QueueTime::default();
        let options = WorkQueueOptions::default().lanes_by(|key: &u8| key % 3);
        let key_hasher = state::KeyHasher::new(&options);
        let mut state = state::QueueState::new(options);
        let mut model = QueueModel::default();
        let mut items: Vec<state::HandedOutKey<u8>> = Vec::new();
        for step in steps {
            match step {
                Step::Add(key, priority) => {
                    state.add(key_hasher.hash(key), priority, now);
                    model.schedule(key, now);
                }
                Step::After(key, after) => {
                    let at = now.plus(Duration::from_millis(after));
                    state.add_at(key_hasher.hash(key), 0, at, now);
                    model.schedule(key, at);
                }
                Step::Advance(time) => now = now.plus(Duration::from_millis(time)),
                Step::Take => {
                    let is_due = |key: &u8| model.due[key] <= now && !model.processing.contains(key);
                    match state.take(now) {
                        Some(item) => {
                            prop_assert!(model.due.contains_key(&item.key) && is_due(&item.key));
                            model.due.remove(&item.key);
                            model.processing.insert(item.key);
                            items.push(item);
                        }
                        None => prop_assert!(!model.due.keys().any(is_due)),
                    }
                }
                Step::Done(item) | Step::Requeue(item, _) | Step::Fail(item) => {
                    if items.is_empty() {
                        continue;
                    }
                    let item = items.swap_remove(item % items.len());
                    model.processing.remove(&item.key);
                    let completion = match step {
                        Step::Requeue(_, after) => {
                            let after = Duration::from_millis(after);
                            model.schedule(item.key, now.plus(after));
                            state::Completion::Requeue { after, priority: 0 }
                        }
                        Step::Fail(_) => state::Completion::Failed {
                            min_delay: Duration::ZERO,
                        },
                        _ => state::Completion::Done,
                    };
                    let (failure, _) = state.finish(item.slot, completion, now);
                    if let Some(retry_after) = failure.and_then(|failure| failure.retry_after) {
                        prop_assert!(retry_after > Duration::ZERO);
                        model.schedule(item.key, now.plus(retry_after));
                    }
                }
            }
            let stats = state.stats();
            prop_assert_eq!(stats.running, model.processing.len());
            prop_assert!(stats.depth + stats.waiting <= model.due.len());
        }
    }
}
