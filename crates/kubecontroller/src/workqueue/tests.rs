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

use super::{
    BucketRateLimiter, Debounce, ExponentialBackoff, WorkQueue, WorkQueueOptions, state, time::QueueTime,
};

const MS: Duration = Duration::from_millis(1);

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(WorkQueueOptions::default())
}

async fn next<K: Clone + Eq + std::hash::Hash>(queue: &WorkQueue<K>) -> super::WorkItem<K> {
    queue.next().await.expect("the queue is open")
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_the_order_they_were_added_each_once() {
    let queue = queue();
    for key in ["a", "b", "a", "c", "b"] {
        queue.add(key);
    }
    for key in ["a", "b", "c"] {
        let job = next(&queue).await;
        assert_eq!(*job.key(), key);
        job.done();
    }
    assert!(queue.try_next().is_none());
    assert_eq!(queue.stats().adds, 3);
}

#[tokio::test(start_paused = true)]
async fn what_happens_during_a_run_causes_one_more() {
    let queue = queue();
    queue.add("a");
    let job = next(&queue).await;
    for _ in 0..100 {
        queue.add("a");
    }
    assert!(queue.try_next().is_none(), "nobody else gets the key");
    job.done();
    next(&queue).await.done();
    assert!(queue.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_higher_priority_comes_first_and_lifts_a_key_that_waits_its_turn() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    queue.add_with_priority("c", 5);
    queue.add_with_priority("d", 1);
    queue.add_with_priority("a", -5);
    let mut order = Vec::new();
    while let Some(job) = queue.try_next() {
        order.push(*job.key());
        job.done();
    }
    assert_eq!(order, ["c", "d", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_lane_with_many_keys_does_not_keep_the_others_waiting() {
    let queue = WorkQueue::new(WorkQueueOptions::default().lanes_by(|key: &(u8, u16)| key.0));
    for number in 0..100 {
        queue.add((1, number));
    }
    queue.add((2, 0));
    queue.add((2, 1));
    let mut order = Vec::new();
    while let Some(job) = queue.try_next() {
        order.push(*job.key());
        job.done();
    }
    assert_eq!(order[..5], [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]);
    assert_eq!(order.len(), 102);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_waits_twice_as_long_each_time_up_to_the_most() {
    let queue = WorkQueue::new(WorkQueueOptions {
        backoff: ExponentialBackoff {
            base: 5 * MS,
            max: 30 * MS,
        },
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
        "the fifth is reported, once"
    );
    next(&queue).await.done();
    queue.add("a");
    let failure = next(&queue).await.fail();
    assert_eq!(failure.failures, 1, "success is a new beginning");
}

#[tokio::test(start_paused = true)]
async fn failing_early_because_of_an_event_does_not_make_the_next_wait_longer() {
    let queue = WorkQueue::new(WorkQueueOptions {
        backoff: ExponentialBackoff {
            base: 100 * MS,
            max: 1000 * MS,
        },
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
    assert_eq!(start.elapsed(), Duration::ZERO, "events run it at once");
    let failure = next(&queue).await.fail();
    assert_eq!(start.elapsed(), 100 * MS);
    assert_eq!(failure.retry_after, Some(200 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_dropped_after_as_many_retries_as_it_may_have() {
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
    assert_eq!(queue.stats(), {
        let mut none = state::WorkQueueStats::default();
        (none.adds, none.retries) = (6, 5);
        none
    });
}

#[tokio::test(start_paused = true)]
async fn retries_of_all_keys_share_a_bucket() {
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
        "two at once, and ten in a second"
    );
}

#[tokio::test(start_paused = true)]
async fn the_earliest_of_the_times_a_key_is_wanted_at_counts() {
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
async fn events_are_left_to_come_to_rest_but_not_for_ever() {
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
async fn a_closed_queue_works_off_what_is_ready_and_ends() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    queue.add_after("late", MS);
    let job = next(&queue).await;
    queue.add("a");
    queue.close();
    queue.add("c");
    let drained = queue.wait_until_drained();
    tokio::pin!(drained);
    assert!(timeout(MS, &mut drained).await.is_err(), "there is work left");
    let other = next(&queue).await;
    assert_eq!(*other.key(), "b");
    assert!(other.fail().retry_after.is_none(), "there is no later");
    job.done();
    assert_eq!(
        *next(&queue).await.key(),
        "a",
        "what happened before the end is seen"
    );
    drained.await;
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn everybody_who_waits_hears_of_the_end() {
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
async fn a_job_that_is_lost_counts_as_failed() {
    let queue = queue();
    queue.add("a");
    drop(next(&queue).await);
    assert_eq!(next(&queue).await.failures(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_worked_on_yet_has_neither_failed_nor_succeeded() {
    let queue = queue();
    queue.add("a");
    next(&queue).await.fail();
    let start = Instant::now();
    next(&queue).await.put_back_after(Duration::from_secs(1));
    let job = next(&queue).await;
    assert_eq!((job.failures(), start.elapsed().as_secs()), (1, 1));
    job.put_back_after(Duration::from_hours(1));
    queue.add("a");
    assert_eq!(next(&queue).await.failures(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_may_say_how_long_to_wait_at_least() {
    let queue = queue();
    queue.add("a");
    let failure = next(&queue).await.fail_with_min_delay(Duration::from_secs(7));
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    let start = Instant::now();
    assert_eq!(next(&queue).await.failures(), 1);
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn who_always_asks_for_another_run_does_not_keep_a_queue_from_closing() {
    let queue = queue();
    queue.add("a");
    let job = next(&queue).await;
    queue.add("a");
    queue.close();
    job.requeue_with_priority(1);
    // What happened during the run is still worked on; what the run asked for is not.
    next(&queue).await.requeue_with_priority(1);
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_worked_on_is_known() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    let (first, second) = (next(&queue).await, next(&queue).await);
    advance(Duration::from_secs(2)).await;
    let third = next(&queue).await;
    first.done();
    let mut running = queue.processing();
    running.sort_unstable();
    assert_eq!(running, [("b", Duration::from_secs(2)), ("c", Duration::ZERO)]);
    assert_eq!(second.done(), Duration::from_secs(2));
    let (took, waits) = third.done_and_next();
    assert_eq!((took, queue.processing().len()), (Duration::ZERO, 1));
    drop(waits);
    assert!(queue.processing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn somebody_always_keeps_the_time() {
    let queue = queue();
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let queue = queue.clone();
        workers.spawn(async move { next(&queue).await.done() });
    }
    // One that leaves while it keeps the time hands it over.
    queue.add_after("a", Duration::from_secs(1));
    assert!(timeout(Duration::from_millis(500), queue.next()).await.is_err());
    let start = Instant::now();
    workers.join_next().await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(500));
    // An earlier time is heard of, and keys that become ready together wake as many.
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
async fn a_wait_without_an_end_has_none() {
    let queue = queue();
    queue.add_after("a", Duration::MAX);
    queue.add_after("b", Duration::from_secs(1));
    let job = next(&queue).await;
    assert_eq!(*job.key(), "b");
    job.requeue_after(Duration::MAX);
    assert_eq!(queue.stats().waiting, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_two_workers_have_a_key_and_nothing_is_forgotten() {
    const KEYS: usize = 50;
    let queue = WorkQueue::new(WorkQueueOptions::default().lanes_by(|key: &usize| key % 7));
    let running: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let wanted: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let (queue, running) = (queue.clone(), Arc::clone(&running));
        let (wanted, seen) = (Arc::clone(&wanted), Arc::clone(&seen));
        workers.spawn(async move {
            while let Some(job) = queue.next().await {
                let key = *job.key();
                assert_eq!(
                    running[key].fetch_add(1, Ordering::SeqCst),
                    0,
                    "nobody else has it"
                );
                let state = wanted[key].load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                seen[key].store(state, Ordering::SeqCst);
                running[key].fetch_sub(1, Ordering::SeqCst);
                job.done();
            }
        });
    }
    for round in 0..20_000 {
        let key = round * 31 % KEYS;
        wanted[key].fetch_add(1, Ordering::SeqCst);
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
            wanted[key].load(Ordering::SeqCst)
        );
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, i32),
    After(u8, u64),
    Take,
    Done(usize),
    Again(usize, u64),
    Fail(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_u8, -1..2_i32).prop_map(|(key, priority)| Step::Add(key, priority)),
        1 => (0..12_u8, 0..40_u64).prop_map(|(key, after)| Step::After(key, after)),
        4 => Just(Step::Take),
        2 => (0..8_usize).prop_map(Step::Done),
        1 => (0..8_usize, 0..40_u64).prop_map(|(job, after)| Step::Again(job, after)),
        1 => (0..8_usize).prop_map(Step::Fail),
        2 => (0..30_u64).prop_map(Step::Pass),
    ]
}

/// What is promised of a key, told in the plainest way: from when on it has to be run.
#[derive(Default)]
struct Model {
    wanted: HashMap<u8, QueueTime>,
    running: HashSet<u8>,
}

impl Model {
    fn want(&mut self, key: u8, at: QueueTime) {
        let wanted = self.wanted.entry(key).or_insert(at);
        *wanted = at.min(*wanted);
    }
}

proptest! {
    #[test]
    fn whatever_happens_a_key_that_is_wanted_comes_and_no_other(steps in vec(step(), 1..200)) {
        let mut now = QueueTime::default();
        let options = WorkQueueOptions::default().lanes_by(|key: &u8| key % 3);
        let hasher_of_keys = state::KeyHasher::new(&options);
        let mut state = state::State::new(options);
        let mut model = Model::default();
        let mut jobs: Vec<state::TakenKey<u8>> = Vec::new();
        for step in steps {
            match step {
                Step::Add(key, priority) => {
                    state.add(hasher_of_keys.name(key), priority, now);
                    model.want(key, now);
                }
                Step::After(key, after) => {
                    let at = now.plus(Duration::from_millis(after));
                    state.add_at(hasher_of_keys.name(key), 0, at, now);
                    model.want(key, at);
                }
                Step::Pass(time) => now = now.plus(Duration::from_millis(time)),
                Step::Take => {
                    let is_ready =
                        |key: &u8| model.wanted[key] <= now && !model.running.contains(key);
                    match state.take(now) {
                        Some(taken) => {
                            prop_assert!(model.wanted.contains_key(&taken.key) && is_ready(&taken.key));
                            model.wanted.remove(&taken.key);
                            model.running.insert(taken.key);
                            jobs.push(taken);
                        }
                        None => prop_assert!(!model.wanted.keys().any(is_ready)),
                    }
                }
                Step::Done(job) | Step::Again(job, _) | Step::Fail(job) => {
                    if jobs.is_empty() {
                        continue;
                    }
                    let taken = jobs.swap_remove(job % jobs.len());
                    model.running.remove(&taken.key);
                    let end = match step {
                        Step::Again(_, after) => {
                            let after = Duration::from_millis(after);
                            model.want(taken.key, now.plus(after));
                            state::Completion::Again { after, priority: 0 }
                        }
                        Step::Fail(_) => state::Completion::Failed {
                            at_least: Duration::ZERO,
                        },
                        _ => state::Completion::Done,
                    };
                    let (failure, _) = state.end(taken.slot, end, now);
                    if let Some(retry) = failure.and_then(|failure| failure.retry_after) {
                        prop_assert!(retry > Duration::ZERO);
                        model.want(taken.key, now.plus(retry));
                    }
                }
            }
            let figures = state.figures();
            prop_assert_eq!(figures.running, model.running.len());
            prop_assert!(figures.depth + figures.waiting <= model.wanted.len());
        }
    }
}
