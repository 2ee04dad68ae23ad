//! Waiting for conditions.

use std::{fmt, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};

use crate::Backoff;

/// What was observed instead of an awaited value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnmetCondition(pub String);

/// The result of evaluating a condition: the awaited value, or what was observed instead.
pub trait WaitCondition {
    /// The awaited value.
    type Output;
    /// The awaited value, or a description of what was observed.
    fn check(self) -> Result<Self::Output, UnmetCondition>;
}

impl<T> WaitCondition for Option<T> {
    type Output = T;
    fn check(self) -> Result<T, UnmetCondition> {
        self.ok_or_else(|| UnmetCondition("nothing".to_owned()))
    }
}

impl<T, E: fmt::Debug> WaitCondition for Result<T, E> {
    type Output = T;
    fn check(self) -> Result<T, UnmetCondition> {
        self.map_err(|seen| UnmetCondition(format!("{seen:?}")))
    }
}

impl WaitCondition for bool {
    type Output = ();
    fn check(self) -> Result<(), UnmetCondition> {
        if self {
            Ok(())
        } else {
            Err(UnmetCondition("false".to_owned()))
        }
    }
}

/// Evaluates `look` repeatedly until it returns `Some`, `Ok` or `true`, and returns the value. The timeout of one minute is
/// generous: a correct test waits only as long as necessary. With a paused clock, the minute passes at once when nothing else
/// happens.
///
/// # Panics
/// After one minute, with the last observation.
pub async fn eventually<L: WaitCondition, F: Future<Output = L>>(look: impl FnMut() -> F) -> L::Output {
    eventually_within(Duration::from_mins(1), look).await
}

/// Like [`eventually`], with another timeout.
///
/// # Panics
/// After the timeout, with the last observation.
pub async fn eventually_within<L: WaitCondition, F: Future<Output = L>>(
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> L::Output {
    let end = Instant::now() + limit;
    let mut pauses = Backoff::exponential(Duration::from_millis(1), Duration::from_millis(50)).delays();
    let mut last = UnmetCondition("nothing, because the first evaluation did not complete".to_owned());
    loop {
        if let Ok(seen) = timeout_at(end, look()).await {
            match seen.check() {
                Ok(found) => return found,
                Err(observed) => last = observed,
            }
        }
        assert!(
            Instant::now() < end,
            "condition not met after {limit:?}; last observed: {last}"
        );
        sleep(pauses.next_delay()).await;
    }
}
