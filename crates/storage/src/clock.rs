//! Wall-clock time, passed in so that a test can make it jump.

use std::{fmt, time::SystemTime};

/// Reports the time of day. Only expiry deadlines that outlive the process are written with it;
/// everything that waits uses the runtime's monotonic clock.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> SystemTime;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

// --- SystemClock ---

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the only caller that reads the machine's clock"
    )]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
