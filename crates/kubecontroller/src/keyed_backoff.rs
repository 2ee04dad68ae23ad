//! A backoff per key.
// upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go Backoff

use std::{hash::Hash, time::Duration};

use hashbrown::HashMap;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use crate::Backoff;

/// Delays per key: a delay grows with each failure, and is reset after twice the maximum without one.
///
/// With an [`Instant`] the delays do not depend on the wall clock. A [`Timestamp`] is for failures whose time another program
/// wrote, such as the end of a container: a clock that is set back lengthens the delay.
#[derive(Clone, Debug)]
pub struct KeyedBackoff<K, T = Timestamp> {
    backoff: Backoff,
    entries: HashMap<K, BackoffEntry<T>>,
}

/// A point in time from which delays are counted.
pub trait BackoffTime: Copy + Ord {
    /// The time after a delay, or the last one that can be represented.
    #[must_use]
    fn saturating_add(self, delay: Duration) -> Self;
}

#[derive(Clone, Copy, Debug)]
struct BackoffEntry<T> {
    /// Failures in a row.
    failures: u32,
    /// When the last of them was counted.
    since: T,
}

// --- BackoffTime ---

impl BackoffTime for Timestamp {
    fn saturating_add(self, delay: Duration) -> Self {
        self.checked_add(delay).unwrap_or(Timestamp::MAX)
    }
}

impl BackoffTime for Instant {
    fn saturating_add(self, delay: Duration) -> Self {
        /// An `Instant` has no maximum; nothing that backs off runs for centuries.
        const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);
        self.checked_add(delay).unwrap_or_else(|| self + LONGEST)
    }
}

// --- KeyedBackoff ---

impl<K: Eq + Hash, T: BackoffTime> KeyedBackoff<K, T> {
    /// No failures yet.
    pub fn new(backoff: Backoff) -> Self {
        KeyedBackoff {
            backoff,
            entries: HashMap::new(),
        }
    }

    /// The end of the backoff and its length, if the key is in backoff. `event` is the time of the failure.
    // upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go IsInBackOffSince
    pub fn until(&self, key: &K, event: T, now: T) -> Option<(T, Duration)> {
        let entry = self.entries.get(key)?;
        if self.has_expired(entry, event) {
            return None;
        }
        let delay = self.backoff.after(entry.failures);
        let until = event.saturating_add(delay);
        (now < until).then_some((until, delay))
    }

    /// The end of the backoff, counted from the last increase.
    // upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go IsInBackOffSinceUpdate
    pub fn until_since_update(&self, key: &K, now: T) -> Option<T> {
        let entry = self.entries.get(key)?;
        if self.has_expired(entry, now) {
            return None;
        }
        let until = entry.since.saturating_add(self.backoff.after(entry.failures));
        (now < until).then_some(until)
    }

    /// Increases the delay after an attempt or a failure.
    // upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go Next
    pub fn increase(&mut self, key: K, event: T, now: T) {
        let before = self.entries.get(&key);
        let before = before.filter(|entry| !self.has_expired(entry, event));
        let failures = before.map_or(1, |entry| entry.failures.saturating_add(1));
        let entry = BackoffEntry { failures, since: now };
        self.entries.insert(key, entry);
    }

    /// Removes the keys that `should_remove` selects.
    pub fn remove(&mut self, should_remove: impl Fn(&K) -> bool) {
        self.entries.retain(|key, _| !should_remove(key));
    }

    /// Removes the keys whose delay is reset by now. Needed where keys are not removed with their objects.
    // upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go GC
    pub fn remove_expired(&mut self, now: T) {
        let max = self.backoff.max;
        self.entries.retain(|_, entry| now <= expiry(entry, max));
    }

    fn has_expired(&self, entry: &BackoffEntry<T>, event: T) -> bool {
        event > expiry(entry, self.backoff.max)
    }
}

fn expiry<T: BackoffTime>(entry: &BackoffEntry<T>, max: Duration) -> T {
    entry.since.saturating_add(max.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(10), Duration::from_mins(5));

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    #[test]
    fn delay_doubles_up_to_the_maximum_and_resets_after_twice_the_maximum() {
        let mut backoff = KeyedBackoff::new(BACKOFF);
        assert_eq!(backoff.until(&"a", at(0), at(0)), None);
        let mut now = 0;
        for delay in [10, 20, 40, 80, 160, 300, 300] {
            backoff.increase("a", at(now), at(now));
            let expected = (at(now + delay), Duration::from_secs(delay.unsigned_abs()));
            assert_eq!(backoff.until(&"a", at(now), at(now + delay - 1)), Some(expected));
            assert_eq!(backoff.until(&"a", at(now), at(now + delay)), None);
            now += delay;
        }
        let later = now + 601;
        assert_eq!(backoff.until(&"a", at(later), at(later)), None);
        backoff.increase("a", at(later), at(later));
        assert_eq!(
            backoff.until(&"a", at(later), at(later)).unwrap().1,
            Duration::from_secs(10)
        );
    }

    #[test]
    fn keys_are_independent_until_removed_or_expired() {
        let mut backoff = KeyedBackoff::new(BACKOFF);
        backoff.increase("a", at(0), at(0));
        backoff.increase("a", at(0), at(0));
        backoff.increase("b", at(0), at(0));
        assert_eq!(backoff.until_since_update(&"a", at(1)), Some(at(20)));
        assert_eq!(backoff.until_since_update(&"b", at(1)), Some(at(10)));
        backoff.remove(|key| *key == "a");
        assert_eq!(backoff.until_since_update(&"a", at(1)), None);
        backoff.remove_expired(at(600));
        assert_eq!(backoff.entries.len(), 1);
        backoff.remove_expired(at(601));
        assert_eq!(backoff.entries.len(), 0);
    }

    #[test]
    fn instants_back_off_like_timestamps() {
        let mut backoff = KeyedBackoff::new(BACKOFF);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        backoff.increase("a", start, start);
        backoff.increase("a", start, start);
        assert_eq!(backoff.until_since_update(&"a", after(1)), Some(after(20)));
        assert_eq!(backoff.until_since_update(&"a", after(20)), None);
        backoff.remove_expired(after(601));
        assert_eq!(backoff.entries.len(), 0);
    }

    #[test]
    fn delay_beyond_the_last_timestamp_does_not_overflow() {
        let mut backoff = KeyedBackoff::new(Backoff::constant(Duration::MAX));
        backoff.increase("a", at(0), at(0));
        assert_eq!(backoff.until_since_update(&"a", at(1)), Some(Timestamp::MAX));
    }
}
