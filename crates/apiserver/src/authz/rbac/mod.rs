//! Roles and their bindings decide.
//!
//! Promises: a decision is taken from an index that has every write that was answered before; it follows the caches, whoever
//! wrote, and what it costs to follow depends on what changed alone.

mod cluster_roles;
mod index;
mod rule;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use k3_api::strategy::User;

use self::index::Index;
pub(crate) use self::{
    index::Unresolved,
    rule::{Rule, Words, leads_to, quoted},
};
use super::{Action, Decision, What, following::Following};
use crate::cache::Caches;

const GROUP: &str = "rbac.authorization.k8s.io";
/// How often it is looked whether something new came while something new was taken in.
const LOOKS: usize = 100;

/// Decides by roles and bindings.
pub(super) struct Rbac {
    caches: Arc<Caches>,
    state: RwLock<State>,
    /// The version of the caches that the index was last compared with. The index is not behind that.
    seen: AtomicU64,
}

struct State {
    index: Index,
    roles: [Following; 2],
    bindings: [Following; 2],
}

// --- Rbac ---

impl Rbac {
    pub(super) fn new(caches: Arc<Caches>) -> Self {
        let state = State {
            index: Index::default(),
            roles: ["clusterroles", "roles"].map(|plural| Following::new(GROUP, plural, &caches)),
            bindings: ["clusterrolebindings", "rolebindings"]
                .map(|plural| Following::new(GROUP, plural, &caches)),
        };
        Rbac {
            caches,
            state: RwLock::new(state),
            seen: AtomicU64::new(0),
        }
    }

    /// Whether a role lets a user do something.
    pub(super) fn decide(&self, action: &Action<'_>) -> Decision {
        let namespace = match &action.what {
            What::Object(object) => object.namespace,
            What::Path(_) => "",
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
    pub(super) fn rules(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<Unresolved>) {
        let state = self.state();
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for binding in state.index.bindings_in_order(user, namespace) {
            match state.index.rules(binding) {
                Ok(rules) => all.extend(rules.iter().cloned()),
                Err(error) => missing.push(error),
            }
        }
        (all, missing)
    }

    /// The rules of a role, as a binding in a namespace means it.
    pub(super) fn role(&self, kind: &str, name: &str, namespace: &str) -> Result<Arc<[Rule]>, Unresolved> {
        self.state().index.role(kind, name, namespace).cloned()
    }

    /// The index, as of now.
    fn state(&self) -> RwLockReadGuard<'_, State> {
        // What is answered is in the caches before their version changes.
        let version = self.caches.version();
        if self.seen.load(Ordering::Acquire) != version {
            if !self.read().is_current(&self.caches) {
                let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
                state.follow(&self.caches);
            }
            self.seen.store(version, Ordering::Release);
        }
        self.read()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- State ---

impl State {
    fn is_current(&self, caches: &Caches) -> bool {
        let mut followed = self.roles.iter().chain(&self.bindings);
        followed.all(|following| following.is_current(caches))
    }

    /// Takes in what is new, until nothing is: then all of it is of one moment. A role from before it was narrowed beside a
    /// binding from after would give what nobody ever meant to give.
    fn follow(&mut self, caches: &Caches) {
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
            if self.is_current(caches) {
                break;
            }
        }
    }
}

/// Several errors as one text, each told once; `None` if there are none.
pub(super) fn aggregate(errors: Vec<String>) -> Option<String> {
    let mut seen = HashSet::new();
    let mut told = errors;
    told.retain(|error| seen.insert(error.clone()));
    match told.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
