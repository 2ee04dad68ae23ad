//! Decoding beside the reading.
//!
//! Promises: results come in the order of the work; so many are under way that every core has one, and no more.

use std::{collections::VecDeque, thread::available_parallelism};

use tokio::{sync::oneshot, task::spawn_blocking};

use super::list_watch::ListWatchError;

/// Work that is being done on other threads.
pub(super) struct Pool<R> {
    under_way: VecDeque<Job<R>>,
    most: usize,
}

enum Job<R> {
    Done(R),
    UnderWay(oneshot::Receiver<R>),
}

/// Less than this is done at once: it takes less time than to hand it over.
const WORTH_IT: usize = 64 * 1024;

// --- Pool ---

impl<R: Send + 'static> Pool<R> {
    pub(super) fn new() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Pool {
            under_way: VecDeque::new(),
            most: cores + 1,
        }
    }

    /// Whether more work may be added.
    pub(super) fn has_room(&self) -> bool {
        self.under_way.len() < self.most
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Adds work on so many bytes.
    pub(super) fn add(&mut self, size: usize, work: impl FnOnce() -> R + Send + 'static) {
        self.under_way.push_back(if size < WORTH_IT {
            Job::Done(work())
        } else {
            let (done, result) = oneshot::channel();
            // Boxed: tasks of one type are compiled once, not for each type of object.
            let work: Box<dyn FnOnce() + Send> = Box::new(move || {
                // Who asked may have gone meanwhile.
                let _ = done.send(work());
            });
            spawn_blocking(work);
            Job::UnderWay(result)
        });
    }

    /// The result of the oldest work. `None` if there is none. Nothing is lost if this is cancelled.
    pub(super) async fn next(&mut self) -> Option<Result<R, ListWatchError>> {
        if let Job::UnderWay(job) = self.under_way.front_mut()? {
            let Ok(result) = job.await else {
                // It never answered: it panicked, which the log has.
                self.under_way.clear();
                let why = "an object cannot be read: reading it panicked";
                return Some(Err(ListWatchError::Broken(why.to_owned())));
            };
            self.under_way.pop_front();
            return Some(Ok(result));
        }
        match self.under_way.pop_front()? {
            Job::Done(result) => Some(Ok(result)),
            Job::UnderWay(_) => unreachable!("it was awaited above"),
        }
    }
}
