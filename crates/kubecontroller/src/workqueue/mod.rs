//! A work queue with deduplication, delays, backoff, priorities and fairness.
//!
//! It combines client-go's `workqueue` (queue, delaying queue and rate limiting queue) with controller-runtime's priority queue,
//! and adds lanes.
//!
//! Guarantees:
//! - A key is in the queue at most once and is processed by one worker at a time. Any number of additions while it is being
//!   processed cause exactly one more run.
//! - Higher priorities are handed out first. Within a priority the lanes take turns; within a lane the order is first in, first out.
//! - A key that failed waits for its backoff, which doubles with each failure in a row. An addition runs it at once; if it fails
//!   again before the backoff has expired, the backoff does not grow.
//! - A closed queue accepts no keys, hands out the keys that are ready, and then ends.
//!
//! No operation takes time proportional to the number of keys.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use kubecontroller::workqueue::{WorkQueue, WorkQueueOptions};
//!
//! let queue = WorkQueue::new(WorkQueueOptions::default().lanes_by(|key: &(String, String)| key.0.clone()));
//! queue.add(("default".to_owned(), "web".to_owned()));
//! let item = queue.next().await.expect("the queue is open");
//! assert_eq!(item.key().1, "web");
//! item.done();
//! # }
//! ```

mod lanes;
mod next_item;
mod options;
mod state;
// `testing/queue-model` compiles this module against a model checker's locks. It declares the feature but never enables it,
// because these tests need real threads.
#[cfg(all(test, feature = "testing"))]
mod tests;
mod time;
mod token_bucket;
mod waiters;

use std::{hash::Hash, sync::Arc, task::Waker, time::Duration};

use tokio::{sync::Notify, time::Instant};

pub use self::{
    next_item::NextItem,
    options::{BucketRateLimiter, Debounce, LaneFn, WorkQueueOptions},
    state::{FailureReport, WorkQueueStats},
};
use self::{
    state::{Completion, HandedOutKey, KeyHasher, QueueState, Wakeup},
    time::QueueTime,
    waiters::Waiters,
};
use crate::sync::{Mutex, MutexGuard};

/// A queue of keys. Clones are handles of the same queue.
#[doc(alias = "RateLimitingInterface")]
#[doc(alias = "DelayingInterface")]
pub struct WorkQueue<K> {
    shared: Arc<QueueShared<K>>,
}

struct QueueShared<K> {
    key_hasher: KeyHasher<K>,
    created_at: Instant,
    locked: Mutex<LockedQueue<K>>,
    /// Notified when the queue has drained.
    drained: Notify,
}

struct LockedQueue<K> {
    state: QueueState<K>,
    waiters: Waiters,
    /// The number of callers of [`WorkQueue::wait_until_drained`].
    drain_waiters: usize,
}

/// A key that a worker is processing. Dropping it without calling one of its methods counts as a failure, so a worker that panics
/// does not lose the key.
#[must_use = "dropping a work item counts as a failure"]
pub struct WorkItem<K: Clone + Eq + Hash> {
    /// `None` once the item is finished.
    queue: Option<WorkQueue<K>>,
    key: K,
    slot: u32,
    priority: i32,
    failures: u32,
    queue_time: Duration,
    started_at: Instant,
}

