//! How many sandboxes, or containers, a runtime is asked to start at a time.
//!
//! Runtimes that are asked for a hundred at once start fewer in a second than those asked for a few, and give some up in the end.
//!
//! Promises: who waits longest comes next; who is slow keeps nobody waiting for longer than [`SLOW`].

use std::{num::NonZeroUsize, pin::pin, thread::available_parallelism, time::Duration};

use tokio::{sync::Semaphore, time::timeout};

/// From when on a start does not count any more: another one may begin beside it.
const SLOW: Duration = Duration::from_secs(10);
/// How many there may be on the smallest machine, and for each processor.
const LEAST: usize = 4;
const PER_PROCESSOR: usize = 2;

/// Lets some through at a time.
#[derive(Debug)]
pub(super) struct Gate {
    slots: Semaphore,
}

// --- Gate ---

impl Gate {
    /// For as many as this machine can start at a time.
    pub(super) fn new() -> Self {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        Gate::of(LEAST.max(PER_PROCESSOR * processors))
    }

    fn of(slots: usize) -> Self {
        Gate {
            slots: Semaphore::new(slots),
        }
    }

    /// Starts something, once it is its turn.
    pub(super) async fn through<T>(&self, work: impl Future<Output = T>) -> T {
        let slot = self.slots.acquire().await;
        let mut work = pin!(work);
        if let Ok(done) = timeout(SLOW, &mut work).await {
            return done;
        }
        drop(slot);
        work.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn some_go_through_at_a_time() {
        let (gate, now, most) = (Gate::of(3), AtomicUsize::new(0), AtomicUsize::new(0));
        join_all((0..30).map(|_| {
            gate.through(async {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::Relaxed);
            })
        }))
        .await;
        assert_eq!(most.into_inner(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_keeps_nobody_for_long() {
        let gate = Gate::of(1);
        let begun = Instant::now();
        let slow = gate.through(sleep(Duration::from_mins(2)));
        let quick = async {
            gate.through(async {}).await;
            begun.elapsed()
        };
        let ((), waited) = futures_util::join!(slow, quick);
        assert_eq!(waited, SLOW);
        assert_eq!(begun.elapsed(), Duration::from_mins(2));
    }
}
