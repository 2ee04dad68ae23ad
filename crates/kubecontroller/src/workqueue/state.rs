//! What a queue knows. No clock and no waiting here: whoever calls says what time it is.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    hash::{BuildHasher, Hash},
    time::Duration,
};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{
    LaneFn, WorkQueueOptions,
    lanes::{Lanes, Ticket},
    time::QueueTime,
    tokens::Tokens,
};

/// The keys of a queue, and where each of them is.
pub(super) struct State<K> {
    options: WorkQueueOptions<K>,
    /// Positions in `slots`, by key.
    table: HashTable<u32>,
    slots: Vec<Option<Slot<K>>>,
    free: Vec<u32>,
    ready: Lanes,
    /// When keys that wait become ready. A ticket that is no longer good is thrown away when its time comes.
    waiting: BinaryHeap<Reverse<(QueueTime, u64, u32)>>,
    /// Counts stays, so that each ticket is good for one.
    stays: u64,
    tokens: Option<Tokens>,
    queued: usize,
    /// The slots of the keys that are worked on, in no order.
    running: Vec<u32>,
    closed: bool,
    adds: u64,
    retries: u64,
    /// The latest time that anyone has told. Whoever read the clock first may be the last to get the lock: time must not go
    /// back for that, or what was added "at once" would look as if it had to wait.
    latest: QueueTime,
}

/// What is known of a key.
struct Slot<K> {
    key: K,
    hash: u64,
    lane: u64,
    place: KeyState,
    priority: i32,
    /// Where it is in the list of keys that are worked on, if it is.
    seat: u32,
    /// The good ticket, if it is queued or waits.
    stay: u64,
    /// Since when it is where it is; for a key that is queued, since it was added.
    since: QueueTime,
    /// What few keys have.
    past: Option<Box<Past>>,
}

/// What is remembered of a key that failed, or that waits for its events to come to rest.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    /// Failures in a row.
    failures: u32,
    /// Until when a failure does not count as another one.
    window: Option<QueueTime>,
    /// When the first of the events came that it waits for the end of.
    first: Option<QueueTime>,
}

#[derive(Clone, Copy, Debug)]
enum KeyState {
    Queued,
    Waiting(QueueTime),
    /// And what is to come after the run.
    Running(Option<Again>),
}

#[derive(Clone, Copy, Debug)]
struct Again {
    at: QueueTime,
    priority: i32,
}

/// A key, and all that follows from it alone.
pub(super) struct HashedKey<K> {
    key: K,
    hash: u64,
    lane: u64,
}

/// Finds out what follows from a key alone. Needs no lock.
pub(super) struct KeyHasher<K> {
    hasher: DefaultHashBuilder,
    lane: LaneFn<K>,
}

/// What has changed for those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakeup {
    /// Nothing: nobody has to look.
    Nobody,
    /// A key is ready: somebody has to take it.
    Key,
    /// The next time to wait for is an earlier one: whoever keeps the time has to know.
    Time,
}

/// A key that was handed out.
pub(super) struct TakenKey<K> {
    pub slot: u32,
    pub key: K,
    pub priority: i32,
    pub failures: u32,
    pub waited: Duration,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    Done,
    Again {
        after: Duration,
        priority: i32,
    },
    /// It could not be worked on yet: neither done nor failed.
    NotYet {
        after: Duration,
    },
    /// It failed, and is not to be tried before a while is over, however long it would wait of its own.
    Failed {
        at_least: Duration,
    },
}

/// What became of a key that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureReport {
    /// Failures in a row, as far as they count.
    pub failures: u32,
    /// When it is tried again; `None` if it was dropped, or the queue is closed.
    pub retry_after: Option<Duration>,
    /// It has failed so often that somebody should know; said once until it succeeds.
    pub report: bool,
    /// It was dropped, for it may not fail more often.
    pub dropped: bool,
}

/// WorkQueueStats of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkQueueStats {
    /// Keys that are ready and not yet worked on.
    pub depth: usize,
    /// Keys that wait for a time to come.
    pub waiting: usize,
    /// Keys that are worked on.
    pub running: usize,
    /// How often a key became ready that was not.
    pub adds: u64,
    /// How often a key was to be tried again after a failure.
    pub retries: u64,
}

// --- KeyHasher ---

