//! What a controller has done and not yet seen.
//!
//! A controller that creates five pods and is run again before its informer has seen them would create five more. So it says
//! what it expects, counts what it sees, and does nothing that depends on the number until it has seen all of it. Expectations
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
/// use kubecontroller::{Key, expectations::Expectations};
///
/// let (expected, set) = (Expectations::default(), Key::new("shop", "web"));
/// expected.expect(&set, 1, ["uid-of-a-pod"]);
/// assert!(!expected.are_met(&set));
/// expected.created(&set);
/// expected.deleted(&set, "uid-of-a-pod");
/// assert!(expected.are_met(&set));
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Expectations {
    keys: Mutex<HashMap<Key, Expected>>,
}

#[derive(Debug)]
struct Expected {
    /// Below zero where more was seen than expected.
    creations: i64,
    deletions: HashSet<Box<str>>,
    since: Instant,
}

// --- Expectations ---

impl Expectations {
    /// So many creations, and the deletion of those, are about to be asked for. What was expected before is forgotten.
    pub fn expect<'u>(&self, key: &Key, creations: usize, deletions: impl IntoIterator<Item = &'u str>) {
        let expected = Expected {
            creations: i64::try_from(creations).unwrap_or(i64::MAX),
            deletions: deletions.into_iter().map(Box::from).collect(),
            since: Instant::now(),
        };
        self.keys().insert(key.clone(), expected);
    }

    /// So many creations are about to be asked for.
    pub fn expect_creations(&self, key: &Key, creations: usize) {
        self.expect(key, creations, []);
    }

    /// The deletion of those is about to be asked for.
    pub fn expect_deletions<'u>(&self, key: &Key, uids: impl IntoIterator<Item = &'u str>) {
        self.expect(key, 0, uids);
    }

    /// One more creation is about to be asked for, beside what is expected already.
    pub fn raise_creations(&self, key: &Key, creations: usize) {
        if let Some(expected) = self.keys().get_mut(key) {
            expected.creations += i64::try_from(creations).unwrap_or(i64::MAX);
        }
    }

    /// A creation was seen, or could not be asked for.
    pub fn created(&self, key: &Key) {
        self.lower_creations(key, 1);
    }

    /// So many creations could not be asked for.
    pub fn lower_creations(&self, key: &Key, creations: usize) {
        if let Some(expected) = self.keys().get_mut(key) {
            expected.creations -= i64::try_from(creations).unwrap_or(i64::MAX);
        }
    }

    /// A deletion was seen, or could not be asked for. An object that is going counts as deleted.
    pub fn deleted(&self, key: &Key, uid: &str) {
        if let Some(expected) = self.keys().get_mut(key) {
            expected.deletions.remove(uid);
        }
    }

    /// Whether nothing is missing, or what is missing has been for so long that it will not come.
    pub fn are_met(&self, key: &Key) -> bool {
        let keys = self.keys();
        keys.get(key).is_none_or(|expected| {
            let is_complete = expected.creations <= 0 && expected.deletions.is_empty();
            is_complete || expected.since.elapsed() > LONGEST
        })
    }

    /// How many creations, and the deletion of whom, are still expected.
    pub fn missing(&self, key: &Key) -> (usize, Vec<String>) {
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
    pub fn forget(&self, key: &Key) {
        self.keys().remove(key);
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, Expected>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::{Expectations, LONGEST};
    use crate::Key;

    fn set() -> Key {
        Key::new("shop", "web")
    }

    #[tokio::test(start_paused = true)]
    async fn expectations_are_met_when_all_was_seen() {
        let (expected, set) = (Expectations::default(), set());
        assert!(expected.are_met(&set));
        expected.expect(&set, 2, ["a", "b"]);
        expected.created(&set);
        expected.deleted(&set, "a");
        assert!(!expected.are_met(&set));
        expected.lower_creations(&set, 1);
        assert_eq!(expected.missing(&set), (0, vec!["b".to_owned()]));
        expected.deleted(&set, "b");
        assert!(expected.are_met(&set));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_that_is_seen_twice_counts_once() {
        let (expected, set) = (Expectations::default(), set());
        expected.expect_deletions(&set, ["a", "b"]);
        expected.deleted(&set, "a");
        expected.deleted(&set, "a");
        expected.deleted(&set, "somebody else");
        assert!(!expected.are_met(&set));
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_was_expected_is_enough() {
        let (expected, set) = (Expectations::default(), set());
        expected.expect_creations(&set, 1);
        expected.created(&set);
        expected.created(&set);
        assert!(expected.are_met(&set));
        expected.raise_creations(&set, 1);
        assert!(expected.are_met(&set));
        expected.raise_creations(&set, 1);
        assert!(!expected.are_met(&set));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_given_up() {
        let (expected, set) = (Expectations::default(), set());
        expected.expect_creations(&set, 1);
        advance(LONGEST).await;
        assert!(!expected.are_met(&set));
        advance(Duration::from_millis(1)).await;
        assert!(expected.are_met(&set));
        expected.expect_creations(&set, 1);
        assert!(!expected.are_met(&set));
        expected.forget(&set);
        assert!(expected.are_met(&set));
    }
}
