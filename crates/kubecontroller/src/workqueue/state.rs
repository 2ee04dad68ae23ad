//! The state of a queue. It neither reads a clock nor waits, so that tests can drive it step by step.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    hash::{BuildHasher, Hash},
    time::Duration,
};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{
    LaneFn, WorkQueueOptions,
    lanes::{Lanes, QueueTicket},
    time::QueueTime,
    token_bucket::TokenBucket,
};

/// The keys of a queue and the schedule of each.
pub(super) struct QueueState<K> {
    options: WorkQueueOptions<K>,
    /// Positions in `slots`, by key.
    table: HashTable<u32>,
    slots: Vec<Option<KeySlot<K>>>,
    free_slots: Vec<u32>,
    ready: Lanes,
    /// Delayed keys: when each is due, with its generation and slot. An entry with an outdated generation is discarded when it
    /// is due.
    delayed: BinaryHeap<Reverse<(QueueTime, u64, u32)>>,
    /// The last generation that was assigned.
    generation: u64,
    token_bucket: Option<TokenBucket>,
    ready_count: usize,
    /// The slots of the keys that are being processed, in no order.
    processing: Vec<u32>,
    closed: bool,
    adds: u64,
    retries: u64,
    /// The latest time that a caller has passed. Callers read the clock before they take the lock, so times may arrive out of
    /// order. If time moved back, a key that was added "now" would look as if it were delayed.
    latest: QueueTime,
}

struct KeySlot<K> {
    key: K,
    hash: u64,
    lane: u64,
    schedule: KeySchedule,
    priority: i32,
    /// The position in `processing`, if the key is being processed.
    processing_index: u32,
    /// The generation of the valid ticket or delay entry. Each change of the schedule assigns a new one.
    generation: u64,
    /// When the key became ready, or when its processing started.
    since: QueueTime,
    /// Boxed, since few keys have it.
    history: Option<Box<KeyHistory>>,
}

/// What is remembered of a key that failed or is debounced.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHistory {
    /// Failures in a row.
    failures: u32,
    /// When the current backoff ends. A failure before that does not count as another one.
    backoff_end: Option<QueueTime>,
    /// When the key was first added since it was last processed. Bounds the debounce.
    first_added: Option<QueueTime>,
}

#[derive(Clone, Copy, Debug)]
enum KeySchedule {
    Ready,
    Delayed(QueueTime),
    /// Being processed, with the run that follows, if any.
    Processing(Option<NextRun>),
}

#[derive(Clone, Copy, Debug)]
struct NextRun {
    at: QueueTime,
    priority: i32,
}

/// A key with its hash and its lane.
pub(super) struct HashedKey<K> {
    key: K,
    hash: u64,
    lane: u64,
}

/// Hashes keys. Separate from the state, so that it works without the lock.
pub(super) struct KeyHasher<K> {
    hasher: DefaultHashBuilder,
    lane: LaneFn<K>,
}

/// Which waiter must be woken after a change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakeup {
    None,
    /// A key has become ready: a worker must take it.
    KeyReady,
    /// A delayed key is due earlier than the others: the timekeeper must reset its timer.
    TimerChanged,
}

/// A key that was handed out to a worker.
pub(super) struct HandedOutKey<K> {
    pub slot: u32,
    pub key: K,
    pub priority: i32,
    pub failures: u32,
    pub queue_time: Duration,
}

/// How the processing of a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    Done,
    Requeue {
        after: Duration,
        priority: i32,
    },
    /// The key was not processed: neither a success nor a failure.
    PutBack {
        after: Duration,
    },
    Failed {
        /// The minimum delay before the retry.
        min_delay: Duration,
    },
}

/// What happens to a key that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureReport {
    /// Failures in a row. A failure during the backoff of an earlier one does not count.
    pub failures: u32,
    /// The delay before the retry; `None` if the key was dropped or the queue is closed.
    pub retry_after: Option<Duration>,
    /// Whether the key has just reached [`WorkQueueOptions::report_after`] failures in a row. Set once until the key succeeds.
    pub report: bool,
    /// Whether the key was dropped because of [`WorkQueueOptions::max_retries`].
    pub dropped: bool,
}

/// The statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkQueueStats {
    /// Keys that are ready.
    pub depth: usize,
    /// Keys that are delayed: by backoff, debounce or [`WorkQueue::add_after`](super::WorkQueue::add_after).
    pub waiting: usize,
    /// Keys that are being processed.
    pub running: usize,
    /// How often a key became ready. Additions of a key that is in the queue already do not count.
    pub adds: u64,
    /// How often a key was scheduled for a retry after a failure.
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

    pub(super) fn hash(&self, key: K) -> HashedKey<K> {
        HashedKey {
            hash: self.hasher.hash_one(&key),
            lane: (self.lane)(&key),
            key,
        }
    }
}

