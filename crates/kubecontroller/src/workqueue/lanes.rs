//! The order of ready keys: the highest priority first; within a priority the lanes take turns; within a lane first in, first
//! out.
use std::{
    collections::{BTreeMap, VecDeque},
    iter,
};

use hashbrown::HashMap;

/// Refers to a key in the queue. A key that changes its priority gets another ticket; the old one stays in its lane with an
/// outdated generation and is skipped, which is cheaper than to find and remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueTicket {
    /// The position in the table of keys.
    pub slot: u32,
    /// Which change of the slot's schedule the ticket belongs to.
    pub generation: u64,
}

/// The ready keys, by priority.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    levels: BTreeMap<i32, PriorityLevel>,
}

/// The ready keys of one priority.
#[derive(Debug, Default)]
struct PriorityLevel {
    /// The lanes that are not empty, in the order of their turns.
    turns: VecDeque<u64>,
    lanes: HashMap<u64, VecDeque<QueueTicket>>,
    /// Buffers of emptied lanes, for reuse.
    spare: Vec<VecDeque<QueueTicket>>,
}

/// How many buffers of emptied lanes are kept for reuse.
const MAX_SPARE_LANES: usize = 16;
/// How many emptied priority levels are kept for reuse.
const MAX_SPARE_LEVELS: usize = 8;

// --- Lanes ---

impl Lanes {
    pub(super) fn push(&mut self, priority: i32, lane: u64, ticket: QueueTicket) {
        let level = self.levels.entry(priority).or_default();
        if let Some(tickets) = level.lanes.get_mut(&lane) {
            tickets.push_back(ticket);
            return;
        }
        let mut tickets = level.spare.pop().unwrap_or_default();
        tickets.push_back(ticket);
        level.lanes.insert(lane, tickets);
        level.turns.push_back(lane);
    }

    /// Takes the next ticket that is current. Outdated tickets before it are discarded.
    pub(super) fn pop(&mut self, mut is_current: impl FnMut(QueueTicket) -> bool) -> Option<QueueTicket> {
        let mut found = None;
        for level in self.levels.values_mut().rev() {
            found = iter::from_fn(|| level.pop()).find(|ticket| is_current(*ticket));
            if found.is_some() {
                break;
            }
        }
        // Emptied levels keep their buffers, since most controllers use few priorities. Many levels are dropped.
        if found.is_none() && self.levels.len() > MAX_SPARE_LEVELS {
            self.levels.clear();
        }
        found
    }
}

// --- PriorityLevel ---

impl PriorityLevel {
    fn pop(&mut self) -> Option<QueueTicket> {
        let lane = self.turns.pop_front()?;
        let tickets = self.lanes.get_mut(&lane)?;
        let ticket = tickets.pop_front();
        if tickets.is_empty() {
            let emptied = self.lanes.remove(&lane);
            self.spare
                .extend(emptied.filter(|_| self.spare.len() < MAX_SPARE_LANES));
        } else {
            self.turns.push_back(lane);
        }
        ticket
    }
}
