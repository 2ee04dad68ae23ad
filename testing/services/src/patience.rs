//! Waiting for a condition of another process that sends no event.

use std::time::{Duration, Instant};

/// How long a service may take to start. Generous: a loaded machine with a slow disk is no failed test.
pub(crate) const START: Duration = Duration::from_mins(4);

/// How long a signal may take to show its effect.
pub(crate) const SIGNAL: Duration = Duration::from_secs(10);

const PAUSE: Duration = Duration::from_millis(5);

/// Calls `look` until it returns a value, at most for `limit`; `None` after a timeout.
#[expect(
    clippy::disallowed_methods,
    reason = "another process becomes ready in real time and sends no event"
)]
pub(crate) fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if start.elapsed() > limit {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}
