//! Cache of owners that do not exist, so that a thousand dependents do not query one owner a thousand times.
//!
//! UIDs are never reused, so a missing owner stays missing. The key includes kind, name and namespace: a reference with wrong
//! coordinates for an existing owner must not make that owner look absent for others.

use std::collections::{HashSet, VecDeque};

use k3_workloads::OwnerReference;

const CAPACITY: usize = 1000;

// upstream: pkg/controller/garbagecollector/uid_cache.go ReferenceCache
#[derive(Default)]
pub(super) struct AbsentOwnerCache {
    known: HashSet<OwnerKey>,
    order: VecDeque<OwnerKey>,
}

/// A reference, and the namespace of the object that has it.
type OwnerKey = (OwnerReference, Box<str>);

// --- AbsentOwnerCache ---

impl AbsentOwnerCache {
    pub(super) fn has(&self, owner: &OwnerReference, namespace: &str) -> bool {
        self.known.contains(&key(owner, namespace))
    }

    pub(super) fn remember(&mut self, owner: &OwnerReference, namespace: &str) {
        let key = key(owner, namespace);
        if self.known.insert(key.clone()) {
            self.order.push_back(key);
        }
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// `controller` and `blockOwnerDeletion` are not part of the identity.
fn key(owner: &OwnerReference, namespace: &str) -> OwnerKey {
    let owner = OwnerReference {
        controller: false,
        block_owner_deletion: false,
        ..owner.clone()
    };
    (owner, namespace.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_the_oldest_entry() {
        let owner = |number: usize| OwnerReference {
            uid: number.to_string().into(),
            ..OwnerReference::default()
        };
        let mut absent_owners = AbsentOwnerCache::default();
        for number in 0..=CAPACITY {
            absent_owners.remember(&owner(number), "n");
        }
        assert!(!absent_owners.has(&owner(0), "n"));
        assert!(absent_owners.has(&owner(1), "n"));
        assert!(!absent_owners.has(&owner(1), "elsewhere"));
    }
}
