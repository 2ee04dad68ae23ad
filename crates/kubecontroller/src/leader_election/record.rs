//! The record in a lease, and how other candidates observe it.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::{SignedDuration, Timestamp},
};
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::LeaderElectionConfig;

/// What a candidate remembers of a lease held by another.
#[derive(Default)]
pub(super) struct ObservedLease {
    /// UID and resource version of the lease, and since when they have not changed.
    last: Option<(String, String, Instant)>,
}

// --- ObservedLease ---

impl ObservedLease {
    /// Observes the lease. Returns for how long it has not changed since this candidate first saw this version.
    pub(super) fn observe(&mut self, lease: &Lease, now: Instant) -> Duration {
        let uid = lease.metadata.uid.clone().unwrap_or_default();
        // Any write counts as a renewal, not only a later `renewTime`: the clock of the holder may stand still.
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        match &self.last {
            Some((same_uid, same_version, since)) if *same_uid == uid && *same_version == version => {
                now - *since
            }
            _ => {
                self.last = Some((uid, version, now));
                Duration::ZERO
            }
        }
    }
}

// --- records ---

/// The holder of the lease; none if it was released.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    (!holder.is_empty()).then_some(holder)
}

/// How long the lease is valid after its last change. The holder's value counts, because the holder relies on it.
pub(super) fn duration(lease: &Lease, options: &LeaderElectionConfig) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(options.duration, Duration::from_secs)
}

/// The lease with this candidate as holder: a new lease, a released one, its own, or an expired one of another candidate.
pub(super) fn acquired(old: Option<&Lease>, options: &LeaderElectionConfig, now: Timestamp) -> Lease {
    let mut lease = old.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(options.name.clone()),
            namespace: Some(options.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    let is_mine = holder(&lease) == Some(&options.identity);
    let spec = lease.spec.get_or_insert_default();
    let now = later(now, spec);
    if !is_mine {
        let before = spec.lease_transitions.unwrap_or(0);
        spec.lease_transitions = Some(if old.is_some() {
            before.saturating_add(1)
        } else {
            0
        });
        spec.acquire_time = Some(now.clone());
        spec.holder_identity = Some(options.identity.clone());
    }
    spec.lease_duration_seconds = Some(seconds(options.duration));
    spec.renew_time = Some(now);
    lease
}

/// The released lease.
pub(super) fn released(old: &Lease, now: Timestamp) -> Lease {
    let mut lease = old.clone();
    let spec = lease.spec.get_or_insert_default();
    let now = later(now, spec);
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.acquire_time = Some(now.clone());
    spec.renew_time = Some(now);
    lease
}

/// A time after the one in the lease: a renewal that changes nothing would not be visible to other candidates.
fn later(now: Timestamp, spec: &LeaseSpec) -> MicroTime {
    let microsecond = SignedDuration::from_micros(1);
    let min = spec
        .renew_time
        .as_ref()
        .and_then(|last| last.0.checked_add(microsecond).ok());
    MicroTime(min.map_or(now, |min| min.max(now)))
}

/// Whole seconds, rounded up: other candidates may wait longer, but never shorter.
fn seconds(duration: Duration) -> i32 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(whole).unwrap_or(i32::MAX)
}
