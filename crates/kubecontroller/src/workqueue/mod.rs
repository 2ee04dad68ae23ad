//! Which key is worked on next, by whom, and when again.
//!
//! Promises:
//! - A key is in the queue at most once, and never with two workers at once. What happens to it while it is worked on causes
//!   exactly one more run.
//! - A higher priority comes first. Keys of one priority are served lane by lane in turn; within a lane first in, first out.
//! - A key that failed waits, twice as long after each failure in a row. An event runs it at once, but failing again before
//!   that wait is over does not make the next one longer.
//! - A queue that is closed takes nothing more, hands out what is ready, and then ends.
//!
//! No step takes time in proportion to the keys that are there.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use kubecontroller::workqueue::{WorkQueueOptions, WorkQueue};
//!
//! let queue = WorkQueue::new(WorkQueueOptions::default().lanes_by(|key: &(String, String)| key.0.clone()));
//! queue.add(("default".to_owned(), "web".to_owned()));
//! let job = queue.next().await.expect("the queue is open");
//! assert_eq!(job.key().1, "web");
//! job.done();
//! # }
//! ```

mod lanes;
mod next_item;
mod options;
mod state;
// Not in the model of the queue, which has the feature but never turned on: these tests need real threads.
#[cfg(all(test, feature = "testing"))]
mod tests;
mod time;
mod tokens;
mod waiters;

use std::{
    hash::Hash,
    sync::{Arc, PoisonError},
    task::Waker,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

pub use self::{
    next_item::NextItem,
    options::{BucketRateLimiter, Debounce, ExponentialBackoff, LaneFn, WorkQueueOptions},
    state::{FailureReport, WorkQueueStats},
};
use self::{
    state::{Completion, KeyHasher, State, TakenKey, Wakeup},
    time::QueueTime,
    waiters::Waiters,
};
use crate::sync::{Mutex, MutexGuard};

/// A queue of keys. Clones are the same queue.
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    hasher_of_keys: KeyHasher<K>,
    birth: Instant,
    inner: Mutex<Inner<K>>,
    /// Nothing is left to do.
    idle: Notify,
}

struct Inner<K> {
    state: State<K>,
    waiters: Waiters,
    /// How many wait until nothing is left to do.
    drainers: usize,
}

/// A key that is worked on. One that is dropped without a word counts as failed: so does a worker that panics.
#[must_use = "a job that is dropped counts as failed"]
pub struct WorkItem<K: Clone + Eq + Hash> {
    /// There until it is over.
    queue: Option<WorkQueue<K>>,
    key: K,
    slot: u32,
    priority: i32,
    failures: u32,
    waited: Duration,
    since: Instant,
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
    /// A queue with nothing in it.
    pub fn new(options: WorkQueueOptions<K>) -> Self {
        WorkQueue {
            shared: Arc::new(Shared {
                hasher_of_keys: KeyHasher::new(&options),
                birth: Instant::now(),
                inner: Mutex::new(Inner {
                    state: State::new(options),
                    waiters: Waiters::default(),
                    drainers: 0,
                }),
                idle: Notify::new(),
            }),
        }
    }

    /// Something happened to a key: it is to be worked on.
    pub fn add(&self, key: K) {
        self.add_with_priority(key, 0);
    }

    /// The same with a priority; 0 is the ordinary one. A key that is there already is moved to the front if this is higher.
    pub fn add_with_priority(&self, key: K, priority: i32) {
        // Whatever can be found out without the lock is found out without it.
        let (named, now) = (self.shared.hasher_of_keys.name(key), self.tick(Instant::now()));
        let mut inner = self.lock();
        let look = inner.state.add(named, priority, now);
        inner.wake(look);
    }

    /// A key is to be worked on after a while. If it is to be worked on sooner anyway, nothing changes.
    pub fn add_after(&self, key: K, after: Duration) {
        let (named, now) = (self.shared.hasher_of_keys.name(key), self.tick(Instant::now()));
        let mut inner = self.lock();
        let look = inner.state.add_at(named, 0, now.plus(after), now);
        inner.wake(look);
    }

    /// Waits for the next key. `None` once the queue is closed and has nothing left.
    pub fn next(&self) -> NextItem<K> {
        NextItem::new(self.clone(), None)
    }

    /// The next key if there is one that is ready.
    pub fn try_next(&self) -> Option<WorkItem<K>> {
        let now = Instant::now();
        let taken = self.lock().state.take(self.tick(now))?;
        Some(WorkItem::new(self.clone(), taken, now))
    }

    /// Takes no more keys and drops those that wait for a time to come. What is ready is still handed out.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.state.close();
        let everybody = inner.waiters.all();
        let is_idle = inner.state.is_idle();
        drop(inner);
        everybody.into_iter().for_each(Waker::wake);
        if is_idle {
            self.shared.idle.notify_waiters();
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.lock().state.is_closed()
    }

    /// Waits until nothing is ready and nothing runs.
    pub async fn wait_until_drained(&self) {
        let drainer = Drainer::of(self);
        loop {
            let idle = drainer.0.shared.idle.notified();
            if self.lock().state.is_idle() {
                return;
            }
            idle.await;
        }
    }

    /// What there is in the queue, and was.
    pub fn stats(&self) -> WorkQueueStats {
        self.lock().state.figures()
    }

