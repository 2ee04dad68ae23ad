//! How often a pod that fails on a node is replaced there.
//!
//! A node that refuses a pod does so at once, again and again: after each failure the next pod is left there twice as long.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(15);
/// After so long without a failure, the first one counts as the first again.
const FORGOTTEN: Duration = Duration::from_mins(30);

/// Where pods have failed.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: Mutex<HashMap<Site, Failure>>,
}

/// A set, the generation of it that was seen, and a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Site {
    pub(super) set: Box<str>,
    pub(super) generation: i64,
    pub(super) node: Box<str>,
}

#[derive(Debug)]
struct Failure {
    pause: Duration,
    last: Instant,
}

// --- Backoff ---

impl Backoff {
    /// How long a failed pod is left where it is; `None` if it goes.
    pub(super) fn left(&self, site: &Site) -> Option<Duration> {
        let failures = self.failures();
        let failure = failures.get(site)?;
        let left = failure.pause.checked_sub(failure.last.elapsed());
        left.filter(|left| !left.is_zero())
    }

    /// A failed pod is deleted.
    pub(super) fn failed(&self, site: Site) {
        let mut failures = self.failures();
        failures.retain(|_, failure| failure.last.elapsed() <= FORGOTTEN);
        let now = Instant::now();
        let next = |pause: Duration| (pause * 2).min(LONGEST);
        let known = failures.entry(site);
        known
            .and_modify(|failure| {
                *failure = Failure {
                    pause: next(failure.pause),
                    last: now,
                };
            })
            .or_insert(Failure {
                pause: FIRST,
                last: now,
            });
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<Site, Failure>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_doubles_the_pause() {
        let (backoff, site) = (
            Backoff::default(),
            Site {
                set: "u".into(),
                generation: 1,
                node: "n".into(),
            },
        );
        assert_eq!(backoff.left(&site), None);
        for pause in [1, 2, 4] {
            backoff.failed(site.clone());
            let pause = Duration::from_secs(pause);
            assert_eq!(backoff.left(&site), Some(pause));
            advance(pause).await;
            assert_eq!(backoff.left(&site), None);
        }
        advance(FORGOTTEN).await;
        backoff.failed(site.clone());
        assert_eq!(backoff.left(&site), Some(FIRST));
        for _ in 0..20 {
            backoff.failed(site.clone());
        }
        assert_eq!(backoff.left(&site), Some(LONGEST));
    }
}
