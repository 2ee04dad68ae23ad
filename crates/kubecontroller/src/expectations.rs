//! Expectations: writes whose results the informer has not delivered yet.
//!
//! A controller that creates five pods and runs again before its informer has received them would create five more. Therefore it
//! records how many creations and deletions it expects, its event handlers count those that they observe, and it does not scale
//! until the expectations are satisfied. Expectations expire after five minutes, so that an event that never arrives does not block
//! the controller for ever.
//!
//! Deletions are expected by uid, because one deletion is observed twice: when the object starts to terminate and when it is
//! removed.
// upstream: pkg/controller/controller_utils.go UIDTrackingControllerExpectations

use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::Key;

// upstream: pkg/controller/controller_utils.go isExpired
const EXPECTATIONS_TIMEOUT: Duration = Duration::from_mins(5);

/// The expectations of a controller, by the key of the object that it reconciles.
// upstream: pkg/controller/controller_utils.go ControllerExpectations
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use kubecontroller::{Key, expectations::ControllerExpectations};
///
/// let expectations = ControllerExpectations::default();
/// let replica_set = Key::new("shop", "web");
/// expectations.set_expectations(&replica_set, 1, ["uid-of-a-pod"]);
/// assert!(!expectations.are_satisfied(&replica_set));
/// expectations.creation_observed(&replica_set);
/// expectations.deletion_observed(&replica_set, "uid-of-a-pod");
/// assert!(expectations.are_satisfied(&replica_set));
/// # }
/// ```
#[derive(Debug, Default)]
pub struct ControllerExpectations {
    keys: Mutex<HashMap<Key, PendingExpectation>>,
}

#[derive(Debug)]
struct PendingExpectation {
    /// Negative if more creations were observed than expected.
    creations: i64,
    deletions: HashSet<Box<str>>,
    set_at: Instant,
}

// --- ControllerExpectations ---

impl ControllerExpectations {
    /// Expects this many creations and the deletions of these uids. Replaces earlier expectations of the key. Call it before the
    /// requests are sent: their events may arrive before the responses.
    pub fn set_expectations<'u>(
        &self,
        key: &Key,
        creations: usize,
        deletions: impl IntoIterator<Item = &'u str>,
    ) {
        let expected = PendingExpectation {
            creations: i64::try_from(creations).unwrap_or(i64::MAX),
            deletions: deletions.into_iter().map(Box::from).collect(),
            set_at: Instant::now(),
        };
        self.keys().insert(key.clone(), expected);
    }

    /// Expects this many creations. Replaces earlier expectations of the key.
    pub fn expect_creations(&self, key: &Key, creations: usize) {
        self.set_expectations(key, creations, []);
    }

    /// Expects the deletions of these uids. Replaces earlier expectations of the key.
    pub fn expect_deletions<'u>(&self, key: &Key, uids: impl IntoIterator<Item = &'u str>) {
        self.set_expectations(key, 0, uids);
    }

    /// Adds to the expected creations of a key that has expectations.
    pub fn raise_expectations(&self, key: &Key, creations: usize) {
        if let Some(expected) = self.keys().get_mut(key) {
            expected.creations += i64::try_from(creations).unwrap_or(i64::MAX);
        }
    }

    /// Counts a creation that was observed, or that failed and will not be observed.
    pub fn creation_observed(&self, key: &Key) {
        self.lower_expectations(key, 1);
    }

    /// Subtracts creations that failed and will not be observed.
    pub fn lower_expectations(&self, key: &Key, creations: usize) {
        if let Some(expected) = self.keys().get_mut(key) {
            expected.creations -= i64::try_from(creations).unwrap_or(i64::MAX);
        }
    }

    /// Counts a deletion that was observed, or that failed and will not be observed. A terminating object counts as deleted.
    pub fn deletion_observed(&self, key: &Key, uid: &str) {
        if let Some(expected) = self.keys().get_mut(key) {
            expected.deletions.remove(uid);
        }
    }

    /// Whether everything expected was observed, or the expectations have expired.
    #[doc(alias = "SatisfiedExpectations")]
    pub fn are_satisfied(&self, key: &Key) -> bool {
        let keys = self.keys();
        keys.get(key).is_none_or(|expected| {
            let is_fulfilled = expected.creations <= 0 && expected.deletions.is_empty();
            is_fulfilled || expected.set_at.elapsed() > EXPECTATIONS_TIMEOUT
        })
    }

    /// The number of creations and the uids of deletions that are still expected.
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

    /// Removes the expectations of an object that was deleted.
    pub fn delete_expectations(&self, key: &Key) {
        self.keys().remove(key);
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, PendingExpectation>> {
        self.keys.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::{ControllerExpectations, EXPECTATIONS_TIMEOUT};
    use crate::Key;

    fn replica_set() -> Key {
        Key::new("shop", "web")
    }

    #[tokio::test(start_paused = true)]
    async fn satisfied_when_everything_is_observed() {
        let expected = ControllerExpectations::default();
        let set = replica_set();
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
    async fn a_deletion_observed_twice_counts_once() {
        let expected = ControllerExpectations::default();
        let set = replica_set();
        expected.expect_deletions(&set, ["a", "b"]);
        expected.deletion_observed(&set, "a");
        expected.deletion_observed(&set, "a");
        expected.deletion_observed(&set, "unexpected");
        assert!(!expected.are_satisfied(&set));
    }

    #[tokio::test(start_paused = true)]
    async fn surplus_creations_offset_later_expectations() {
        let expected = ControllerExpectations::default();
        let set = replica_set();
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
    async fn expectations_expire_and_can_be_deleted() {
        let expected = ControllerExpectations::default();
        let set = replica_set();
        expected.expect_creations(&set, 1);
        advance(EXPECTATIONS_TIMEOUT).await;
        assert!(!expected.are_satisfied(&set));
        advance(Duration::from_millis(1)).await;
        assert!(expected.are_satisfied(&set));
        expected.expect_creations(&set, 1);
        assert!(!expected.are_satisfied(&set));
        expected.delete_expectations(&set);
        assert!(expected.are_satisfied(&set));
    }
}