    /// The keys that are worked on, and for how long.
    pub fn processing(&self) -> Vec<(K, Duration)> {
        let now = self.tick(Instant::now());
        let inner = self.lock();
        let running = inner.state.running();
        running
            .map(|(key, since)| (key.clone(), now.since(since)))
            .collect()
    }

    fn end(&self, slot: u32, end: Completion, now: Instant) -> Option<FailureReport> {
        let now = self.tick(now);
        let mut inner = self.lock();
        let (failure, look) = inner.state.end(slot, end, now);
        let is_awaited = inner.is_drain_over();
        inner.wake(look);
        self.notify_drained(is_awaited);
        failure
    }

    fn notify_drained(&self, is_awaited: bool) {
        if is_awaited {
            self.shared.idle.notify_waiters();
        }
    }

    fn tick(&self, time: Instant) -> QueueTime {
        QueueTime::of(time, self.shared.birth)
    }

    fn time(&self, tick: QueueTime) -> Instant {
        tick.time(self.shared.birth)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- Inner ---

impl<K: Clone + Eq + Hash> Inner<K> {
    /// Somebody stopped waiting: whoever else waits may be the one to see the next key, or the next time.
    fn pass_on(&mut self) -> Option<Waker> {
        let look = if self.state.has_ready() {
            Wakeup::Key
        } else if self.state.due().is_some() && self.waiters.is_time_unkept() {
            Wakeup::Time
        } else {
            Wakeup::Nobody
        };
        self.waiters.call(look)
    }

    /// Whether somebody waits for nothing to be left, and nothing is.
    fn is_drain_over(&self) -> bool {
        self.drainers > 0 && self.state.is_idle()
    }
}

/// Calls whoever has to look. The lock is given back first: the one who is called wants it.
trait NotifyWaiter {
    fn wake(self, look: Wakeup);
}

impl<K: Clone + Eq + Hash> NotifyWaiter for MutexGuard<'_, Inner<K>> {
    fn wake(mut self, look: Wakeup) {
        let call = self.waiters.call(look);
        drop(self);
        call.into_iter().for_each(Waker::wake);
    }
}

// --- Drainer ---

/// One who waits until nothing is left to do.
struct Drainer<'q, K: Clone + Eq + Hash>(&'q WorkQueue<K>);

impl<'q, K: Clone + Eq + Hash> Drainer<'q, K> {
    fn of(queue: &'q WorkQueue<K>) -> Self {
        queue.lock().drainers += 1;
        Drainer(queue)
    }
}

impl<K: Clone + Eq + Hash> Drop for Drainer<'_, K> {
    fn drop(&mut self) {
        self.0.lock().drainers -= 1;
    }
}

// --- WorkItem ---

impl<K: Clone + Eq + Hash> WorkItem<K> {
    fn new(queue: WorkQueue<K>, taken: TakenKey<K>, since: Instant) -> Self {
        WorkItem {
            queue: Some(queue),
            key: taken.key,
            slot: taken.slot,
            priority: taken.priority,
            failures: taken.failures,
            waited: taken.waited,
            since,
        }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Its priority.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// How often it failed in a row before this run.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// How long it was ready before it was worked on.
    pub fn queue_time(&self) -> Duration {
        self.waited
    }

    /// For how long it is worked on.
    pub fn processing_time(&self) -> Duration {
        self.since.elapsed()
    }

    /// It is done, and its failures are forgotten. Gives how long that took.
    pub fn done(mut self) -> Duration {
        self.finish(Completion::Done).0
    }

    /// It is done, and its failures are forgotten; the next key is waited for. The same as [`WorkItem::done`] and [`WorkQueue::next`]
    /// one after the other, at about half the cost. Gives how long it took.
    pub fn done_and_next(mut self) -> (Duration, NextItem<K>) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.since);
        let queue = self.queue.take().expect("a job is over once");
        (took, NextItem::new(queue, Some((self.slot, now))))
    }

    /// It is done for now, and to be worked on again after a while. Gives how long it took so far.
    pub fn requeue_after(mut self, after: Duration) -> Duration {
        let priority = self.priority;
        self.finish(Completion::Again { after, priority }).0
    }

    /// It is done for now, and to be worked on again at once with another priority. Gives how long it took so far.
    pub fn requeue_with_priority(mut self, priority: i32) -> Duration {
        let after = Duration::ZERO;
        self.finish(Completion::Again { after, priority }).0
    }

    /// It could not be worked on yet, and is to be handed out again after a while, or when something happens to it. Its
    /// failures are not forgotten.
    pub fn put_back_after(mut self, after: Duration) {
        self.finish(Completion::NotYet { after });
    }

    /// It failed: it is tried again later.
    pub fn fail(self) -> FailureReport {
        self.fail_with_min_delay(Duration::ZERO)
    }

    /// The same, where somebody said how long to wait at least.
    pub fn fail_with_min_delay(mut self, at_least: Duration) -> FailureReport {
        let (_, failure) = self.finish(Completion::Failed { at_least });
        failure.expect("a failure is told what becomes of it")
    }

    fn finish(&mut self, end: Completion) -> (Duration, Option<FailureReport>) {
        let now = Instant::now();
        let queue = self.queue.take();
        let failure = queue.and_then(|queue| queue.end(self.slot, end, now));
        (now.saturating_duration_since(self.since), failure)
    }
}

impl<K: Clone + Eq + Hash> Drop for WorkItem<K> {
    fn drop(&mut self) {
        if self.queue.is_some() {
            let at_least = Duration::ZERO;
            self.finish(Completion::Failed { at_least });
        }
    }
}
