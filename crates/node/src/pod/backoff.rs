//! How long something that failed waits before it is tried again.

use std::{collections::HashMap, hash::Hash, time::Duration};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Waits per key: doubled with each failure, and forgotten after twice the longest wait without one.
#[derive(Debug)]
pub(crate) struct Backoff<K> {
    first: Duration,
    most: Duration,
    waits: HashMap<K, Wait>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    time: Duration,
    /// When it was last made longer.
    since: Timestamp,
}

// --- Backoff ---

impl<K: Eq + Hash + Clone> Backoff<K> {
    /// Waits from `first` to `most`.
    pub(crate) fn new(first: Duration, most: Duration) -> Self {
        Backoff {
            first,
            most,
            waits: HashMap::new(),
        }
    }

    /// Until when a key waits, if it does now. `event` is when it failed; one that was well for long enough begins anew.
    pub(crate) fn until(&self, key: &K, event: Timestamp, now: Timestamp) -> Option<(Timestamp, Duration)> {
        let wait = self.waits.get(key)?;
        if self.is_stale(wait, event) {
            return None;
        }
        let until = after(event, wait.time);
        (now < until).then_some((until, wait.time))
    }

    /// As [`Backoff::until`], counted from when the wait was last made longer.
    pub(crate) fn until_since_failure(&self, key: &K, now: Timestamp) -> Option<Timestamp> {
        let wait = self.waits.get(key)?;
        if self.is_stale(wait, now) {
            return None;
        }
        let until = after(wait.since, wait.time);
        (now < until).then_some(until)
    }

    /// Notes that a key was tried, or failed: the next wait is longer.
    pub(crate) fn lengthen(&mut self, key: &K, event: Timestamp, now: Timestamp) {
        let time = match self.waits.get(key) {
            Some(wait) if !self.is_stale(wait, event) => (wait.time * 2).min(self.most),
            _ => self.first,
        };
        self.waits.insert(key.clone(), Wait { time, since: now });
    }

    /// Forgets keys.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&K) -> bool) {
        self.waits.retain(|key, _| !is_gone(key));
    }

    fn is_stale(&self, wait: &Wait, event: Timestamp) -> bool {
        event > after(wait.since, self.most * 2)
    }
}

/// A time, so much later.
pub(super) fn after(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    time.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// How long from one time to another; nothing if it has passed.
pub(super) fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

/// As upstream writes durations: `10s`, `1m20s`, `5m0s`.
pub(crate) fn text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    #[test]
    fn waits_double_up_to_the_most_and_begin_anew_after_a_good_while() {
        let mut backoff = Backoff::new(Duration::from_secs(10), Duration::from_mins(5));
        assert_eq!(backoff.until(&"a", at(0), at(0)), None);
        let mut now = 0;
        for wait in [10, 20, 40, 80, 160, 300, 300] {
            backoff.lengthen(&"a", at(now), at(now));
            let expected = (at(now + wait), Duration::from_secs(wait.unsigned_abs()));
            assert_eq!(backoff.until(&"a", at(now), at(now + wait - 1)), Some(expected));
            assert_eq!(backoff.until(&"a", at(now), at(now + wait)), None);
            now += wait;
        }
        let later = now + 601;
        assert_eq!(backoff.until(&"a", at(later), at(later)), None);
        backoff.lengthen(&"a", at(later), at(later));
        assert_eq!(
            backoff.until(&"a", at(later), at(later)).unwrap().1,
            Duration::from_secs(10)
        );
    }

    #[test]
    fn durations_read_as_upstream_writes_them() {
        let written = [10, 80, 300, 3661].map(|seconds| text(Duration::from_secs(seconds)));
        assert_eq!(written, ["10s", "1m20s", "5m0s", "1h1m1s"]);
    }
}
