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
//! use kubecontroller::queue::{Options, Queue};
//!
//! let queue = Queue::new(Options::default().lanes_by(|key: &(String, String)| key.0.clone()));
//! queue.add(("default".to_owned(), "web".to_owned()));
//! let job = queue.next().await.expect("the queue is open");
//! assert_eq!(job.key().1, "web");
//! job.done();
//! # }
//! ```

mod lanes;
mod options;
mod state;
#[cfg(test)]
mod tests;
mod tokens;

use std::{
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use self::state::{End, State};
pub use self::{
    options::{Backoff, Bucket, Debounce, LaneOf, Options},
    state::{Failure, Figures},
};

/// A queue of keys. Clones are the same queue.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    /// A key is ready, the next time to wait for is another one, or the queue was closed.
    changed: Notify,
    /// Nothing is left to do.
    idle: Notify,
}

/// A key that is worked on. One that is dropped without a word counts as failed: so does a worker that panics.
#[must_use = "a job that is dropped counts as failed"]
pub struct Job<K: Clone + Eq + Hash> {
    queue: Queue<K>,
    key: K,
    slot: u32,
    priority: i32,
    failures: u32,
    waited: Duration,
    since: Instant,
    is_over: bool,
}

// --- Queue ---

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// A queue with nothing in it.
    pub fn new(options: Options<K>) -> Self {
        Queue {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(options)),
                changed: Notify::new(),
                idle: Notify::new(),
            }),
        }
    }

    /// Something happened to a key: it is to be worked on.
    pub fn add(&self, key: K) {
        self.add_with(key, 0);
    }

    /// The same with a priority; 0 is the ordinary one. A key that is there already is moved to the front if this is higher.
    pub fn add_with(&self, key: K, priority: i32) {
        let wakes = self.state().add(key, priority, Instant::now());
        self.wake(wakes);
    }

    /// A key is to be worked on after a while. If it is to be worked on sooner anyway, nothing changes.
    pub fn add_after(&self, key: K, after: Duration) {
        let now = Instant::now();
        let wakes = self.state().add_at(key, 0, now + after, now);
        self.wake(wakes);
    }

    /// Waits for the next key. `None` once the queue is closed and has nothing left.
    pub async fn next(&self) -> Option<Job<K>> {
        loop {
            let changed = self.shared.changed.notified();
            let (due, closed) = {
                let mut state = self.state();
                if let Some(job) = self.take(&mut state) {
                    return Some(job);
                }
                (state.due(), state.is_closed())
            };
            match due {
                _ if closed => {
                    // The others who wait have to hear it too.
                    self.shared.changed.notify_one();
                    return None;
                }
                None => changed.await,
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(due) => {}
                },
            }
        }
    }

    /// The next key if there is one that is ready.
    pub fn try_next(&self) -> Option<Job<K>> {
        self.take(&mut self.state())
    }

    fn take(&self, state: &mut State<K>) -> Option<Job<K>> {
        let now = Instant::now();
        let taken = state.take(now)?;
        // Whoever else waits may be the one to see the next key, or the next time.
        if state.figures().depth > 0 || state.due().is_some() {
            self.shared.changed.notify_one();
        }
        Some(Job {
            queue: self.clone(),
            key: taken.key,
            slot: taken.slot,
            priority: taken.priority,
            failures: taken.failures,
            waited: taken.waited,
            since: now,
            is_over: false,
        })
    }

    /// Takes no more keys and drops those that wait for a time to come. What is ready is still handed out.
    pub fn close(&self) {
        let is_idle = {
            let mut state = self.state();
            state.close();
            state.is_idle()
        };
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
        if is_idle {
            self.shared.idle.notify_waiters();
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state().is_closed()
    }

    /// Waits until nothing is ready and nothing runs.
    pub async fn drained(&self) {
        loop {
            let idle = self.shared.idle.notified();
            if self.state().is_idle() {
                return;
            }
            idle.await;
        }
    }

    /// What there is in the queue, and was.
    pub fn figures(&self) -> Figures {
        self.state().figures()
    }

    /// The keys that are worked on, and for how long.
    pub fn running(&self) -> Vec<(K, Duration)> {
        let now = Instant::now();
        let state = self.state();
        let running = state.running();
        running
            .map(|(key, since)| (key.clone(), now.saturating_duration_since(since)))
            .collect()
    }

    fn end(&self, slot: u32, end: End, now: Instant) -> Option<Failure> {
        let (failure, wakes, is_idle) = {
            let mut state = self.state();
            let (failure, wakes) = state.end(slot, end, now);
            (failure, wakes, state.is_idle())
        };
        self.wake(wakes);
        if is_idle {
            self.shared.idle.notify_waiters();
        }
        failure
    }

    fn wake(&self, wakes: bool) {
        if wakes {
            self.shared.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- Job ---

impl<K: Clone + Eq + Hash> Job<K> {
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
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// For how long it is worked on.
    pub fn running(&self) -> Duration {
        self.since.elapsed()
    }

    /// It is done, and its failures are forgotten. Gives how long that took.
    pub fn done(mut self) -> Duration {
        self.finish(End::Done).0
    }

    /// It is done for now, and to be worked on again after a while. Gives how long it took so far.
    pub fn again_after(mut self, after: Duration) -> Duration {
        let priority = self.priority;
        self.finish(End::Again { after, priority }).0
    }

    /// It is done for now, and to be worked on again at once with another priority. Gives how long it took so far.
    pub fn again_with(mut self, priority: i32) -> Duration {
        let after = Duration::ZERO;
        self.finish(End::Again { after, priority }).0
    }

    /// It could not be worked on yet, and is to be handed out again after a while, or when something happens to it. Its
    /// failures are not forgotten.
    pub fn not_yet(mut self, after: Duration) {
        self.finish(End::NotYet { after });
    }

    /// It failed: it is tried again later.
    pub fn failed(self) -> Failure {
        self.failed_for(Duration::ZERO)
    }

    /// The same, where somebody said how long to wait at least.
    pub fn failed_for(mut self, at_least: Duration) -> Failure {
        let (_, failure) = self.finish(End::Failed { at_least });
        failure.expect("a failure is told what becomes of it")
    }

    fn finish(&mut self, end: End) -> (Duration, Option<Failure>) {
        self.is_over = true;
        let now = Instant::now();
        let failure = self.queue.end(self.slot, end, now);
        (now.saturating_duration_since(self.since), failure)
    }
}

impl<K: Clone + Eq + Hash> Drop for Job<K> {
    fn drop(&mut self) {
        if !self.is_over {
            self.finish(End::Failed {
                at_least: Duration::ZERO,
            });
        }
    }
}
