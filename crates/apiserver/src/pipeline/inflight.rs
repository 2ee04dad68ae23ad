//! Limits concurrent requests, with separate pools for reads and writes so that neither starves the other.
//!
//! This replaces API Priority and Fairness (KEP-1040): FlowSchema and PriorityLevelConfiguration objects are stored and validated,
//! but a request is not assigned to a priority level.
//!
//! A request takes seats according to its cost: one for each 100 objects that a list processes, or each 256 KiB of a body, at most ten.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use k3_api::strategy::User;

use crate::metrics::Metrics;

/// Groups and users whose requests are never refused: without them the cluster could not be looked after, nor would it go on.
const EXEMPT_GROUPS: [&str; 3] = [
    "system:masters",
    "system:nodes",
    "system:serviceaccounts:kube-system",
];
const EXEMPT_USERS: [&str; 2] = ["system:kube-controller-manager", "system:kube-scheduler"];

// upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/request/config.go DefaultWorkEstimatorConfig
const OBJECTS_PER_SEAT: usize = 100;
const BYTES_PER_SEAT: usize = 256 * 1024;
const MAX_SEATS: usize = 10;

/// The two pools.
// upstream: staging/src/k8s.io/apiserver/pkg/server/filters/maxinflight.go WithMaxInFlightLimit
pub(crate) struct InflightLimits {
    /// Reads, then writes; 0 is no limit.
    limits: [usize; 2],
    /// The seats that are taken, of reads, then of writes.
    seats: Arc<[AtomicUsize; 2]>,
    metrics: Arc<Metrics>,
}

/// A pool of seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InflightPool {
    Reads = 0,
    Writes = 1,
}

/// How limits apply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitClass {
    Ordinary,
    /// It is let in however many there are.
    Exempt,
}

/// The seats of a request in a pool. Dropping it frees them.
pub(super) struct InflightPermit {
    metrics: Arc<Metrics>,
    taken: Arc<[AtomicUsize; 2]>,
    pool: usize,
    seats: usize,
}

/// The seats of a request that processes so many objects and has a body of so many bytes.
pub(super) fn seats(objects: usize, bytes: usize) -> usize {
    let seats = objects
        .div_ceil(OBJECTS_PER_SEAT)
        .max(bytes.div_ceil(BYTES_PER_SEAT));
    seats.clamp(1, MAX_SEATS)
}

// --- InflightLimits ---

impl InflightLimits {
    pub(crate) fn new(reads: usize, writes: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(InflightLimits {
            limits: [reads, writes],
            seats: Arc::default(),
            metrics,
        })
    }

    /// Acquires one seat; `None` if the pool is full.
    pub(super) fn enter(&self, pool: InflightPool, user: &User) -> Option<InflightPermit> {
        let pool = pool as usize;
        let permit = InflightPermit {
            metrics: Arc::clone(&self.metrics),
            taken: Arc::clone(&self.seats),
            pool,
            seats: 1,
        };
        self.metrics.in_flight[pool].add(1);
        let before = self.seats[pool].fetch_add(1, Relaxed);
        let limit = self.limits[pool];
        if limit == 0 || before < limit || LimitClass::of(user) == LimitClass::Exempt {
            return Some(permit);
        }
        self.metrics.dropped[pool].count();
        None
    }

    /// Takes as many seats as a request needs of which more is known now; `false` if there are not as many. A request that has
    /// the pool for itself gets as many as there are.
    pub(super) fn widen(&self, permit: &mut InflightPermit, seats: usize, user: &User) -> bool {
        let more = seats.saturating_sub(permit.seats);
        let before = self.seats[permit.pool].fetch_add(more, Relaxed);
        let limit = self.limits[permit.pool];
        let is_alone = before <= permit.seats;
        permit.seats += more;
        if limit == 0 || before + more <= limit || is_alone || LimitClass::of(user) == LimitClass::Exempt {
            return true;
        }
        self.metrics.dropped[permit.pool].count();
        false
    }
}

// --- LimitClass ---

