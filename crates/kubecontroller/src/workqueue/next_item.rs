//! The future that waits for the next key.

use std::{
    future::Future,
    hash::Hash,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    WorkItem, WorkQueue,
    state::Completion,
    waiters::{WaiterId, WaiterRole},
};

/// Waits for the next key; see [`WorkQueue::next`]. Cancel safe.
#[must_use = "futures do nothing unless polled"]
pub struct NextItem<K: Clone + Eq + Hash> {
    /// `None` once a key was returned.
    queue: Option<WorkQueue<K>>,
    /// The slot of an item that [`WorkItem::done_and_next`] finishes, and when that was called.
    finished: Option<(u32, Instant)>,
    /// Set once this future had to wait.
    id: Option<WaiterId>,
    /// Set while this future is the timekeeper.
    sleep: Option<Pin<Box<Sleep>>>,
}

// --- NextItem ---

impl<K: Clone + Eq + Hash> NextItem<K> {
    pub(super) fn new(queue: WorkQueue<K>, finished: Option<(u32, Instant)>) -> Self {
        NextItem {
            queue: Some(queue),
            finished,
            id: None,
            sleep: None,
        }
    }
}

impl<K: Clone + Eq + Hash> Unpin for NextItem<K> {}

impl<K: Clone + Eq + Hash> Future for NextItem<K> {
    type Output = Option<WorkItem<K>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WorkItem<K>>> {
        let this = &mut *self;
        let queue = this
            .queue
            .as_ref()
            .expect("a future is not polled after it has completed");
        loop {
            let now = this.finished.map_or_else(Instant::now, |(_, now)| now);
            let queue_time = queue.queue_time(now);
            let mut locked = queue.lock();
            let mut is_drained = false;
            if let Some((slot, _)) = this.finished.take() {
                // No wakeup: if the key is ready again, this worker takes it.
                locked.state.finish(slot, Completion::Done, queue_time);
                is_drained = locked.has_drained_for_waiter();
            }
            let handed_out = locked.state.take(queue_time);
            if handed_out.is_some() || locked.state.is_closed() {
                if let Some(id) = this.id.take() {
                    locked.waiters.remove(id);
                }
                let waker = locked.pass_wakeup_on();
                drop(locked);
                waker.into_iter().for_each(Waker::wake);
                queue.notify_drained(is_drained);
                let item = handed_out.and_then(|key| Some(WorkItem::new(this.queue.take()?, key, now)));
                return Poll::Ready(item);
            }
            let due = locked.state.next_due();
            let role = locked.waiters.wait(&mut this.id, due, context);
            drop(locked);
            queue.notify_drained(is_drained);
            let Some(due) = due.filter(|_| role == WaiterRole::Timekeeper) else {
                this.sleep = None;
                return Poll::Pending;
            };
            let due = queue.instant(due);
            match &mut this.sleep {
                Some(sleep) if sleep.deadline() == due => {}
                Some(sleep) => sleep.as_mut().reset(due),
                None => this.sleep = Some(Box::pin(sleep_until(due))),
            }
            let sleep = this.sleep.as_mut().expect("it was set above");
            ready!(sleep.as_mut().poll(context));
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for NextItem<K> {
    fn drop(&mut self) {
        let Some(queue) = &self.queue else {
            return;
        };
        if let Some((slot, now)) = self.finished.take() {
            queue.finish(slot, Completion::Done, now);
        }
        if let Some(id) = self.id.take() {
            let mut locked = queue.lock();
            locked.waiters.remove(id);
            // This future may have been woken for a key, or may have been the timekeeper.
            let waker = locked.pass_wakeup_on();
            drop(locked);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}
