//! What a controller has done and not yet seen.
//!
//! A controller that creates five pods and is run again before its informer has seen them would create five more. So it says
//! what it expects, counts what it sees, and does nothing that depends on the number until it has seen all of it. ControllerExpectations
//! are given up after five minutes: an event that was lost must not stop a controller for ever.
//!
//! Deletions are expected by uid: an object that is seen going, and later gone, was deleted once.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hashbrown::{HashMap, HashSet};
use tokio::time::Instant;

use crate::Key;

/// For how long something is expected.
const LONGEST: Duration = Duration::from_mins(5);

/// What is expected, by the key of the object for which it was done.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use kubecontroller::{Key, expectations::ControllerExpectations};
///
/// let (expected, set) = (ControllerExpectations::default(), Key::new("shop", "web"));
/// expected.set_expectations(&set, 1, ["uid-of-a-pod"]);
/// assert!(!expected.are_satisfied(&set));
/// expected.creation_observed(&set);
/// expected.deletion_observed(&set, "uid-of-a-pod");
/// assert!(expected.are_satisfied(&set));
/// # }
/// ```
#[derive(Debug, Default)]
pub struct ControllerExpectations {
    keys: Mutex<HashMap<Key, PendingExpectation>>,
}

#[derive(Debug)]
struct PendingExpectation {
    /// Below zero where more was seen than expected.
    creations: i64,
    deletions: HashSet<Box<str>>,
    since: Instant,
}

// --- ControllerExpectations ---

impl ControllerExpectations {
    /// So many creations, and the deletion of those, are about to be asked for. What was expected before is forgotten.
    pub fn set_expectations<'u>(
        &self,
        key: &Key,
        creations: usize,
        deletions: impl IntoIterator<Item = &'u str>,
    ) {
        let expected = PendingExpectation {
            creations: i64::try_from(creations).unwrap_or(i64::MAX),
            deletions: deletions.into_iter().map(Box::from).collect(),
            since: Instant::now(),
        };
        self.keys().insert(key.clone(), expected);
    }

    /// So many creations are about to be asked for.
    pub fn expect_creations(&self, key: &Key, creations: usize) {
        self.set_expectations(key, creations, []);
    }

    /// The deletion of those is about to be asked for.
    pub fn expect_deletions<'u>(&self, key: &Key, uids: impl IntoIterator<Item = &'u str>) {
        self.set_expectations(key, 0, uids);
    }

    /// One more creation is about to be asked for, beside what is expected already.
    pub fn raise_expectations(&self, key: &Key, creations: usize) {
        if let Some(expected) = self.keys().get_mut(key) {
            expected.creations += i64::try_from(creations).unwrap_or(i64::MAX);
        }
    }

    /// A creation was seen, or could not be asked for.
    pub fn creation_observed(&self, key: &Key) {
        self.lower_expectations(key, 1);
    }

    /// So many creations could not be asked for.
    pub fn lower_expectations(&self, key: &Key, creations: usize) {
        if let Some(expected) = self.keys().get_mut(key) {
            expected.creations -= i64::try_from(creations).unwrap_or(i64::MAX);
        }
    }

    /// A deletion was seen, or could not be asked for. An object that is going counts as deleted.
    pub fn deletion_observed(&self, key: &Key, uid: &str) {
        if let Some(expected) = self.keys().get_mut(key) {
            expected.deletions.remove(uid);
        }
    }

    /// Whether nothing is missing, or what is missing has been for so long that it will not come.
    pub fn are_satisfied(&self, key: &Key) -> bool {
        let keys = self.keys();
        keys.get(key).is_none_or(|expected| {
            let is_complete = expected.creations <= 0 && expected.deletions.is_empty();
            is_complete || expected.since.elapsed() > LONGEST
        })
    }

    /// How many creations, and the deletion of whom, are still expected.
    pub fn pending(&self, key: &Key) -> (usize, Vec<String>) {
        let keys = self.keys();
        keys.get(key).map_or_else(Default::default, |expected| {
            let deletions = expected.deletions.iter().map(|uid| String::from(&**uid));
            (
                usize::try_from(expected.creations).unwrap_or(0),
                deletions.collect(),
            )
        })
    }

    /// The object is gone, and nothing is expected for it.
    pub fn delete_expectations(&self, key: &Key) {
        self.keys().remove(key);
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, PendingExpectation>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::{ControllerExpectations, LONGEST};
    use crate::Key;

    fn set() -> Key {
        Key::new("shop", "web")
    }

    #[tokio::test(start_paused = true)]
    async fn expectations_are_met_when_all_was_seen() {
        let (expected, set) = (ControllerExpectations::default(), set());
        assert!(expected.are_satisfied(&set));
        expected.set_expectations(&set, 2, ["a", "b"]);
        expected.creation_observed(&set);
        expected.deletion_observed(&set, "a");
        assert!(!expected.are_satisfied(&set));
        expected.lower_expectations(&set, 1);
        assert_eq!(expected.pending(&set), (0, vec!["b".to_owned()]));
        expected.deletion_observed(&set, "b");
        assert!(expected.are_satisfied(&set));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_that_is_seen_twice_counts_once() {
        let (expected, set) = (ControllerExpectations::default(), set());
        expected.expect_deletions(&set, ["a", "b"]);
        expected.deletion_observed(&set, "a");
        expected.deletion_observed(&set, "a");
        expected.deletion_observed(&set, "somebody else");
        assert!(!expected.are_satisfied(&set));
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_was_expected_is_enough() {
        let (expected, set) = (ControllerExpectations::default(), set());
        expected.expect_creations(&set, 1);
        expected.creation_observed(&set);
        expected.creation_observed(&set);
        assert!(expected.are_satisfied(&set));
        expected.raise_expectations(&set, 1);
        assert!(expected.are_satisfied(&set));
        expected.raise_expectations(&set, 1);
        assert!(!expected.are_satisfied(&set));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_given_up() {
        let (expected, set) = (ControllerExpectations::default(), set());
        expected.expect_creations(&set, 1);
        advance(LONGEST).await;
        assert!(!expected.are_satisfied(&set));
        advance(Duration::from_millis(1)).await;
        assert!(expected.are_satisfied(&set));
        expected.expect_creations(&set, 1);
        assert!(!expected.are_satisfied(&set));
        expected.delete_expectations(&set);
        assert!(expected.are_satisfied(&set));
    }
}
