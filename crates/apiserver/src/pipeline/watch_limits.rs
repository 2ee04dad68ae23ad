//! Limits the number of watches per user.

use std::{collections::HashMap, sync::Arc};

use k3_api::{status::Status, strategy::User};
use parking_lot::{Mutex, MutexGuard};

/// The watches of all users.
pub(crate) struct WatchLimits {
    /// So many each may have; 0 is no limit.
    limit: usize,
    /// Only users that have some.
    by_user: Mutex<HashMap<String, usize>>,
}

/// One watch. Dropping it ends the count.
pub(super) struct WatchPermit {
    watchers: Arc<WatchLimits>,
    user: String,
}

// --- WatchLimits ---

impl WatchLimits {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(WatchLimits {
            limit,
            by_user: Mutex::default(),
        })
    }

    /// Counts a watch, unless the user has enough of them. Members of `system:masters` never have.
    pub(super) fn acquire(self: &Arc<Self>, user: &User) -> Result<WatchPermit, Status> {
        let mut by_user = self.lock();
        let count = by_user.get(&user.name).copied().unwrap_or_default();
        let is_exempt = self.limit == 0 || user.groups.iter().any(|group| group == "system:masters");
        if count >= self.limit && !is_exempt {
            let message = format!(
                "user {:?} has {count} watches open, and may have {}; close some and try again later",
                user.name, self.limit
            );
            return Err(Status::too_many_requests(message, 1));
        }
        by_user.insert(user.name.clone(), count + 1);
        Ok(WatchPermit {
            watchers: Arc::clone(self),
            user: user.name.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.by_user.lock()
    }
}

// --- WatchPermit ---

impl Drop for WatchPermit {
    fn drop(&mut self) {
        let mut by_user = self.watchers.lock();
        if let Some(count) = by_user.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_watches_per_user() {
        let watchers = WatchLimits::new(2);
        let user = |name: &str, groups: &[&str]| User {
            name: name.to_owned(),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..User::default()
        };
        let alice = user("alice", &[]);
        let seats = [watchers.acquire(&alice), watchers.acquire(&alice)].map(Result::unwrap);
        let refused = watchers.acquire(&alice).err().unwrap();
        assert_eq!(
            (refused.code, refused.details.unwrap().retry_after_seconds),
            (429, 1)
        );
        assert!(watchers.acquire(&user("bob", &[])).is_ok());
        let admin = user("admin", &["system:masters"]);
        let all: Vec<_> = (0..5).map(|_| watchers.acquire(&admin)).collect();
        assert!(all.iter().all(Result::is_ok));
        drop(seats);
        assert!(watchers.acquire(&alice).is_ok());
        drop(all);
        assert!(watchers.lock().is_empty());
    }
}