// --- WorkQueue ---

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        WorkQueue {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    pub fn new(options: WorkQueueOptions<K>) -> Self {
        WorkQueue {
            shared: Arc::new(QueueShared {
                key_hasher: KeyHasher::new(&options),
                created_at: Instant::now(),
                locked: Mutex::new(LockedQueue {
                    state: QueueState::new(options),
                    waiters: Waiters::default(),
                    drain_waiters: 0,
                }),
                drained: Notify::new(),
            }),
        }
    }

    /// Adds a key with priority 0.
    pub fn add(&self, key: K) {
        self.add_with_priority(key, 0);
    }

    /// Adds a key. If it is in the queue already, its priority is raised to this one.
    pub fn add_with_priority(&self, key: K, priority: i32) {
        // Hashing and reading the clock need no lock, so they are done before it is taken.
        let hashed = self.shared.key_hasher.hash(key);
        let now = self.queue_time(Instant::now());
        let mut locked = self.lock();
        let wakeup = locked.state.add(hashed, priority, now);
        locked.unlock_and_notify(wakeup);
    }

    /// Adds a key after a delay. If the key becomes ready earlier anyway, nothing changes.
    #[doc(alias = "AddAfter")]
    pub fn add_after(&self, key: K, after: Duration) {
        let hashed = self.shared.key_hasher.hash(key);
        let now = self.queue_time(Instant::now());
        let mut locked = self.lock();
        let wakeup = locked.state.add_at(hashed, 0, now.plus(after), now);
        locked.unlock_and_notify(wakeup);
    }

    /// Waits for the next key. Returns `None` once the queue is closed and empty.
    #[doc(alias = "Get")]
    pub fn next(&self) -> NextItem<K> {
        NextItem::new(self.clone(), None)
    }

    /// The next key, if one is ready.
    pub fn try_next(&self) -> Option<WorkItem<K>> {
        let now = Instant::now();
        let handed_out = self.lock().state.take(self.queue_time(now))?;
        Some(WorkItem::new(self.clone(), handed_out, now))
    }

    /// Closes the queue: it accepts no more keys and drops delayed ones. Keys that are ready are still handed out.
    #[doc(alias = "ShutDown")]
    pub fn close(&self) {
        let mut locked = self.lock();
        locked.state.close();
        let wakers = locked.waiters.take_all();
        let is_drained = locked.state.is_drained();
        drop(locked);
        wakers.into_iter().for_each(Waker::wake);
        if is_drained {
            self.shared.drained.notify_waiters();
        }
    }

    /// Whether the queue is closed.
    #[doc(alias = "ShuttingDown")]
    pub fn is_closed(&self) -> bool {
        self.lock().state.is_closed()
    }

    /// Waits until no key is ready and none is being processed.
    #[doc(alias = "ShutDownWithDrain")]
    pub async fn wait_until_drained(&self) {
        let waiter = DrainWaiter::new(self);
        loop {
            // Created before the check: a notification between check and wait is not lost.
            let drained = waiter.0.shared.drained.notified();
            if self.lock().state.is_drained() {
                return;
            }
            drained.await;
        }
    }

    /// The statistics of the queue.
    pub fn stats(&self) -> WorkQueueStats {
        self.lock().state.stats()
    }

    /// The keys that are being processed, and for how long.
    pub fn processing(&self) -> Vec<(K, Duration)> {
        let now = self.queue_time(Instant::now());
        let locked = self.lock();
        let processing = locked.state.processing();
        processing
            .map(|(key, since)| (key.clone(), now.since(since)))
            .collect()
    }

    fn finish(&self, slot: u32, completion: Completion, now: Instant) -> Option<FailureReport> {
        let now = self.queue_time(now);
        let mut locked = self.lock();
        let (failure, wakeup) = locked.state.finish(slot, completion, now);
        let is_drained = locked.has_drained_for_waiter();
        locked.unlock_and_notify(wakeup);
        self.notify_drained(is_drained);
        failure
    }

    fn notify_drained(&self, is_drained: bool) {
        if is_drained {
            self.shared.drained.notify_waiters();
        }
    }

    fn queue_time(&self, time: Instant) -> QueueTime {
        QueueTime::new(time, self.shared.created_at)
    }

    fn instant(&self, time: QueueTime) -> Instant {
        time.instant(self.shared.created_at)
    }

    fn lock(&self) -> MutexGuard<'_, LockedQueue<K>> {
        self.shared.locked.lock()
    }
}

// --- LockedQueue ---

impl<K: Clone + Eq + Hash> LockedQueue<K> {
    /// Called when a worker stops waiting. It may have been woken for a key, or it was the timekeeper: another waiter takes over.
    fn pass_wakeup_on(&mut self) -> Option<Waker> {
        let wakeup = if self.state.has_ready() {
            Wakeup::KeyReady
        } else if self.state.next_due().is_some() && self.waiters.needs_timekeeper() {
            Wakeup::TimerChanged
        } else {
            Wakeup::None
        };
        self.waiters.take_waker(wakeup)
    }

    /// Whether the queue has drained and a caller waits for it.
    fn has_drained_for_waiter(&self) -> bool {
        self.drain_waiters > 0 && self.state.is_drained()
    }
}

/// Wakes a waiter after the lock is released, because the waiter takes the lock at once.
trait UnlockAndNotify {
    fn unlock_and_notify(self, wakeup: Wakeup);
}

