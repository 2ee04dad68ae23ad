//! Backoff for replacing pods that fail on a node.
//!
//! A kubelet rejects a pod immediately, every time: after each failure the wait before the next replacement doubles.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_mins(15);
/// After this time without a failure the backoff is reset.
const RESET_AFTER: Duration = Duration::from_mins(30);

/// Pods that failed, per DaemonSet and node.
// upstream: pkg/controller/daemon/daemon_controller.go failedPodsBackoffKey, podsShouldBeOnNode
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: Mutex<HashMap<BackoffKey, BackoffEntry>>,
}

/// UID and observed generation of a DaemonSet, and a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BackoffKey {
    pub(super) set: Box<str>,
    pub(super) generation: i64,
    pub(super) node: Box<str>,
}

#[derive(Debug)]
struct BackoffEntry {
    pause: Duration,
    last: Instant,
}

// --- Backoff ---

impl Backoff {
    /// How long a failed pod is kept; `None` if it can be replaced now.
    pub(super) fn left(&self, backoff_key: &BackoffKey) -> Option<Duration> {
        let failures = self.failures();
        let failure = failures.get(backoff_key)?;
        let backoff_remaining = failure.pause.checked_sub(failure.last.elapsed());
        backoff_remaining.filter(|backoff_remaining| !backoff_remaining.is_zero())
    }

    /// Records that a failed pod is deleted.
    pub(super) fn record_failure(&self, backoff_key: BackoffKey) {
        let mut failures = self.failures();
        failures.retain(|_, failure| failure.last.elapsed() <= RESET_AFTER);
        let now = Instant::now();
        let next = |pause: Duration| (pause * 2).min(MAX_BACKOFF);
        let known = failures.entry(backoff_key);
        known
            .and_modify(|failure| {
                *failure = BackoffEntry {
                    pause: next(failure.pause),
                    last: now,
                };
            })
            .or_insert(BackoffEntry {
                pause: INITIAL_BACKOFF,
                last: now,
            });
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<BackoffKey, BackoffEntry>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn doubles_the_backoff_with_each_failure() {
        let backoff = Backoff::default();
        let backoff_key = BackoffKey {
            set: "u".into(),
            generation: 1,
            node: "n".into(),
        };
        assert_eq!(backoff.left(&backoff_key), None);
        for pause in [1, 2, 4] {
            backoff.record_failure(backoff_key.clone());
            let pause = Duration::from_secs(pause);
            assert_eq!(backoff.left(&backoff_key), Some(pause));
            advance(pause).await;
            assert_eq!(backoff.left(&backoff_key), None);
        }
        advance(RESET_AFTER).await;
        backoff.record_failure(backoff_key.clone());
        assert_eq!(backoff.left(&backoff_key), Some(INITIAL_BACKOFF));
        for _ in 0..20 {
            backoff.record_failure(backoff_key.clone());
        }
        assert_eq!(backoff.left(&backoff_key), Some(MAX_BACKOFF));
    }
}
