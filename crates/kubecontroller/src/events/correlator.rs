//! Decides which events are written, counted or dropped.
//!
//! The correlator does not wait and has no clock: callers pass the time.
// upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go EventCorrelator

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::{
    lru_cache::LruCache,
    record::{EventAttributes, EventCount},
};

/// The number of entries per cache.
// upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go populateDefaults; the same defaults
const MAX_CACHE_ENTRIES: usize = 4096;
/// The burst of the token bucket per source and object.
const BURST: f64 = 25.0;
/// The interval at which the token bucket gains a token.
const REFILL: Duration = Duration::from_mins(5);
/// The number of different notes with one reason from which on events are combined.
const MAX_SIMILAR_NOTES: usize = 10;
/// Notes are combined only if they are not further apart than this.
const MAX_INTERVAL: Duration = Duration::from_mins(10);
const COMBINED: &str = "(combined from similar events): ";

/// What to do with an event.
#[derive(Debug, PartialEq)]
pub(super) enum CorrelationDecision {
    /// Drop it: the rate limit of its source and object is exceeded.
    Filtered,
    /// Create an event.
    First(EventAttributes, EventCount),
    /// Update the existing event with a higher count.
    Again(EventAttributes, EventCount),
}

pub(super) struct Correlator {
    tokens: LruCache<Vec<String>, (f64, Instant)>,
    texts: LruCache<Vec<String>, (BTreeSet<String>, Instant)>,
    counts: LruCache<Vec<String>, EventCount>,
    /// The last nanosecond used in a name, which keeps names unique.
    last_nanosecond: i128,
}

impl Correlator {
    pub(super) fn new() -> Self {
        Correlator {
            tokens: LruCache::new(MAX_CACHE_ENTRIES),
            texts: LruCache::new(MAX_CACHE_ENTRIES),
            counts: LruCache::new(MAX_CACHE_ENTRIES),
            last_nanosecond: 0,
        }
    }
    // upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go EventCorrelator.EventCorrelate
    pub(super) fn correlate(&mut self, mut event: EventAttributes, now: Instant) -> CorrelationDecision {
        if self.exceeds_rate_limit(&event, now) {
            return CorrelationDecision::Filtered;
        }
        let key = self.key(&mut event, now);
        if let Some(count) = self.counts.get(&key) {
            count.times = count.times.saturating_add(1);
            return CorrelationDecision::Again(event, count.clone());
        }
        let count = EventCount {
            name: self.name(&event),
            first: event.at,
            times: 1,
        };
        self.counts.insert(key, count.clone());
        CorrelationDecision::First(event, count)
    }

    /// Forgets an event that could not be written, so that the next occurrence creates a new event.
    pub(super) fn forget(&mut self, event: &EventAttributes) {
        self.counts.remove(&count_key(event));
    }

    /// Gives an event another name because its name is taken.
    pub(super) fn rename(&mut self, event: &EventAttributes, count: &mut EventCount) {
        count.name = self.name(event);
        self.counts.insert(count_key(event), count.clone());
    }

    // upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go EventSourceObjectSpamFilter.Filter
    fn exceeds_rate_limit(&mut self, event: &EventAttributes, now: Instant) -> bool {
        let (tokens, since) = self.tokens.entry(&event.source_key(), || (BURST, now));
        *tokens = (*tokens + (now - *since).div_duration_f64(REFILL)).min(BURST);
        *since = now;
        if *tokens < 1.0 {
            return true;
        }
        *tokens -= 1.0;
        false
    }

    /// The key under which the event is counted. If it is combined with similar events, its note gets a prefix.
    // upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go EventAggregator.EventAggregate
    fn key(&mut self, event: &mut EventAttributes, now: Instant) -> Vec<String> {
        let (texts, last) = self.texts.entry(&event.similar_key(), || (BTreeSet::new(), now));
        if now - *last > MAX_INTERVAL {
            texts.clear();
        }
        *last = now;
        texts.insert(event.note.clone());
        if texts.len() < MAX_SIMILAR_NOTES {
            return event.same_key();
        }
        texts.pop_first();
        event.note.insert_str(0, COMBINED);
        event.similar_key()
    }

    /// A name for a new event: the name of the object and the time in hexadecimal nanoseconds.
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
        // Names of some kinds, such as roles, are not valid names of events.
        format!("{:08x}.{nanosecond:x}", hash(object))
    }
}

/// The key under which a correlated event was counted.
fn count_key(event: &EventAttributes) -> Vec<String> {
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