impl<K: Clone + Eq + Hash> UnlockAndNotify for MutexGuard<'_, LockedQueue<K>> {
    fn unlock_and_notify(mut self, wakeup: Wakeup) {
        let waker = self.waiters.take_waker(wakeup);
        drop(self);
        waker.into_iter().for_each(Waker::wake);
    }
}

// --- DrainWaiter ---

/// Counts a caller of [`WorkQueue::wait_until_drained`] while it waits.
struct DrainWaiter<'q, K: Clone + Eq + Hash>(&'q WorkQueue<K>);

impl<'q, K: Clone + Eq + Hash> DrainWaiter<'q, K> {
    fn new(queue: &'q WorkQueue<K>) -> Self {
        queue.lock().drain_waiters += 1;
        DrainWaiter(queue)
    }
}

impl<K: Clone + Eq + Hash> Drop for DrainWaiter<'_, K> {
    fn drop(&mut self) {
        self.0.lock().drain_waiters -= 1;
    }
}

// --- WorkItem ---

impl<K: Clone + Eq + Hash> WorkItem<K> {
    fn new(queue: WorkQueue<K>, handed_out: HandedOutKey<K>, started_at: Instant) -> Self {
        WorkItem {
            queue: Some(queue),
            key: handed_out.key,
            slot: handed_out.slot,
            priority: handed_out.priority,
            failures: handed_out.failures,
            queue_time: handed_out.queue_time,
            started_at,
        }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The priority with which the key was queued.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Failures in a row before this run.
    #[doc(alias = "NumRequeues")]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// How long the key was ready before it was handed out.
    pub fn queue_time(&self) -> Duration {
        self.queue_time
    }

    /// How long the key has been processed.
    pub fn processing_time(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// Finishes the item successfully and resets its failures: client-go's `Forget` and `Done`. Returns the processing time.
    #[doc(alias = "Forget")]
    pub fn done(mut self) -> Duration {
        self.finish(Completion::Done).0
    }

    /// [`WorkItem::done`] and [`WorkQueue::next`] under one lock, at about half the cost. The item is finished when the returned
    /// future is polled or dropped. Also returns the processing time.
    pub fn done_and_next(mut self) -> (Duration, NextItem<K>) {
        let now = Instant::now();
        let processing_time = now.saturating_duration_since(self.started_at);
        let queue = self.queue.take().expect("an item is finished once");
        (processing_time, NextItem::new(queue, Some((self.slot, now))))
    }

    /// Finishes the item successfully and adds its key again after a delay. Returns the processing time.
    pub fn requeue_after(mut self, after: Duration) -> Duration {
        let priority = self.priority;
        self.finish(Completion::Requeue { after, priority }).0
    }

    /// Finishes the item successfully and adds its key again at once, with another priority. Returns the processing time.
    pub fn requeue_with_priority(mut self, priority: i32) -> Duration {
        let after = Duration::ZERO;
        self.finish(Completion::Requeue { after, priority }).0
    }

    /// Puts the key back unprocessed. It is handed out again after a delay, or earlier if it is added. Its failures are kept.
    pub fn put_back_after(mut self, after: Duration) {
        self.finish(Completion::PutBack { after });
    }

    /// Finishes the item with a failure. Its key is added again after its backoff: client-go's `AddRateLimited`.
    #[doc(alias = "AddRateLimited")]
    pub fn fail(self) -> FailureReport {
        self.fail_with_min_delay(Duration::ZERO)
    }

    /// Like [`fail`](Self::fail), with a minimum delay, such as the `Retry-After` of a response.
    pub fn fail_with_min_delay(mut self, min_delay: Duration) -> FailureReport {
        let (_, failure) = self.finish(Completion::Failed { min_delay });
        failure.expect("a failure has a report")
    }

    fn finish(&mut self, completion: Completion) -> (Duration, Option<FailureReport>) {
        let now = Instant::now();
        let queue = self.queue.take();
        let failure = queue.and_then(|queue| queue.finish(self.slot, completion, now));
        (now.saturating_duration_since(self.started_at), failure)
    }
}

impl<K: Clone + Eq + Hash> Drop for WorkItem<K> {
    fn drop(&mut self) {
        if self.queue.is_some() {
            let min_delay = Duration::ZERO;
            self.finish(Completion::Failed { min_delay });
        }
    }
}
