//! Each expiring entry has its own lease, whose ID encodes the deadline.
//!
//! An id is 63 bits: 32 of the deadline in seconds since 1970, 15 of the time to live (ten digits and
//! an exponent, rounded up), and 16 that make it unique. So an entry's expiry is known from the entry
//! alone, without asking for its lease.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use super::{
    connection::{EtcdConnection, RetryPolicy},
    failure::{EtcdFailure, EtcdRejection},
    messages::{EmptyResponse, LeaseGrantRequest, LeaseRevokeRequest, method},
};
use crate::Expiry;

const UNIQUE_BITS: u32 = 16;
const EXPONENT_BITS: u32 = 5;
const DIGIT_BITS: u32 = 10;
const DEADLINE_BITS: u32 = 32;

/// Maximum number of IDs to try for a grant. With the unique bits taken one after the other,
/// a collision needs another process, or 65,536 entries that expire in the same second.
const ATTEMPTS: usize = 16;

/// Makes lease ids that this process does not use twice within a second.
pub(super) struct LeaseGrants {
    next: AtomicU64,
}

// --- LeaseGrants ---

impl LeaseGrants {
    pub(super) fn new() -> Self {
        // Processes start with different values.
        Self {
            next: AtomicU64::new(RandomState::new().build_hasher().finish()),
        }
    }

    /// Grants a lease for an entry with this expiry.
    pub(super) async fn grant(
        &self,
        connection: &EtcdConnection,
        expiry: Expiry,
        now: SystemTime,
        deadline: Instant,
    ) -> Result<i64, EtcdFailure> {
        // etcd takes no less than a second, and makes it more as it needs to survive an election.
        let ttl = whole_seconds(expiry.left(now)).max(1);
        let mut attempt = 1;
        loop {
            let request = LeaseGrantRequest {
                ttl: i64::try_from(ttl).unwrap_or(i64::MAX),
                id: id(expiry, self.next.fetch_add(1, Ordering::Relaxed)),
            };
            let lease = request.id;
            // Sent at most once: a second grant of one id is refused as a collision.
            let answer: Result<EmptyResponse, EtcdFailure> = connection
                .call(method::LEASE_GRANT, request, RetryPolicy::Never, deadline)
                .await;
            match answer {
                Ok(EmptyResponse {}) => return Ok(lease),
                Err(failure)
                    if failure.rejection() == Some(EtcdRejection::LeaseExists) && attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// Revokes an unused lease. If that fails, the lease expires by itself.
pub(super) async fn revoke(connection: &EtcdConnection, lease: i64, deadline: Instant) {
    let request = LeaseRevokeRequest { id: lease };
    let answer: Result<EmptyResponse, EtcdFailure> = connection
        .call(method::LEASE_REVOKE, request, RetryPolicy::Harmless, deadline)
        .await;
    if let Err(failure) = answer {
        tracing::debug!(?failure, lease, "an unused lease is left to expire");
    }
}

/// Decodes the expiry from the ID of a lease.
pub(super) fn expiry(lease: i64) -> Option<Expiry> {
    let id = u64::try_from(lease).ok().filter(|id| *id > 0)? >> UNIQUE_BITS;
    let exponent = id & mask(EXPONENT_BITS);
    let digits = (id >> EXPONENT_BITS) & mask(DIGIT_BITS);
    let deadline = id >> (EXPONENT_BITS + DIGIT_BITS);
    Some(Expiry {
        deadline_ms: deadline * 1000,
        ttl: Duration::from_secs(digits << exponent),
    })
}

fn id(expiry: Expiry, unique: u64) -> i64 {
    let deadline = expiry.deadline_ms.div_ceil(1000).min(mask(DEADLINE_BITS));
    let (digits, exponent) = round_up(whole_seconds(expiry.ttl));
    let id = (deadline << DIGIT_BITS | digits) << EXPONENT_BITS | exponent;
    (id << UNIQUE_BITS | unique & mask(UNIQUE_BITS)).cast_signed()
}

/// The smallest number not below `seconds` that ten binary digits and an exponent can write.
fn round_up(seconds: u64) -> (u64, u64) {
    let mut digits = seconds;
    let mut exponent = 0;
    while digits > mask(DIGIT_BITS) {
        if exponent == mask(EXPONENT_BITS) {
            return (mask(DIGIT_BITS), exponent);
        }
        digits = digits.div_ceil(2);
        exponent += 1;
    }
    (digits, exponent)
}

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

fn whole_seconds(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_id_encodes_the_expiry() {
        for ttl in [1, 59, 1023, 3600, 86_400, 1_048_576] {
            let written = Expiry {
                deadline_ms: 1_800_000_000_000 + ttl * 1000,
                ttl: Duration::from_secs(ttl),
            };
            let lease = id(written, u64::MAX);
            assert!(lease > 0);
            assert_eq!(expiry(lease), Some(written));
        }
        assert_eq!(expiry(0), None);
    }

    #[test]
    fn rounds_times_to_live_up() {
        let written = Expiry {
            deadline_ms: 1_800_000_000_001,
            ttl: Duration::from_secs(1025),
        };
        let expiry_of_lease = expiry(id(written, 0)).unwrap();
        assert_eq!(expiry_of_lease.deadline_ms, 1_800_000_001_000);
        assert_eq!(expiry_of_lease.ttl, Duration::from_secs(1026));
        let endless = Expiry {
            deadline_ms: u64::MAX,
            ttl: Duration::MAX,
        };
        let lease = id(endless, 0);
        assert!(lease > 0);
        assert!(expiry(lease).unwrap().ttl > Duration::from_hours(24 * 365 * 1000));
    }
}
