//! Entries: a key with its value, revision and expiry.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::{Key, Revision};

/// A key, its value, and the revision of the commit that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value, byte for byte as written.
    pub value: Bytes,
    /// The revision of the last write.
    pub revision: Revision,
    /// When the entry expires; `None` for never.
    pub expiry: Option<Expiry>,
}

/// When an entry expires and is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The deadline in milliseconds since 1970, by the clock of the writer.
    pub deadline_ms: u64,
    /// The time to live. A deadline that is further away was written with a wrong clock and is capped to this.
    pub ttl: Duration,
}

/// Maximum time to live in seconds: 136 years. A longer one could overflow the timestamps of a backend.
const LONGEST_TTL: u64 = u32::MAX as u64;

// --- Expiry ---

impl Expiry {
    /// The expiry of an entry written `now` that lives for `ttl`, rounded up to whole seconds.
    pub fn after(now: SystemTime, ttl: Duration) -> Self {
        let seconds = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0));
        let ttl = Duration::from_secs(seconds.clamp(1, LONGEST_TTL));
        Self {
            deadline_ms: unix_ms(now).saturating_add(millis(ttl)),
            ttl,
        }
    }

    /// The remaining time to live at `now`.
    pub fn left(&self, now: SystemTime) -> Duration {
        Duration::from_millis(self.deadline_ms.saturating_sub(unix_ms(now))).min(self.ttl)
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    // A clock before 1970 is not set: treat it as 1970.
    time.duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_is_whole_seconds_that_a_clock_can_count() {
        let ttl = |ttl| Expiry::after(UNIX_EPOCH, ttl).ttl;
        assert_eq!(ttl(Duration::ZERO), Duration::from_secs(1));
        assert_eq!(ttl(Duration::from_millis(1001)), Duration::from_secs(2));
        assert_eq!(ttl(Duration::MAX), Duration::from_secs(u32::MAX.into()));
    }

    #[test]
    fn a_clock_that_jumps_back_does_not_keep_entries_forever() {
        let written = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        let expiry = Expiry::after(written, Duration::from_mins(1));
        assert_eq!(
            expiry.left(written + Duration::from_secs(20)),
            Duration::from_secs(40)
        );
        assert_eq!(
            expiry.left(written - Duration::from_hours(24)),
            Duration::from_mins(1)
        );
        assert_eq!(expiry.left(written + Duration::from_secs(61)), Duration::ZERO);
        assert_eq!(
            expiry.left(UNIX_EPOCH - Duration::from_secs(1)),
            Duration::from_mins(1)
        );
    }
}
