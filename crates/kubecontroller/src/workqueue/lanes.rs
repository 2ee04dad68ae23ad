//! Which of the keys that are ready comes next: the highest priority; within it lane by lane in turn; within a lane the one
//! that came first.

use std::{
    collections::{BTreeMap, VecDeque},
    iter,
};

use hashbrown::HashMap;

/// The place of a key in the table of keys, and which of its stays in the queue is meant. A key that was moved to another
/// priority leaves a ticket behind that is no longer good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub slot: u32,
    pub stay: u64,
}

/// The keys that are ready, by priority.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    levels: BTreeMap<i32, Level>,
}

/// The keys of one priority.
#[derive(Debug, Default)]
struct Level {
    /// The lanes with keys, the next one first.
    turn: VecDeque<u64>,
    lanes: HashMap<u64, VecDeque<Ticket>>,
    /// Lanes that were emptied keep their memory for the next ones.
    spare: Vec<VecDeque<Ticket>>,
}

/// More emptied lanes than this are given back.
const SPARE: usize = 16;
/// More emptied priorities than this are given back.
const LEVELS: usize = 8;

// --- Lanes ---

impl Lanes {
    pub(super) fn push(&mut self, priority: i32, lane: u64, ticket: Ticket) {
        let level = self.levels.entry(priority).or_default();
        if let Some(tickets) = level.lanes.get_mut(&lane) {
            tickets.push_back(ticket);
            return;
        }
        let mut tickets = level.spare.pop().unwrap_or_default();
        tickets.push_back(ticket);
        level.lanes.insert(lane, tickets);
        level.turn.push_back(lane);
    }

    /// Takes the next ticket for which `is_good` holds; others are thrown away.
    pub(super) fn pop(&mut self, mut is_good: impl FnMut(Ticket) -> bool) -> Option<Ticket> {
        let mut found = None;
        for level in self.levels.values_mut().rev() {
            found = iter::from_fn(|| level.pop()).find(|ticket| is_good(*ticket));
            if found.is_some() {
                break;
            }
        }
        // A few priorities are kept with their memory: the same ones come again.
        if found.is_none() && self.levels.len() > LEVELS {
            self.levels.clear();
        }
        found
    }
}

// --- Level ---

impl Level {
    fn pop(&mut self) -> Option<Ticket> {
        let lane = self.turn.pop_front()?;
        let tickets = self.lanes.get_mut(&lane)?;
        let ticket = tickets.pop_front();
        if tickets.is_empty() {
            let emptied = self.lanes.remove(&lane);
            self.spare.extend(emptied.filter(|_| self.spare.len() < SPARE));
        } else {
            self.turn.push_back(lane);
        }
        ticket
    }
}
