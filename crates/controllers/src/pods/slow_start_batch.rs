//! Batches of requests with slow start.

use std::future::Future;

use futures_util::{StreamExt, stream};

/// How many requests of one object are under way at a time.
const WIDTH: usize = 64;

/// What became of many requests.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchResult<E> {
    /// How many succeeded.
    pub done: usize,
    /// Why the first of the others failed.
    pub error: Option<E>,
}

/// Runs `count` actions in batches of 1, 2, 4, ... After a failure no further batch starts, so that what
/// fails for all (a quota that is used up) is tried once or a few times, not hundreds of times.
// upstream: pkg/controller/replicaset/replica_set.go slowStartBatch
pub async fn slow_start_batch<E, F>(count: usize, mut act: impl FnMut() -> F) -> BatchResult<E>
where
    F: Future<Output = Result<(), E>>,
{
    let mut tally = BatchResult { done: 0, error: None };
    let mut left = count;
    let mut size = 1;
    while left > 0 && tally.error.is_none() {
        size = left.min(size);
        let batch = all((0..size).map(|_| act())).await;
        tally.done += batch.done;
        tally.error = batch.error;
        left -= size;
        size *= 2;
    }
    tally
}

/// Does all of something, whatever fails.
pub async fn all<E, F>(actions: impl IntoIterator<Item = F>) -> BatchResult<E>
where
    F: Future<Output = Result<(), E>>,
{
    let mut results = stream::iter(actions).buffer_unordered(WIDTH);
    let mut tally = BatchResult { done: 0, error: None };
    while let Some(result) = results.next().await {
        match result {
            Ok(()) => tally.done += 1,
            Err(error) => tally.error = tally.error.or(Some(error)),
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often something is done if everything after the first `good` times fails.
    async fn tried(count: usize, good: usize) -> (usize, BatchResult<&'static str>) {
        let tries = Cell::new(0);
        let tally = slow_start_batch(count, || {
            tries.set(tries.get() + 1);
            let fails = tries.get() > good;
            async move { if fails { Err("no more") } else { Ok(()) } }
        })
        .await;
        (tries.get(), tally)
    }

    #[tokio::test]
    async fn runs_all_actions_without_failures() {
        for count in [0, 1, 2, 5, 500] {
            let tally = BatchResult {
                done: count,
                error: None,
            };
            assert_eq!(tried(count, usize::MAX).await, (count, tally));
        }
    }

    #[tokio::test]
    async fn stops_after_the_batch_with_a_failure() {
        // Batches of 1, 2, 4, 8: the one in which the failure is, and those before it.
        for (good, tries) in [(0, 1), (1, 3), (2, 3), (3, 7), (7, 15)] {
            let tally = BatchResult {
                done: good,
                error: Some("no more"),
            };
            assert_eq!(tried(100, good).await, (tries, tally), "{good}");
        }
    }
}
