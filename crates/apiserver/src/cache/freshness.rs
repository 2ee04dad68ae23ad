//! When the watch caches were last proven to include everything stored.
//!
//! Promise: a check costs two clock reads. Time during which the process or machine slept counts: one clock includes
//! suspension, the other is corrected when a paused virtual machine resumes.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// For so long after a proof the caches count as current.
const RECENT: Duration = Duration::from_secs(2);
/// A proof that was asked for after a request arrived is good enough for that request, unless it is older than this.
const LONGEST: Duration = Duration::from_secs(20);
/// After this time another proof is worth having.
const AGING: Duration = Duration::from_secs(1);

/// How long ago it was known that the caches have everything that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofAge {
    /// A moment ago.
    Recent,
    /// Not long ago, and soon it will be too long.
    Aging,
    /// Too long ago.
    Old,
}

/// A moment, by two clocks, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockReading {
    /// Since the machine started, with the time it was suspended.
    since_boot: i64,
    /// By the wall clock.
    wall: i64,
}

/// When the caches were last known to have everything that is stored.
pub(super) struct CacheFreshness {
    since_boot: AtomicI64,
    wall: AtomicI64,
}

// --- ClockReading ---

impl ClockReading {
    pub(super) fn now() -> Self {
        ClockReading {
            since_boot: read(ClockId::Boottime),
            wall: read(ClockId::Realtime),
        }
    }

    /// Whether it is not before another moment.
    pub(super) fn is_since(self, other: ClockReading) -> bool {
        self.since_boot >= other.since_boot
    }
}

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec
        .saturating_mul(1000)
        .saturating_add(time.tv_nsec / 1_000_000)
}

// --- CacheFreshness ---

impl CacheFreshness {
    /// Nothing is known yet.
    pub(super) fn unknown() -> Self {
        CacheFreshness {
            since_boot: AtomicI64::new(i64::MIN),
            wall: AtomicI64::new(i64::MIN),
        }
    }

    /// The caches have everything that was stored at a moment.
    pub(super) fn prove(&self, at: ClockReading) {
        // A slow answer must not replace that to a later question.
        let before = self.since_boot.fetch_max(at.since_boot, Ordering::AcqRel);
        if before <= at.since_boot {
            // Moments may get mixed up when two are stored at once: both are true, and so is the older of each.
            self.wall.store(at.wall, Ordering::Release);
        }
    }

    /// Whether the last proof was asked for at this moment or later: a request that arrived then needs no other, however long the
    /// store took to answer.
    pub(super) fn covers(&self, arrived: ClockReading) -> bool {
        self.covers_at(arrived, ClockReading::now())
    }

    fn covers_at(&self, arrived: ClockReading, now: ClockReading) -> bool {
        self.since_boot.load(Ordering::Acquire) >= arrived.since_boot && self.elapsed(now) <= LONGEST
    }

    /// The age by the clock that shows more.
    pub(super) fn age(&self) -> ProofAge {
        self.age_at(ClockReading::now())
    }

    fn age_at(&self, now: ClockReading) -> ProofAge {
        let age = self.elapsed(now);
        if age <= AGING {
            ProofAge::Recent
        } else if age <= RECENT {
            ProofAge::Aging
        } else {
            ProofAge::Old
        }
    }

    fn elapsed(&self, now: ClockReading) -> Duration {
        let since_boot = now.since_boot.abs_diff(self.since_boot.load(Ordering::Acquire));
        let wall = now.wall.abs_diff(self.wall.load(Ordering::Acquire));
        Duration::from_millis(since_boot.max(wall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_expires_by_either_clock() {
        let freshness = CacheFreshness::unknown();
        let proven = ClockReading {
            since_boot: 50_000,
            wall: 1_000_000,
        };
        assert_eq!(freshness.age_at(proven), ProofAge::Old);
        freshness.prove(proven);
        let later = |since_boot, wall| ClockReading {
            since_boot: proven.since_boot + since_boot,
            wall: proven.wall + wall,
        };
        assert_eq!(freshness.age_at(later(900, 900)), ProofAge::Recent);
        assert_eq!(freshness.age_at(later(1_900, 1_900)), ProofAge::Aging);
        // The machine was suspended, or a virtual machine was, or the wall clock was set back.
        assert_eq!(freshness.age_at(later(2_100, 0)), ProofAge::Old);
        assert_eq!(freshness.age_at(later(0, 600_000)), ProofAge::Old);
        assert_eq!(freshness.age_at(later(0, -600_000)), ProofAge::Old);
    }

    #[test]
    fn proof_requested_after_arrival_covers_request() {
        let freshness = CacheFreshness::unknown();
        let at = |millis: i64| ClockReading {
            since_boot: 50_000 + millis,
            wall: 1_000_000 + millis,
        };
        assert!(!freshness.covers_at(at(0), at(0)));
        // Asked for at 100, answered at 8000.
        freshness.prove(at(100));
        assert_eq!(freshness.age_at(at(8_000)), ProofAge::Old);
        assert!(freshness.covers_at(at(0), at(8_000)));
        assert!(freshness.covers_at(at(100), at(8_000)));
        assert!(!freshness.covers_at(at(101), at(8_000)));
        // The machine was suspended after the answer.
        assert!(!freshness.covers_at(at(0), at(600_000)));
        // An earlier question is answered later.
        freshness.prove(at(50));
        assert!(freshness.covers_at(at(100), at(8_000)));
    }
}
