//! Limits how many sandboxes or containers are started at a time.
//!
//! A runtime that gets a hundred starts at once is slower in total than with a few at a time, and some of them time out.
//!
//! Promises: first in, first out; a slow start blocks others for at most [`SLOW`].

use std::{num::NonZeroUsize, pin::pin, thread::available_parallelism, time::Duration};

use tokio::{sync::Semaphore, time::timeout};

/// A start that takes longer no longer counts against the limit.
const SLOW: Duration = Duration::from_secs(10);
/// Minimum limit, and limit per CPU.
const MINIMUM_LIMIT: usize = 4;
const PER_CPU: usize = 2;

/// Limits concurrent starts.
#[derive(Debug)]
pub(super) struct StartLimiter {
    slots: Semaphore,
}

// --- StartLimiter ---

impl StartLimiter {
    /// A limit that suits the number of CPUs.
    pub(super) fn new() -> Self {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        StartLimiter::with_limit(MINIMUM_LIMIT.max(PER_CPU * processors))
    }

    fn with_limit(slots: usize) -> Self {
        StartLimiter {
            slots: Semaphore::new(slots),
        }
    }

    /// Runs `work` when a slot is free.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
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
    async fn limits_concurrent_starts() {
        let limiter = StartLimiter::with_limit(3);
        let now = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        join_all((0..30).map(|_| {
            limiter.run(async {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::Relaxed);
            })
        }))
        .await;
        assert_eq!(most.into_inner(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_start_releases_its_slot() {
        let limiter = StartLimiter::with_limit(1);
        let begun = Instant::now();
        let slow = limiter.run(sleep(Duration::from_mins(2)));
        let quick = async {
            limiter.run(async {}).await;
            begun.elapsed()
        };
        let ((), waited) = futures_util::join!(slow, quick);
        assert_eq!(waited, SLOW);
        assert_eq!(begun.elapsed(), Duration::from_mins(2));
    }
}
