//! Requests that wait until a revision is in the caches.

use std::{cmp::Reverse, collections::BinaryHeap};

use k3_storage::Revision;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// Beyond this many, those whose request has ended are removed before another one is added.
const MANY: usize = 1024;

/// All waiters, ordered by revision.
#[derive(Default)]
pub(super) struct RevisionWaiters(Mutex<BinaryHeap<Reverse<RevisionWaiter>>>);

struct RevisionWaiter {
    revision: Revision,
    done: oneshot::Sender<()>,
}

// --- RevisionWaiters ---

impl RevisionWaiters {
    /// Adds a waiter, which is notified when the revision is reached.
    pub(super) fn add(&self, revision: Revision) -> oneshot::Receiver<()> {
        let (done, reached) = oneshot::channel();
        let mut waiters = self.lock();
        if waiters.len() >= MANY {
            waiters.retain(|Reverse(waiter)| !waiter.done.is_closed());
        }
        waiters.push(Reverse(RevisionWaiter { revision, done }));
        reached
    }

    /// Notifies all waiters for revisions up to this one.
    pub(super) fn notify(&self, revision: Revision) {
        let mut waiters = self.lock();
        while let Some(Reverse(first)) = waiters.peek()
            && first.revision <= revision
        {
            if let Some(Reverse(first)) = waiters.pop() {
                // Its request may have ended.
                let _ = first.done.send(());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<RevisionWaiter>>> {
        self.0.lock()
    }
}

// --- RevisionWaiter ---

impl PartialEq for RevisionWaiter {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision
    }
}

impl Eq for RevisionWaiter {}

impl PartialOrd for RevisionWaiter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RevisionWaiter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.revision.cmp(&other.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_notified_at_their_revision() {
        let waiters = RevisionWaiters::default();
        let mut at_seven = waiters.add(Revision::new(7));
        let mut at_five = waiters.add(Revision::new(5));
        waiters.notify(Revision::new(6));
        assert!(at_five.try_recv().is_ok());
        assert!(at_seven.try_recv().is_err());
        waiters.notify(Revision::new(7));
        assert!(at_seven.try_recv().is_ok());
    }

    #[test]
    fn ended_waiters_are_removed() {
        let waiters = RevisionWaiters::default();
        for revision in 0..10 * MANY as u64 {
            drop(waiters.add(Revision::new(revision)));
        }
        assert!(waiters.lock().len() <= MANY);
    }
}
