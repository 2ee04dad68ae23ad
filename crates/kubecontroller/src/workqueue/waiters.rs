//! Who waits for keys.
//!
//! Whoever finds nothing to do falls asleep while nobody else can look: so whoever adds a key afterwards sees the sleeper, and
//! wakes one. Nobody is woken where all are awake. One sleeper keeps the time for all of them: the timekeeper.

use std::task::{Context, Waker};

use super::state::Wakeup;

/// Those who wait. Each is in at most one place.
#[derive(Default)]
pub(super) struct Waiters {
    /// The last to fall asleep is woken first: what it needs is still in the caches.
    asleep: Vec<Sleeper>,
    /// The one who sleeps until the next time that a key waits for.
    timekeeper: Option<Sleeper>,
    last: u64,
}

struct Sleeper {
    id: Id,
    waker: Waker,
}

/// One who waits, for as long as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u64);

/// How somebody sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaiterState {
    Sleeper,
    Timekeeper,
}

// --- Waiters ---

impl Waiters {
    /// Lets somebody sleep. Whoever sleeps already stays where they are, unless the time has to be kept.
    pub(super) fn sleep(
        &mut self,
        id: &mut Option<Id>,
        has_time: bool,
        context: &Context<'_>,
    ) -> WaiterState {
        let id = *id.get_or_insert_with(|| {
            self.last += 1;
            Id(self.last)
        });
        self.remove(id);
        let sleeper = Sleeper {
            id,
            waker: context.waker().clone(),
        };
        if has_time && self.timekeeper.is_none() {
            self.timekeeper = Some(sleeper);
            return WaiterState::Timekeeper;
        }
        self.asleep.push(sleeper);
        WaiterState::Sleeper
    }

    /// Somebody no longer waits. Says whether they were asleep: if not, a call that was meant for them is lost.
    pub(super) fn remove(&mut self, id: Id) -> bool {
        if self.timekeeper.as_ref().is_some_and(|sleeper| sleeper.id == id) {
            self.timekeeper = None;
            return true;
        }
        let position = self.asleep.iter().position(|sleeper| sleeper.id == id);
        position.map(|position| self.asleep.remove(position)).is_some()
    }

    /// Who is to be woken so that somebody looks.
    pub(super) fn call(&mut self, look: Wakeup) -> Option<Waker> {
        let sleeper = match look {
            Wakeup::Nobody => None,
            Wakeup::Key => self.asleep.pop().or_else(|| self.timekeeper.take()),
            Wakeup::Time => self.timekeeper.take().or_else(|| self.asleep.pop()),
        };
        sleeper.map(|sleeper| sleeper.waker)
    }

    /// Whether somebody has to be called because a time comes that nobody waits for.
    pub(super) fn is_time_unkept(&self) -> bool {
        self.timekeeper.is_none() && !self.asleep.is_empty()
    }

    pub(super) fn all(&mut self) -> Vec<Waker> {
        let sleepers = self.asleep.drain(..).chain(self.timekeeper.take());
        sleepers.map(|sleeper| sleeper.waker).collect()
    }
}
