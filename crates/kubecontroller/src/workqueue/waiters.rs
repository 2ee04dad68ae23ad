//! The workers that wait for keys.
//!
//! A worker registers as waiting under the same lock under which it found no key. A key that is added later therefore finds the
//! waiter, and wakes exactly one. If no worker waits, adding a key wakes none: each worker looks for the next key when it is done.
//!
//! One waiter, the timekeeper, sleeps until the next delayed key is due. One timer is enough, and the others need none.

use std::task::{Context, Waker};

use super::{state::Wakeup, time::QueueTime};

/// The waiting workers. Each is either in `idle` or the timekeeper.
#[derive(Default)]
pub(super) struct Waiters {
    /// The last to wait is woken first: its caches are warm.
    idle: Vec<Waiter>,
    /// Sleeps until the next delayed key is due.
    timekeeper: Option<Waiter>,
    last_id: u64,
}

struct Waiter {
    id: WaiterId,
    waker: Waker,
}

/// Identifies a waiting future from its first wait to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaiterId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaiterRole {
    Idle,
    Timekeeper,
}

// --- Waiters ---

impl Waiters {
    /// Registers a waiter, or renews its waker. It becomes the timekeeper if one is needed: a key is due later.
    pub(super) fn wait(
        &mut self,
        id: &mut Option<WaiterId>,
        due: Option<QueueTime>,
        context: &Context<'_>,
    ) -> WaiterRole {
        let id = *id.get_or_insert_with(|| {
            self.last_id += 1;
            WaiterId(self.last_id)
        });
        self.remove(id);
        let waiter = Waiter {
            id,
            waker: context.waker().clone(),
        };
        if due.is_some() && self.timekeeper.is_none() {
            self.timekeeper = Some(waiter);
            return WaiterRole::Timekeeper;
        }
        self.idle.push(waiter);
        WaiterRole::Idle
    }

    /// Removes a waiter. Returns false if it was woken already; then its wakeup must be passed on.
    pub(super) fn remove(&mut self, id: WaiterId) -> bool {
        if self.timekeeper.as_ref().is_some_and(|waiter| waiter.id == id) {
            self.timekeeper = None;
            return true;
        }
        let position = self.idle.iter().position(|waiter| waiter.id == id);
        position.map(|position| self.idle.remove(position)).is_some()
    }

    /// Takes the waker of the waiter to wake, if any.
    pub(super) fn take_waker(&mut self, wakeup: Wakeup) -> Option<Waker> {
        let waiter = match wakeup {
            Wakeup::None => None,
            Wakeup::KeyReady => self.idle.pop().or_else(|| self.timekeeper.take()),
            Wakeup::TimerChanged => self.timekeeper.take().or_else(|| self.idle.pop()),
        };
        waiter.map(|waiter| waiter.waker)
    }

    /// Whether workers wait, but none of them is the timekeeper.
    pub(super) fn needs_timekeeper(&self) -> bool {
        self.timekeeper.is_none() && !self.idle.is_empty()
    }

    pub(super) fn take_all(&mut self) -> Vec<Waker> {
        let waiters = self.idle.drain(..).chain(self.timekeeper.take());
        waiters.map(|waiter| waiter.waker).collect()
    }
}
