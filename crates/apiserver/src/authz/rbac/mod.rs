//! The RBAC authorizer.
//!
//! Promises: decisions use an index that includes every acknowledged write of any server; the cost of updating it depends only
//! on what changed.

mod cluster_roles;
mod index;
mod rule;
#[cfg(test)]
mod tests;

use std::{collections::HashSet, sync::Arc};

use k3_api::strategy::User;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::index::RbacIndex;
pub(crate) use self::{
    index::RoleResolutionError,
    rule::{PolicyRule, StringList, leads_to, quoted},
};
use super::{AuthorizationAttributes, AuthorizationTarget, Decision, cache_follower::CacheFollower};
use crate::cache::{AtomicCachesVersion, WatchCaches};

const GROUP: &str = "rbac.authorization.k8s.io";
/// How often the caches are checked for changes that arrived during an update.
const LOOKS: usize = 100;

/// Decides by roles and bindings.
pub(super) struct RbacAuthorizer {
    caches: Arc<WatchCaches>,
    /// A panic during an update leaves it incomplete, and marked so: it is then built again before anything is decided.
    state: RwLock<RbacState>,
    /// The version of the caches that the index was last compared with. The index is not behind that.
    seen: AtomicCachesVersion,
}

struct RbacState {
    /// Whether the index has all changes that were taken from the followers; not while an update runs.
    is_complete: bool,
    index: RbacIndex,
    roles: [CacheFollower; 2],
    bindings: [CacheFollower; 2],
}

// --- RbacAuthorizer ---

impl RbacAuthorizer {
    pub(super) fn new(caches: Arc<WatchCaches>) -> Self {
        RbacAuthorizer {
            state: RwLock::new(RbacState::new(&caches)),
            caches,
            seen: AtomicCachesVersion::default(),
        }
    }

    /// Whether a role lets a user do something.
    // upstream: plugin/pkg/auth/authorizer/rbac/rbac.go Authorize
    pub(super) fn decide(&self, action: &AuthorizationAttributes<'_>) -> Decision {
        let namespace = match &action.what {
            AuthorizationTarget::Resource(object) => object.namespace,
            AuthorizationTarget::Path(_) => "",
        };
        let state = self.state();
        let mut missing = Vec::new();
        for binding in state.index.bindings(action.user, namespace) {
            match state.index.rules(binding) {
                Ok(rules) if rules.iter().any(|rule| rule.allows(action)) => {
                    return Decision::Allow(format!("RBAC: allowed by {}", binding.describe(action.user)));
                }
                Ok(_) => {}
                Err(error) => missing.push(error.to_string()),
            }
        }
        match aggregate(missing) {
            Some(missing) => Decision::NoOpinion(format!("RBAC: {missing}")),
            None => Decision::NoOpinion(String::new()),
        }
    }

    /// The rules a user has in a namespace, or in the whole cluster, and what kept others from being found.
    pub(super) fn rules(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<RoleResolutionError>) {
        let state = self.state();
        let mut all = Vec::new();
        let mut missing = Vec::new();
        for binding in state.index.bindings_in_order(user, namespace) {
            match state.index.rules(binding) {
                Ok(rules) => all.extend(rules.iter().cloned()),
                Err(error) => missing.push(error),
            }
        }
        (all, missing)
    }

    /// The rules of a role, as a binding in a namespace means it.
    pub(super) fn role(
        &self,
        kind: &str,
        name: &str,
        namespace: &str,
    ) -> Result<Arc<[PolicyRule]>, RoleResolutionError> {
        self.state().index.role(kind, name, namespace).cloned()
    }

    /// The index, as of now.
    fn state(&self) -> RwLockReadGuard<'_, RbacState> {
        // What is answered is in the caches before their version changes.
        let version = self.caches.version();
        if self.seen.load() != version {
            if !self.read().is_current(&self.caches) {
                let mut state = self.state.write();
                state.follow(&self.caches);
            }
            self.seen.store(version);
        }
        let state = self.read();
        if state.is_complete {
            return state;
        }
        // An update by another request panicked.
        drop(state);
        let mut state = self.state.write();
        state.follow(&self.caches);
        RwLockWriteGuard::downgrade(state)
    }

    fn read(&self) -> RwLockReadGuard<'_, RbacState> {
        self.state.read()
    }
}

// --- RbacState ---

impl RbacState {
    fn new(caches: &WatchCaches) -> Self {
        RbacState {
            is_complete: true,
            index: RbacIndex::default(),
            roles: ["clusterroles", "roles"].map(|plural| CacheFollower::new(GROUP, plural, caches)),
            bindings: ["clusterrolebindings", "rolebindings"]
                .map(|plural| CacheFollower::new(GROUP, plural, caches)),
        }
    }

    fn is_current(&self, caches: &WatchCaches) -> bool {
        self.is_complete && self.has_all_changes(caches)
    }

    fn has_all_changes(&self, caches: &WatchCaches) -> bool {
        let mut followed = self.roles.iter().chain(&self.bindings);
        followed.all(|following| following.is_current(caches))
    }

    /// Applies changes until there are none, so that the state is consistent. An old role combined with a new binding would
    /// grant permissions that were never granted together.
    fn follow(&mut self, caches: &WatchCaches) {
        if !self.is_complete {
            *self = RbacState::new(caches);
        }
        self.is_complete = false;
        for _ in 0..LOOKS {
            let mut has_changed = false;
            for following in &mut self.roles {
                for change in following.changes(caches) {
                    self.index.change_role(&change);
                    has_changed = true;
                }
            }
            if has_changed {
                self.index.settle_roles();
            }
            for following in &mut self.bindings {
                for change in following.changes(caches) {
                    self.index.change_binding(&change);
                }
            }
            if self.has_all_changes(caches) {
                break;
            }
        }
        self.is_complete = true;
    }
}

/// Joins several errors without duplicates; `None` if there are none.
pub(super) fn aggregate(errors: Vec<String>) -> Option<String> {
    let mut seen = HashSet::new();
    let mut unique = errors;
    unique.retain(|error| seen.insert(error.clone()));
    match unique.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
