//! Write tasks, which continue when their client disconnects or times out: a write that was started is completed.

use std::{future::Future, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::oneshot, task::JoinSet, time};

/// The writes that are under way. A write that panics ends its own task, outside of the lock.
#[derive(Default)]
pub(super) struct WriteTasks(Mutex<JoinSet<()>>);

// --- WriteTasks ---

impl WriteTasks {
    /// Starts a write. The caller may stop waiting for it.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        write: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, outcome) = oneshot::channel();
        let mut writes = self.lock();
        while writes.try_join_next().is_some() {}
        writes.spawn(async move {
            // The caller may have stopped waiting.
            let _ = done.send(write.await);
        });
        outcome
    }

    /// Waits for running writes, and aborts those that exceed the time limit.
    pub(super) async fn end(&self, patience: Duration) {
        let mut writes = std::mem::take(&mut *self.lock());
        let all = async { while writes.join_next().await.is_some() {} };
        if time::timeout(patience, all).await.is_err() {
            tracing::warn!("writes aborted at shutdown after the drain timeout");
        }
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn abandoned_write_completes() {
        let writers = WriteTasks::default();
        let (reported, ended) = oneshot::channel();
        drop(writers.begin(async move {
            time::sleep(Duration::from_secs(1)).await;
            let _ = reported.send("ended");
        }));
        assert_eq!(ended.await, Ok("ended"));
        assert_eq!(writers.begin(async { 7 }).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_waits_bounded_time_for_writes() {
        let writers = WriteTasks::default();
        let short = writers.begin(time::sleep(Duration::from_secs(1)));
        let long = writers.begin(time::sleep(Duration::from_secs(100)));
        writers.end(Duration::from_secs(5)).await;
        assert!(short.await.is_ok());
        assert!(long.await.is_err());
    }
}
