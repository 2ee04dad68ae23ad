//! How many requests are served at once: reads and writes apart, so that neither keeps out the other.

use std::sync::Arc;

use k3_api::rules::User;

use crate::metrics::Metrics;

/// Groups and users whose requests are never refused: without them the cluster could not be looked after, nor would it go on.
const EXEMPT_GROUPS: [&str; 3] = [
    "system:masters",
    "system:nodes",
    "system:serviceaccounts:kube-system",
];
const EXEMPT_USERS: [&str; 2] = ["system:kube-controller-manager", "system:kube-scheduler"];

/// The two pools.
pub(super) struct Pools {
    /// Reads, then writes; 0 is no limit.
    limits: [usize; 2],
    metrics: Arc<Metrics>,
}

/// A place in a pool. Dropping it frees the place.
pub(super) struct Permit {
    metrics: Arc<Metrics>,
    pool: usize,
}

// --- Pools ---

impl Pools {
    pub(super) fn new(reads: usize, writes: usize, metrics: Arc<Metrics>) -> Self {
        Pools {
            limits: [reads, writes],
            metrics,
        }
    }

    /// A place for a request; `None` if there is none.
    pub(super) fn enter(&self, writes: bool, user: &User) -> Option<Permit> {
        let pool = usize::from(writes);
        let permit = Permit {
            metrics: Arc::clone(&self.metrics),
            pool,
        };
        let before = self.metrics.in_flight[pool].add(1);
        let limit = self.limits[pool];
        let has_room = limit == 0 || usize::try_from(before).unwrap_or_default() < limit;
        if has_room || is_exempt(user) {
            return Some(permit);
        }
        self.metrics.dropped[pool].count();
        None
    }
}

/// Whether somebody is let in however many there are.
fn is_exempt(user: &User) -> bool {
    EXEMPT_USERS.contains(&user.name.as_str())
        || user
            .groups
            .iter()
            .any(|group| EXEMPT_GROUPS.contains(&group.as_str()))
}

// --- Permit ---

impl Drop for Permit {
    fn drop(&mut self) {
        self.metrics.in_flight[self.pool].add(-1);
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
    fn a_full_pool_refuses_and_the_other_does_not() {
        let pools = Pools::new(2, 1, Arc::default());
        let alice = user("alice", &["system:authenticated"]);
        let first = pools.enter(false, &alice);
        let second = pools.enter(false, &alice);
        assert!(first.is_some() && second.is_some());
        assert!(pools.enter(false, &alice).is_none());
        let write = pools.enter(true, &alice);
        assert!(write.is_some());
        assert!(pools.enter(true, &alice).is_none());
        drop(first);
        assert!(pools.enter(false, &alice).is_some());
        assert_eq!(
            pools.metrics.dropped.each_ref().map(crate::metrics::Counter::get),
            [1, 1]
        );
    }

    #[test]
    fn those_who_look_after_the_cluster_always_get_in() {
        let pools = Pools::new(1, 1, Arc::default());
        let _full = pools.enter(false, &user("alice", &[]));
        for exempt in [
            user("admin", &["system:masters"]),
            user("system:node:a", &["system:nodes"]),
            user("system:kube-scheduler", &[]),
        ] {
            assert!(pools.enter(false, &exempt).is_some(), "{}", exempt.name);
        }
        assert!(
            pools
                .enter(false, &user("bob", &["system:authenticated"]))
                .is_none()
        );
    }

    #[test]
    fn zero_is_no_limit() {
        let pools = Pools::new(0, 0, Arc::default());
        let alice = user("alice", &[]);
        let permits: Vec<_> = (0..1000).map(|_| pools.enter(false, &alice)).collect();
        assert!(permits.iter().all(Option::is_some));
    }
}
