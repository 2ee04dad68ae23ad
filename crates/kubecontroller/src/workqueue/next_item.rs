//! Waiting for a key.

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
    waiters::{Id, WaiterState},
};

/// Waits for the next key; made by [`WorkQueue::next`]. Dropping it loses nothing.
#[must_use = "nothing is waited for until this is awaited"]
pub struct NextItem<K: Clone + Eq + Hash> {
    /// There until a key was found.
    queue: Option<WorkQueue<K>>,
    /// The job that is done when the next one is looked for, and since when.
    done: Option<(u32, Instant)>,
    /// There once this had to wait.
    id: Option<Id>,
    /// There while the time is kept.
    sleep: Option<Pin<Box<Sleep>>>,
}

// --- NextItem ---

impl<K: Clone + Eq + Hash> NextItem<K> {
    pub(super) fn new(queue: WorkQueue<K>, done: Option<(u32, Instant)>) -> Self {
        NextItem {
            queue: Some(queue),
            done,
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
            .expect("nobody asks again after a key was found");
        loop {
            let now = this.done.map_or_else(Instant::now, |(_, now)| now);
            let tick = queue.tick(now);
            let mut inner = queue.lock();
            let mut is_awaited = false;
            if let Some((slot, _)) = this.done.take() {
                inner.state.end(slot, Completion::Done, tick);
                is_awaited = inner.is_drain_over();
            }
            let taken = inner.state.take(tick);
            if taken.is_some() || inner.state.is_closed() {
                if let Some(id) = this.id.take() {
                    inner.waiters.remove(id);
                }
                let call = inner.pass_on();
                drop(inner);
                call.into_iter().for_each(Waker::wake);
                queue.notify_drained(is_awaited);
                let job = taken.and_then(|taken| Some(WorkItem::new(this.queue.take()?, taken, now)));
                return Poll::Ready(job);
            }
            let due = inner.state.due();
            let post = inner.waiters.sleep(&mut this.id, due.is_some(), context);
            drop(inner);
            queue.notify_drained(is_awaited);
            let Some(due) = due.filter(|_| post == WaiterState::Timekeeper) else {
                this.sleep = None;
                return Poll::Pending;
            };
            let due = queue.time(due);
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
        if let Some((slot, now)) = self.done.take() {
            queue.end(slot, Completion::Done, now);
        }
        if let Some(id) = self.id.take() {
            let mut inner = queue.lock();
            inner.waiters.remove(id);
            // It may have been called, or have kept the time: somebody else does.
            let call = inner.pass_on();
            drop(inner);
            call.into_iter().for_each(Waker::wake);
        }
    }
}
