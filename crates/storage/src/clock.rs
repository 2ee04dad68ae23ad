//! Wall-clock time behind a trait, so that tests can make it jump.

use std::{fmt, time::SystemTime};

/// The wall clock. It is used only for expiry deadlines that outlive the process; timers use the runtime's monotonic
/// clock.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The current time.
    fn now(&self) -> SystemTime;
}

/// The system clock.
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
