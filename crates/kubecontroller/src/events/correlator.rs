//! Which events are worth a request.
//!
//! No waiting and no clock of its own: it is told the time.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::{
    recent::Recent,
    record::{Count, Told},
};

/// How many sources, reasons and texts are remembered.
const REMEMBERED: usize = 4096;
/// At once, per source and object.
const BURST: f64 = 25.0;
/// One more after so long.
const REFILL: Duration = Duration::from_mins(5);
/// So many texts with one reason are told apart.
const TEXTS: usize = 10;
/// Texts this far apart have nothing to do with each other.
const APART: Duration = Duration::from_mins(10);
const COMBINED: &str = "(combined from similar events): ";

/// What becomes of something that was told.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Too much was told about this object lately.
    Filtered,
    /// It is the first of its kind: a new event.
    First(Told, Count),
    /// It was told before: the event counts it.
    Again(Told, Count),
}

pub(super) struct Correlator {
    tokens: Recent<Vec<String>, (f64, Instant)>,
    texts: Recent<Vec<String>, (BTreeSet<String>, Instant)>,
    counts: Recent<Vec<String>, Count>,
    /// No two events get the same name.
    last_nanosecond: i128,
}

impl Correlator {
    pub(super) fn new() -> Self {
        Correlator {
            tokens: Recent::new(REMEMBERED),
            texts: Recent::new(REMEMBERED),
            counts: Recent::new(REMEMBERED),
            last_nanosecond: 0,
        }
    }

    pub(super) fn judge(&mut self, mut told: Told, now: Instant) -> Verdict {
        if self.is_too_much(&told, now) {
            return Verdict::Filtered;
        }
        let key = self.key(&mut told, now);
        if let Some(count) = self.counts.get(&key) {
            count.times = count.times.saturating_add(1);
            return Verdict::Again(told, count.clone());
        }
        let count = Count {
            name: self.name(&told),
            first: told.at,
            times: 1,
        };
        self.counts.insert(key, count.clone());
        Verdict::First(told, count)
    }

    /// The event could not be written: the next one is a new one.
    pub(super) fn forget(&mut self, told: &Told) {
        self.counts.remove(&counted_as(told));
    }

    /// The name of a new event is taken: it gets another one.
    pub(super) fn rename(&mut self, told: &Told, count: &mut Count) {
        count.name = self.name(told);
        self.counts.insert(counted_as(told), count.clone());
    }

    fn is_too_much(&mut self, told: &Told, now: Instant) -> bool {
        let (tokens, since) = self.tokens.entry(&told.source_key(), || (BURST, now));
        *tokens = (*tokens + (now - *since).div_duration_f64(REFILL)).min(BURST);
        *since = now;
        if *tokens < 1.0 {
            return true;
        }
        *tokens -= 1.0;
        false
    }

    /// Under which key it is counted; its text says so if that is together with others.
    fn key(&mut self, told: &mut Told, now: Instant) -> Vec<String> {
        let (texts, last) = self.texts.entry(&told.similar_key(), || (BTreeSet::new(), now));
        if now - *last > APART {
            texts.clear();
        }
        *last = now;
        texts.insert(told.note.clone());
        if texts.len() < TEXTS {
            return told.same_key();
        }
        texts.pop_first();
        told.note.insert_str(0, COMBINED);
        told.similar_key()
    }

    /// A name for a new event: that of the object, and when.
    fn name(&mut self, told: &Told) -> String {
        let nanosecond = told.at.as_nanosecond().max(self.last_nanosecond + 1);
        self.last_nanosecond = nanosecond;
        let object = told.regarding.name.as_deref().unwrap_or_default();
        let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        let begins_well = object.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        let parts_are_fine = object
            .split('.')
            .all(|part| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-'));
        if begins_well && parts_are_fine && object.chars().all(is_fine) && object.len() <= 230 {
            return format!("{object}.{nanosecond:x}");
        }
        // Names of some kinds (roles, say) are no names for events.
        format!("{:08x}.{nanosecond:x}", hash(object))
    }
}

/// Under which key something was counted that has been judged.
fn counted_as(told: &Told) -> Vec<String> {
    if told.note.starts_with(COMBINED) {
        told.similar_key()
    } else {
        told.same_key()
    }
}

fn hash(text: &str) -> u32 {
    let bytes = text.bytes();
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