// --- NextRun ---

impl NextRun {
    /// The earlier of two times, with the higher of two priorities.
    fn merge(known: Option<NextRun>, at: QueueTime, priority: i32) -> NextRun {
        known.map_or(NextRun { at, priority }, |known| NextRun {
            at: known.at.min(at),
            priority: known.priority.max(priority),
        })
    }
}

// --- QueueState ---

impl<K: Clone + Eq + Hash> QueueState<K> {
    pub(super) fn new(options: WorkQueueOptions<K>) -> Self {
        QueueState {
            token_bucket: options.bucket.map(TokenBucket::new),
            options,
            table: HashTable::new(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            ready: Lanes::default(),
            delayed: BinaryHeap::new(),
            generation: 0,
            ready_count: 0,
            processing: Vec::new(),
            closed: false,
            adds: 0,
            retries: 0,
            latest: QueueTime::default(),
        }
    }

    /// Adds a key, subject to the debounce.
    pub(super) fn add(&mut self, hashed: HashedKey<K>, priority: i32, now: QueueTime) -> Wakeup {
        let now = self.advance_time(now);
        let Some(debounce) = self.options.debounce else {
            return self.add_at(hashed, priority, now, now);
        };
        let known = self.find(&hashed.key, hashed.hash);
        let first_added = known.and_then(|position| self.slot(position).history().first_added);
        let at = now
            .plus(debounce.quiet)
            .min(first_added.unwrap_or(now).plus(debounce.longest));
        if let Some(position) = known
            && first_added.is_some()
            && let KeySchedule::Delayed(_) = self.slot(position).schedule
        {
            // Another addition restarts the quiet period. `add_at` would keep the earlier time.
            let slot = self.slot_mut(position);
            slot.priority = slot.priority.max(priority);
            self.delay(position, at);
            return Wakeup::TimerChanged;
        }
        let key = hashed.key.clone();
        let hash = hashed.hash;
        let wakeup = self.add_at(hashed, priority, at, now);
        if let Some(position) = self.find(&key, hash) {
            self.slot_mut(position)
                .history_mut()
                .first_added
                .get_or_insert(first_added.unwrap_or(now));
        }
        wakeup
    }

    /// Schedules a key for a time. If it is scheduled already, the earlier time and the higher priority win.
    pub(super) fn add_at(
        &mut self,
        hashed: HashedKey<K>,
        priority: i32,
        at: QueueTime,
        now: QueueTime,
    ) -> Wakeup {
        let now = self.advance_time(now);
        if self.closed {
            return Wakeup::None;
        }
        let Some(position) = self.find(&hashed.key, hashed.hash) else {
            let position = self.insert(hashed, priority, now);
            return self.schedule(position, at, now);
        };
        let slot = self.slot_mut(position);
        match slot.schedule {
            KeySchedule::Processing(next) => {
                slot.schedule = KeySchedule::Processing(Some(NextRun::merge(next, at, priority)));
                Wakeup::None
            }
            KeySchedule::Ready => {
                if priority > slot.priority && at <= now {
                    slot.priority = priority;
                    self.push_ready(position);
                }
                Wakeup::None
            }
            KeySchedule::Delayed(due) => {
                slot.priority = slot.priority.max(priority);
                if at >= due {
                    return Wakeup::None;
                }
                self.schedule(position, at, now)
            }
        }
    }

    fn advance_time(&mut self, now: QueueTime) -> QueueTime {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Hands out the next key that is ready.
    pub(super) fn take(&mut self, now: QueueTime) -> Option<HandedOutKey<K>> {
        let now = self.advance_time(now);
        self.promote_due_keys(now);
        let slots = &self.slots;
        let is_current = |ticket: QueueTicket| {
            let slot = slots.get(ticket.slot as usize).and_then(Option::as_ref);
            slot.is_some_and(|slot| {
                matches!(slot.schedule, KeySchedule::Ready) && slot.generation == ticket.generation
            })
        };
        let ticket = self.ready.pop(is_current)?;
        self.ready_count -= 1;
        let processing_index = u32::try_from(self.processing.len()).expect("there are fewer than 2^32 keys");
        self.processing.push(ticket.slot);
        let slot = self.slot_mut(ticket.slot);
        slot.schedule = KeySchedule::Processing(None);
        slot.processing_index = processing_index;
        if let Some(history) = &mut slot.history {
            history.first_added = None;
        }
        let queue_time = now.since(slot.since);
        slot.since = now;
        Some(HandedOutKey {
            slot: ticket.slot,
            key: slot.key.clone(),
            priority: slot.priority,
            failures: slot.history().failures,
            queue_time,
        })
    }

    /// Finishes the processing of a key.
    pub(super) fn finish(
        &mut self,
        position: u32,
        completion: Completion,
        now: QueueTime,
    ) -> (Option<FailureReport>, Wakeup) {
        let now = self.advance_time(now);
        self.remove_from_processing(position);
        let mut failure = None;
        let mut next = match self.slot(position).schedule {
            KeySchedule::Processing(next) => next,
            KeySchedule::Ready | KeySchedule::Delayed(_) => None,
        };
        match completion {
            Completion::Done => self.forget_failures(position),
            Completion::Requeue { after, priority } => {
                self.forget_failures(position);
                // A reconciler that always requeues must not keep a closed queue from draining.
                if !self.closed {
                    next = Some(NextRun::merge(next, now.plus(after), priority));
                }
            }
            Completion::PutBack { after } => {
                let priority = self.slot(position).priority;
                if !self.closed {
                    next = Some(NextRun::merge(next, now.plus(after), priority));
                }
            }
            Completion::Failed { min_delay } => {
                let (report, retry_at) = self.fail(position, min_delay, now);
                failure = Some(report);
                let priority = self.slot(position).priority;
                if let Some(at) = retry_at.filter(|_| !self.closed) {
                    // If the key was added during processing, that addition determines the priority.
                    let priority = next.map_or(priority, |next| next.priority);
                    next = Some(NextRun::merge(next, at, priority));
                }
            }
        }
        // A closed queue drains the keys that are ready and does not wait for delayed ones.
        let Some(next) = next.filter(|next| !self.closed || next.at <= now) else {
            self.remove(position);
            return (failure, Wakeup::None);
        };
        let slot = self.slot_mut(position);
        slot.priority = next.priority;
        (failure, self.schedule(position, next.at, now))
    }

    /// The keys that are being processed, and since when.
    pub(super) fn processing(&self) -> impl Iterator<Item = (&K, QueueTime)> {
        let slots = self.processing.iter().map(|position| self.slot(*position));
        slots.map(|slot| (&slot.key, slot.since))
    }

    fn remove_from_processing(&mut self, position: u32) {
        let index = self.slot(position).processing_index;
        self.processing.swap_remove(index as usize);
        if let Some(moved) = self.processing.get(index as usize).copied() {
            self.slot_mut(moved).processing_index = index;
        }
    }

    /// Closes the queue and drops delayed keys.
    pub(super) fn close(&mut self) {
        self.closed = true;
        while let Some(Reverse((_, generation, position))) = self.delayed.pop() {
            if self.is_delayed(position, generation) {
                self.remove(position);
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn has_ready(&self) -> bool {
        self.ready_count > 0
    }

    /// Whether no key is ready and none is being processed.
    pub(super) fn is_drained(&self) -> bool {
        self.ready_count == 0 && self.processing.is_empty()
    }

    /// When the next delayed key is due. It may be earlier, because outdated entries are not removed at once.
    pub(super) fn next_due(&self) -> Option<QueueTime> {
        self.delayed.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn stats(&self) -> WorkQueueStats {
        WorkQueueStats {
            depth: self.ready_count,
            waiting: self.table.len() - self.ready_count - self.processing.len(),
            running: self.processing.len(),
            adds: self.adds,
            retries: self.retries,
        }
    }

    // --- slots and schedules ---

    fn find(&self, key: &K, hash: u64) -> Option<u32> {
        let slots = &self.slots;
        let is_same = |position: &u32| {
            slots[*position as usize]
                .as_ref()
                .is_some_and(|slot| slot.key == *key)
        };
        self.table.find(hash, is_same).copied()
    }

    fn slot(&self, position: u32) -> &KeySlot<K> {
        self.slots[position as usize]
            .as_ref()
            .expect("a key that is in the table has a slot")
    }

    fn slot_mut(&mut self, position: u32) -> &mut KeySlot<K> {
        self.slots[position as usize]
            .as_mut()
            .expect("a key that is in the table has a slot")
    }

    fn insert(&mut self, hashed: HashedKey<K>, priority: i32, now: QueueTime) -> u32 {
        let HashedKey { key, hash, lane } = hashed;
        let slot = Some(KeySlot {
            key,
            hash,
            lane,
            schedule: KeySchedule::Delayed(now),
            priority,
            generation: 0,
            since: now,
            processing_index: 0,
            history: None,
        });
        let position = if let Some(position) = self.free_slots.pop() {
            self.slots[position as usize] = slot;
            position
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("there are fewer than 2^32 keys")
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
        self.free_slots.push(position);
    }

    /// Makes a key ready, or delays it until `at`.
    fn schedule(&mut self, position: u32, at: QueueTime, now: QueueTime) -> Wakeup {
        if at > now {
            self.delay(position, at);
            // The timekeeper sleeps until the earliest time, so it need not know of later ones.
            let is_earliest = self.next_due() == Some(at);
            return if is_earliest {
                Wakeup::TimerChanged
            } else {
                Wakeup::None
            };
        }
        self.slot_mut(position).since = now;
        self.ready_count += 1;
        self.adds += 1;
        self.push_ready(position);
        Wakeup::KeyReady
    }

    fn push_ready(&mut self, position: u32) {
        self.generation += 1;
        let generation = self.generation;
        let slot = self.slot_mut(position);
        slot.schedule = KeySchedule::Ready;
        slot.generation = generation;
        let priority = slot.priority;
        let lane = slot.lane;
        let ticket = QueueTicket {
            slot: position,
            generation,
        };
        self.ready.push(priority, lane, ticket);
    }

    fn delay(&mut self, position: u32, at: QueueTime) {
        self.generation += 1;
        let generation = self.generation;
        let slot = self.slot_mut(position);
        slot.schedule = KeySchedule::Delayed(at);
        slot.generation = generation;
        self.delayed.push(Reverse((at, generation, position)));
    }

    fn is_delayed(&self, position: u32, generation: u64) -> bool {
        let slot = self.slots[position as usize].as_ref();
        slot.is_some_and(|slot| {
            slot.generation == generation && matches!(slot.schedule, KeySchedule::Delayed(_))
        })
    }

    /// Makes delayed keys ready that are due, and discards outdated entries.
    fn promote_due_keys(&mut self, now: QueueTime) {
        while let Some(&Reverse((at, generation, position))) = self.delayed.peek() {
            let is_current = self.is_delayed(position, generation);
            if is_current && at > now {
                break;
            }
            self.delayed.pop();
            if is_current {
                self.schedule(position, at, now);
            }
        }
    }

    // --- failures ---

    fn forget_failures(&mut self, position: u32) {
        self.slot_mut(position).history = None;
    }

    /// Counts a failure. Returns when the key is retried; `None` if it is dropped.
    fn fail(
        &mut self,
        position: u32,
        min_delay: Duration,
        now: QueueTime,
    ) -> (FailureReport, Option<QueueTime>) {
        let history = self.slot_mut(position).history_mut();
        if let Some(backoff_end) = history.backoff_end.filter(|backoff_end| *backoff_end > now) {
            // The key was added during its backoff and ran early. If each such failure doubled the backoff, a chatty object would
            // soon be retried only every 1000 s.
            let report = FailureReport {
                failures: history.failures,
                retry_after: Some(backoff_end.since(now)),
                report: false,
                dropped: false,
            };
            self.retries += 1;
            return (report, Some(backoff_end));
        }
        history.failures = history.failures.saturating_add(1);
        let failures = history.failures;
        let report = failures == self.options.report_after;
        if self.options.max_retries.is_some_and(|max| failures > max) {
            self.forget_failures(position);
            let report = FailureReport {
                failures,
                retry_after: None,
                report,
                dropped: true,
            };
            return (report, None);
        }
        let backoff = self.options.backoff.after(failures);
        let bucket_delay = self
            .token_bucket
            .as_mut()
            .map_or(Duration::ZERO, |bucket| bucket.reserve(now));
        // upstream: staging/src/k8s.io/client-go/util/workqueue/default_rate_limiters.go MaxOfRateLimiter
        let delay = backoff.max(bucket_delay).max(min_delay);
        let backoff_end = now.plus(delay);
        self.slot_mut(position).history_mut().backoff_end = Some(backoff_end);
        self.retries += 1;
        let report = FailureReport {
            failures,
            retry_after: (!self.closed).then_some(delay),
            report,
            dropped: false,
        };
        (report, Some(backoff_end))
    }
}

// --- KeySlot ---

impl<K> KeySlot<K> {
    fn history(&self) -> KeyHistory {
        self.history.as_deref().copied().unwrap_or_default()
    }

    fn history_mut(&mut self) -> &mut KeyHistory {
        self.history.get_or_insert_default()
    }
}
