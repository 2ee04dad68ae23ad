//! Exponential back-off per key.
// upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go Backoff

use std::{collections::HashMap, hash::Hash, time::Duration};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Delays per key: doubled with each failure, and reset after twice the maximum without one.
#[derive(Debug)]
pub(crate) struct KeyedBackoff<K> {
    base: Duration,
    max: Duration,
    entries: HashMap<K, BackoffEntry>,
}

#[derive(Clone, Copy, Debug)]
struct BackoffEntry {
    delay: Duration,
    /// When the delay was last increased.
    since: Timestamp,
}

// --- KeyedBackoff ---

impl<K: Eq + Hash + Clone> KeyedBackoff<K> {
    /// Delays from `base` to `max`.
    pub(crate) fn new(base: Duration, max: Duration) -> Self {
        KeyedBackoff {
            base,
            max,
            entries: HashMap::new(),
        }
    }

    /// The end of the back-off and its length, if the key is in back-off. `event` is the time of the failure.
    // upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go IsInBackOffSince
    pub(crate) fn until(&self, key: &K, event: Timestamp, now: Timestamp) -> Option<(Timestamp, Duration)> {
        let entry = self.entries.get(key)?;
        if self.has_expired(entry, event) {
            return None;
        }
        let until = add_duration(event, entry.delay);
        (now < until).then_some((until, entry.delay))
    }

    /// The end of the back-off, counted from the last increase.
    // upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go IsInBackOffSinceUpdate
    pub(crate) fn until_since_update(&self, key: &K, now: Timestamp) -> Option<Timestamp> {
        let entry = self.entries.get(key)?;
        if self.has_expired(entry, now) {
            return None;
        }
        let until = add_duration(entry.since, entry.delay);
        (now < until).then_some(until)
    }

    /// Increases the delay after an attempt or a failure.
    // upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go Next
    pub(crate) fn increase(&mut self, key: &K, event: Timestamp, now: Timestamp) {
        let delay = match self.entries.get(key) {
            Some(entry) if !self.has_expired(entry, event) => (entry.delay * 2).min(self.max),
            _ => self.base,
        };
        self.entries
            .insert(key.clone(), BackoffEntry { delay, since: now });
    }

    /// Removes the keys that `should_remove` selects.
    pub(crate) fn remove(&mut self, should_remove: impl Fn(&K) -> bool) {
        self.entries.retain(|key, _| !should_remove(key));
    }

    fn has_expired(&self, entry: &BackoffEntry, event: Timestamp) -> bool {
        event > add_duration(entry.since, self.max * 2)
    }
}

pub(super) fn add_duration(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// Zero if the time has passed.
pub(super) fn duration_until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    #[test]
    fn delay_doubles_up_to_the_maximum_and_resets_after_twice_the_maximum() {
        let mut backoff = KeyedBackoff::new(Duration::from_secs(10), Duration::from_mins(5));
        assert_eq!(backoff.until(&"a", at(0), at(0)), None);
        let mut now = 0;
        for delay in [10, 20, 40, 80, 160, 300, 300] {
            backoff.increase(&"a", at(now), at(now));
            let expected = (at(now + delay), Duration::from_secs(delay.unsigned_abs()));
            assert_eq!(backoff.until(&"a", at(now), at(now + delay - 1)), Some(expected));
            assert_eq!(backoff.until(&"a", at(now), at(now + delay)), None);
            now += delay;
        }
        let later = now + 601;
        assert_eq!(backoff.until(&"a", at(later), at(later)), None);
        backoff.increase(&"a", at(later), at(later));
        assert_eq!(
            backoff.until(&"a", at(later), at(later)).unwrap().1,
            Duration::from_secs(10)
        );
    }
}
