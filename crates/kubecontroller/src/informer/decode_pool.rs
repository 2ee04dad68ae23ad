//! Decodes on other threads while the response is still being read.

use std::{collections::VecDeque, thread::available_parallelism};

use tokio::{sync::oneshot, task::spawn_blocking};

use super::list_watch::ListWatchError;

/// Decode jobs on the blocking threads of tokio. Results are returned in the order in which the jobs were added. As many jobs
/// are in flight as there are cores, and one more to keep them busy.
pub(super) struct DecodePool<R> {
    jobs: VecDeque<DecodeJob<R>>,
    max_jobs: usize,
}

enum DecodeJob<R> {
    Done(R),
    Running(oneshot::Receiver<R>),
}

/// Smaller jobs run on the current thread: decoding takes less time than the handover.
const MIN_OFFLOADED_BYTES: usize = 64 * 1024;

// --- DecodePool ---

impl<R: Send + 'static> DecodePool<R> {
    pub(super) fn new() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        DecodePool {
            jobs: VecDeque::new(),
            max_jobs: cores + 1,
        }
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.jobs.len() < self.max_jobs
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Adds a job that decodes `size` bytes.
    pub(super) fn add(&mut self, size: usize, decode: impl FnOnce() -> R + Send + 'static) {
        self.jobs.push_back(if size < MIN_OFFLOADED_BYTES {
            DecodeJob::Done(decode())
        } else {
            let (done, result) = oneshot::channel();
            // Boxed, so that `spawn_blocking` is compiled once and not for each type of object.
            let job: Box<dyn FnOnce() + Send> = Box::new(move || {
                // Sending fails if the list was aborted meanwhile.
                let _ = done.send(decode());
            });
            spawn_blocking(job);
            DecodeJob::Running(result)
        });
    }

    /// The result of the oldest job. `None` if there is no job. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<R, ListWatchError>> {
        if let DecodeJob::Running(job) = self.jobs.front_mut()? {
            let Ok(result) = job.await else {
                // The sender was dropped without a result: the job panicked. The panic hook has logged it.
                self.jobs.clear();
                let message = "failed to decode an object: the decoder panicked";
                return Some(Err(ListWatchError::Failed(message.to_owned())));
            };
            self.jobs.pop_front();
            return Some(Ok(result));
        }
        match self.jobs.pop_front()? {
            DecodeJob::Done(result) => Some(Ok(result)),
            DecodeJob::Running(_) => unreachable!("a running job was awaited above"),
        }
    }
}