impl LimitClass {
    /// The class of a user's requests.
    pub(super) fn of(user: &User) -> Self {
        let is_exempt = EXEMPT_USERS.contains(&user.name.as_str())
            || user
                .groups
                .iter()
                .any(|group| EXEMPT_GROUPS.contains(&group.as_str()));
        if is_exempt {
            LimitClass::Exempt
        } else {
            LimitClass::Ordinary
        }
    }
}

// --- InflightPermit ---

impl Drop for InflightPermit {
    fn drop(&mut self) {
        self.metrics.in_flight[self.pool].add(-1);
        self.taken[self.pool].fetch_sub(self.seats, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.to_owned(),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..User::default()
        }
    }

    #[test]
    fn full_pool_rejects_only_its_requests() {
        let pools = InflightLimits::new(2, 1, Arc::default());
        let alice = user("alice", &["system:authenticated"]);
        let first = pools.enter(InflightPool::Reads, &alice);
        let second = pools.enter(InflightPool::Reads, &alice);
        assert!(first.is_some() && second.is_some());
        assert!(pools.enter(InflightPool::Reads, &alice).is_none());
        let write = pools.enter(InflightPool::Writes, &alice);
        assert!(write.is_some());
        assert!(pools.enter(InflightPool::Writes, &alice).is_none());
        drop(first);
        assert!(pools.enter(InflightPool::Reads, &alice).is_some());
        assert_eq!(
            pools.metrics.dropped.each_ref().map(k3_metrics::Counter::get),
            [1, 1]
        );
    }

    #[test]
    fn exempt_users_are_never_rejected() {
        let pools = InflightLimits::new(1, 1, Arc::default());
        let _full = pools.enter(InflightPool::Reads, &user("alice", &[]));
        for exempt in [
            user("admin", &["system:masters"]),
            user("system:node:a", &["system:nodes"]),
            user("system:kube-scheduler", &[]),
        ] {
            assert!(
                pools.enter(InflightPool::Reads, &exempt).is_some(),
                "{}",
                exempt.name
            );
        }
        assert!(
            pools
                .enter(InflightPool::Reads, &user("bob", &["system:authenticated"]))
                .is_none()
        );
    }

    #[test]
    fn seats_follow_cost() {
        for (objects, bytes, expected) in [
            (0, 0, 1),
            (1, 100, 1),
            (100, 0, 1),
            (101, 0, 2),
            (100_000, 0, 10),
            (1, 256 * 1024, 1),
            (1, 3 * 1024 * 1024, 10),
            (1, 600 * 1024, 3),
        ] {
            assert_eq!(
                seats(objects, bytes),
                expected,
                "{objects} objects, {bytes} bytes"
            );
        }
        let pools = InflightLimits::new(0, 12, Arc::default());
        let alice = user("alice", &[]);
        let mut large = pools.enter(InflightPool::Writes, &alice).unwrap();
        assert!(pools.widen(&mut large, 10, &alice));
        let mut second = pools.enter(InflightPool::Writes, &alice).unwrap();
        assert!(!pools.widen(&mut second, 10, &alice));
        let admin = user("admin", &["system:masters"]);
        let mut exempt = pools.enter(InflightPool::Writes, &admin).unwrap();
        assert!(pools.widen(&mut exempt, 10, &admin));
        drop((large, second, exempt));
        assert_eq!(pools.seats[1].load(Relaxed), 0);
        let narrow = InflightLimits::new(0, 2, Arc::default());
        let mut alone = narrow.enter(InflightPool::Writes, &alice).unwrap();
        assert!(
            narrow.widen(&mut alone, 10, &alice),
            "a small pool serves large requests one by one"
        );
    }

    #[test]
    fn zero_means_unlimited() {
        let pools = InflightLimits::new(0, 0, Arc::default());
        let alice = user("alice", &[]);
        let permits: Vec<_> = (0..1000)
            .map(|_| pools.enter(InflightPool::Reads, &alice))
            .collect();
        assert!(permits.iter().all(Option::is_some));
    }
}
