//! Which events are worth a request.
//!
//! No waiting and no clock of its own: it is told the time.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::{
    recent::Recent,
    record::{Count, EventAttributes},
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

/// What becomes of something that was event.
#[derive(Debug, PartialEq)]
pub(super) enum CorrelationDecision {
    /// Too much was told about this object lately.
    Filtered,
    /// It is the first of its kind: a new event.
    First(EventAttributes, Count),
    /// It was told before: the event counts it.
    Again(EventAttributes, Count),
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

    pub(super) fn judge(&mut self, mut event: EventAttributes, now: Instant) -> CorrelationDecision {
        if self.is_too_much(&event, now) {
            return CorrelationDecision::Filtered;
        }
        let key = self.key(&mut event, now);
        if let Some(count) = self.counts.get(&key) {
            count.times = count.times.saturating_add(1);
            return CorrelationDecision::Again(event, count.clone());
        }
        let count = Count {
            name: self.name(&event),
            first: event.at,
            times: 1,
        };
        self.counts.insert(key, count.clone());
        CorrelationDecision::First(event, count)
    }

    /// The event could not be written: the next one is a new one.
    pub(super) fn forget(&mut self, event: &EventAttributes) {
        self.counts.remove(&counted_as(event));
    }

    /// The name of a new event is taken: it gets another one.
    pub(super) fn rename(&mut self, event: &EventAttributes, count: &mut Count) {
        count.name = self.name(event);
        self.counts.insert(counted_as(event), count.clone());
    }

    fn is_too_much(&mut self, event: &EventAttributes, now: Instant) -> bool {
        let (tokens, since) = self.tokens.entry(&event.source_key(), || (BURST, now));
        *tokens = (*tokens + (now - *since).div_duration_f64(REFILL)).min(BURST);
        *since = now;
        if *tokens < 1.0 {
            return true;
        }
        *tokens -= 1.0;
        false
    }

    /// Under which key it is counted; its text says so if that is together with others.
    fn key(&mut self, event: &mut EventAttributes, now: Instant) -> Vec<String> {
        let (texts, last) = self.texts.entry(&event.similar_key(), || (BTreeSet::new(), now));
        if now - *last > APART {
            texts.clear();
        }
        *last = now;
        texts.insert(event.note.clone());
        if texts.len() < TEXTS {
            return event.same_key();
        }
        texts.pop_first();
        event.note.insert_str(0, COMBINED);
        event.similar_key()
    }

    /// A name for a new event: that of the object, and when.
    fn name(&mut self, event: &EventAttributes) -> String {
        let nanosecond = event.at.as_nanosecond().max(self.last_nanosecond + 1);
        self.last_nanosecond = nanosecond;
        let object = event.regarding.name.as_deref().unwrap_or_default();
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
fn counted_as(event: &EventAttributes) -> Vec<String> {
    if event.note.starts_with(COMBINED) {
        event.similar_key()
    } else {
        event.same_key()
    }
}

fn hash(text: &str) -> u32 {
    let bytes = text.bytes();
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
