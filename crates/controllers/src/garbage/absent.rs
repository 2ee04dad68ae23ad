//! Owners that are known to be gone, so that a thousand dependents do not ask for one owner a thousand times.
//!
//! A uid is never given twice, so what is gone stays gone. The place is part of what is remembered: a reference that lies about
//! the place of a living owner must not make others believe that it is gone.

use std::collections::{HashSet, VecDeque};

use super::dependent::Reference;

/// As many as are remembered.
const MOST: usize = 1000;

#[derive(Default)]
pub(super) struct Absent {
    known: HashSet<Owner>,
    order: VecDeque<Owner>,
}

/// A reference, and the namespace of the object that has it.
type Owner = (Reference, Box<str>);

// --- Absent ---

impl Absent {
    pub(super) fn has(&self, owner: &Reference, namespace: &str) -> bool {
        self.known.contains(&key(owner, namespace))
    }

    pub(super) fn remember(&mut self, owner: &Reference, namespace: &str) {
        let key = key(owner, namespace);
        if self.known.insert(key.clone()) {
            self.order.push_back(key);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Whether it holds the owner back does not change who it is.
fn key(owner: &Reference, namespace: &str) -> Owner {
    let owner = Reference {
        block_owner_deletion: false,
        ..owner.clone()
    };
    (owner, namespace.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_remembered_longest_ago_is_forgotten_first() {
        let owner = |number: usize| Reference {
            uid: number.to_string().into(),
            ..Reference::default()
        };
        let mut absent = Absent::default();
        for number in 0..=MOST {
            absent.remember(&owner(number), "n");
        }
        assert!(!absent.has(&owner(0), "n"));
        assert!(absent.has(&owner(1), "n"));
        assert!(!absent.has(&owner(1), "elsewhere"));
    }
}