impl<K: Hash> KeyHasher<K> {
    pub(super) fn new(options: &WorkQueueOptions<K>) -> Self {
        KeyHasher {
            hasher: DefaultHashBuilder::default(),
            lane: LaneFn::clone(&options.lane),
        }
    }

    pub(super) fn name(&self, key: K) -> HashedKey<K> {
        HashedKey {
            hash: self.hasher.hash_one(&key),
            lane: (self.lane)(&key),
            key,
        }
    }
}

// --- Again ---

impl Again {
    /// The sooner of two times, and the higher of two priorities.
    fn sooner(known: Option<Again>, at: QueueTime, priority: i32) -> Again {
        known.map_or(Again { at, priority }, |known| Again {
            at: known.at.min(at),
            priority: known.priority.max(priority),
        })
    }
}

// --- State ---

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new(options: WorkQueueOptions<K>) -> Self {
        State {
            tokens: options.bucket.map(Tokens::new),
            options,
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            ready: Lanes::default(),
            waiting: BinaryHeap::new(),
            stays: 0,
            queued: 0,
            running: Vec::new(),
            closed: false,
            adds: 0,
            retries: 0,
            latest: QueueTime::default(),
        }
    }

    /// Something happened to a key.
    pub(super) fn add(&mut self, named: HashedKey<K>, priority: i32, now: QueueTime) -> Wakeup {
        let now = self.later(now);
        let Some(debounce) = self.options.debounce else {
            return self.add_at(named, priority, now, now);
        };
        let known = self.find(&named.key, named.hash);
        let first = known.and_then(|position| self.slot(position).past().first);
        let at = now
            .plus(debounce.quiet)
            .min(first.unwrap_or(now).plus(debounce.longest));
        if let Some(position) = known
            && first.is_some()
            && let KeyState::Waiting(_) = self.slot(position).place
        {
            // Another event: the rest begins anew.
            let slot = self.slot_mut(position);
            slot.priority = slot.priority.max(priority);
            self.wait(position, at);
            return Wakeup::Time;
        }
        let (key, hash) = (named.key.clone(), named.hash);
        let look = self.add_at(named, priority, at, now);
        if let Some(position) = self.find(&key, hash) {
            self.slot_mut(position)
                .past_mut()
                .first
                .get_or_insert(first.unwrap_or(now));
        }
        look
    }

    /// A key is to be worked on at a time. The earliest such time counts.
    pub(super) fn add_at(
        &mut self,
        named: HashedKey<K>,
        priority: i32,
        at: QueueTime,
        now: QueueTime,
    ) -> Wakeup {
        let now = self.later(now);
        if self.closed {
            return Wakeup::Nobody;
        }
        let Some(position) = self.find(&named.key, named.hash) else {
            let position = self.insert(named, priority, now);
            return self.place(position, at, now);
        };
        let slot = self.slot_mut(position);
        match slot.place {
            KeyState::Running(again) => {
                slot.place = KeyState::Running(Some(Again::sooner(again, at, priority)));
                Wakeup::Nobody
            }
            KeyState::Queued => {
                if priority > slot.priority && at <= now {
                    slot.priority = priority;
                    self.requeue(position);
                }
                Wakeup::Nobody
            }
            KeyState::Waiting(due) => {
                slot.priority = slot.priority.max(priority);
                if at >= due {
                    return Wakeup::Nobody;
                }
                self.place(position, at, now)
            }
        }
    }

    fn later(&mut self, now: QueueTime) -> QueueTime {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Hands out the next key that is ready.
    pub(super) fn take(&mut self, now: QueueTime) -> Option<TakenKey<K>> {
        let now = self.later(now);
        self.promote(now);
        let slots = &self.slots;
        let is_good = |ticket: Ticket| {
            let slot = slots.get(ticket.slot as usize).and_then(Option::as_ref);
            slot.is_some_and(|slot| matches!(slot.place, KeyState::Queued) && slot.stay == ticket.stay)
        };
        let ticket = self.ready.pop(is_good)?;
        self.queued -= 1;
        let seat = u32::try_from(self.running.len()).expect("there are fewer keys than 2^32");
        self.running.push(ticket.slot);
        let slot = self.slot_mut(ticket.slot);
        slot.place = KeyState::Running(None);
        slot.seat = seat;
        if let Some(past) = &mut slot.past {
            past.first = None;
        }
        let waited = now.since(slot.since);
        slot.since = now;
        Some(TakenKey {
            slot: ticket.slot,
            key: slot.key.clone(),
            priority: slot.priority,
            failures: slot.past().failures,
            waited,
        })
    }

    /// A run is over. Tells what became of a key that failed, and who has to look.
    pub(super) fn end(
        &mut self,
        position: u32,
        end: Completion,
        now: QueueTime,
    ) -> (Option<FailureReport>, Wakeup) {
        let now = self.later(now);
        self.leave(position);
        let mut failure = None;
        let mut next = match self.slot(position).place {
            KeyState::Running(again) => again,
            KeyState::Queued | KeyState::Waiting(_) => None,
        };
        match end {
            Completion::Done => self.forgive(position),
            Completion::Again { after, priority } => {
                self.forgive(position);
                // Who asks for another run whenever it runs must not keep a queue from closing.
                if !self.closed {
                    next = Some(Again::sooner(next, now.plus(after), priority));
                }
            }
            Completion::NotYet { after } => {
                let priority = self.slot(position).priority;
                if !self.closed {
                    next = Some(Again::sooner(next, now.plus(after), priority));
                }
            }
            Completion::Failed { at_least } => {
                let (failed, retry) = self.fail(position, at_least, now);
                failure = Some(failed);
                let priority = self.slot(position).priority;
                if let Some(at) = retry.filter(|_| !self.closed) {
                    // What happened meanwhile says how urgent the next run is.
                    let priority = next.map_or(priority, |next| next.priority);
                    next = Some(Again::sooner(next, at, priority));
                }
            }
        }
        // A queue that closes works off what is ready, and waits for nothing.
        let Some(again) = next.filter(|again| !self.closed || again.at <= now) else {
            self.remove(position);
            return (failure, Wakeup::Nobody);
        };
        let slot = self.slot_mut(position);
        slot.priority = again.priority;
        (failure, self.place(position, again.at, now))
    }

    /// The keys that are worked on, and since when.
    pub(super) fn running(&self) -> impl Iterator<Item = (&K, QueueTime)> {
        let slots = self.running.iter().map(|position| self.slot(*position));
        slots.map(|slot| (&slot.key, slot.since))
    }

    /// Takes a key out of the list of those that are worked on.
    fn leave(&mut self, position: u32) {
        let seat = self.slot(position).seat;
        self.running.swap_remove(seat as usize);
        if let Some(moved) = self.running.get(seat as usize).copied() {
            self.slot_mut(moved).seat = seat;
        }
    }

    /// Takes no more keys, and forgets those that are not ready.
    pub(super) fn close(&mut self) {
        self.closed = true;
        while let Some(Reverse((_, stay, position))) = self.waiting.pop() {
            if self.is_waiting(position, stay) {
                self.remove(position);
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether a key is ready.
    pub(super) fn has_ready(&self) -> bool {
        self.queued > 0
    }

    /// Whether nothing is ready and nothing runs.
    pub(super) fn is_idle(&self) -> bool {
        self.queued == 0 && self.running.is_empty()
    }

    /// When the next of the keys that wait becomes ready, at the earliest.
    pub(super) fn due(&self) -> Option<QueueTime> {
        self.waiting.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn figures(&self) -> WorkQueueStats {
        WorkQueueStats {
            depth: self.queued,
            waiting: self.table.len() - self.queued - self.running.len(),
            running: self.running.len(),
            adds: self.adds,
            retries: self.retries,
        }
    }

    // --- where keys are ---

    fn find(&self, key: &K, hash: u64) -> Option<u32> {
        let slots = &self.slots;
        let is_same = |position: &u32| {
            slots[*position as usize]
                .as_ref()
                .is_some_and(|slot| slot.key == *key)
        };
        self.table.find(hash, is_same).copied()
    }

    fn slot(&self, position: u32) -> &Slot<K> {
        self.slots[position as usize]
            .as_ref()
            .expect("a key that is in the table has a slot")
    }

    fn slot_mut(&mut self, position: u32) -> &mut Slot<K> {
        self.slots[position as usize]
            .as_mut()
            .expect("a key that is in the table has a slot")
    }

    fn insert(&mut self, named: HashedKey<K>, priority: i32, now: QueueTime) -> u32 {
        let HashedKey { key, hash, lane } = named;
        let slot = Some(Slot {
            key,
            hash,
            lane,
            place: KeyState::Waiting(now),
            priority,
            stay: 0,
            since: now,
            seat: 0,
            past: None,
        });
        let position = if let Some(position) = self.free.pop() {
            self.slots[position as usize] = slot;
            position
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("there are fewer keys than 2^32")
        };
        let slots = &self.slots;
        let hash_of = |position: &u32| slots[*position as usize].as_ref().map_or(0, |slot| slot.hash);
        self.table.insert_unique(hash, position, hash_of);
        position
    }

    fn remove(&mut self, position: u32) {
        let Some(slot) = self.slots[position as usize].take() else {
            return;
        };
        if let Ok(found) = self.table.find_entry(slot.hash, |other| *other == position) {
            found.remove();
        }
        self.free.push(position);
    }

    /// Lets a key be ready, or wait until it is.
    fn place(&mut self, position: u32, at: QueueTime, now: QueueTime) -> Wakeup {
        if at > now {
            self.wait(position, at);
            // Only who waits for a later time has to know.
            let is_next = self.due() == Some(at);
            return if is_next { Wakeup::Time } else { Wakeup::Nobody };
        }
        self.slot_mut(position).since = now;
        self.queued += 1;
        self.adds += 1;
        self.requeue(position);
        Wakeup::Key
    }

    fn requeue(&mut self, position: u32) {
        self.stays += 1;
        let stay = self.stays;
        let slot = self.slot_mut(position);
        slot.place = KeyState::Queued;
        slot.stay = stay;
        let (priority, lane) = (slot.priority, slot.lane);
        self.ready.push(priority, lane, Ticket { slot: position, stay });
    }

    fn wait(&mut self, position: u32, at: QueueTime) {
        self.stays += 1;
        let stay = self.stays;
        let slot = self.slot_mut(position);
        slot.place = KeyState::Waiting(at);
        slot.stay = stay;
        self.waiting.push(Reverse((at, stay, position)));
    }

    fn is_waiting(&self, position: u32, stay: u64) -> bool {
        let slot = self.slots[position as usize].as_ref();
        slot.is_some_and(|slot| slot.stay == stay && matches!(slot.place, KeyState::Waiting(_)))
    }

    fn promote(&mut self, now: QueueTime) {
        while let Some(&Reverse((at, stay, position))) = self.waiting.peek() {
            let is_good = self.is_waiting(position, stay);
            if is_good && at > now {
                break;
            }
            self.waiting.pop();
            if is_good {
                self.place(position, at, now);
            }
        }
    }

    // --- failures ---

    fn forgive(&mut self, position: u32) {
        self.slot_mut(position).past = None;
    }

    /// A key failed. When it is to be tried again; `None` if it is dropped.
    fn fail(
        &mut self,
        position: u32,
        at_least: Duration,
        now: QueueTime,
    ) -> (FailureReport, Option<QueueTime>) {
        let past = self.slot_mut(position).past_mut();
        if let Some(window) = past.window.filter(|window| *window > now) {
            // An event ran it early: it fails as it would have failed anyway.
            let failure = FailureReport {
                failures: past.failures,
                retry_after: Some(window.since(now)),
                report: false,
                dropped: false,
            };
            self.retries += 1;
            return (failure, Some(window));
        }
        past.failures = past.failures.saturating_add(1);
        let failures = past.failures;
        let report = failures == self.options.report_after;
        if self.options.max_retries.is_some_and(|most| failures > most) {
            self.forgive(position);
            let failure = FailureReport {
                failures,
                retry_after: None,
                report,
                dropped: true,
            };
            return (failure, None);
        }
        let own = self.options.backoff.after(failures);
        let shared = self
            .tokens
            .as_mut()
            .map_or(Duration::ZERO, |tokens| tokens.take(now));
        let delay = own.max(shared).max(at_least);
        let window = now.plus(delay);
        self.slot_mut(position).past_mut().window = Some(window);
        self.retries += 1;
        let failure = FailureReport {
            failures,
            retry_after: (!self.closed).then_some(delay),
            report,
            dropped: false,
        };
        (failure, Some(window))
    }
}

// --- Slot ---

impl<K> Slot<K> {
    fn past(&self) -> Past {
        self.past.as_deref().copied().unwrap_or_default()
    }

    fn past_mut(&mut self) -> &mut Past {
        self.past.get_or_insert_default()
    }
}
