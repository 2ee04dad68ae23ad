//! The wall clock.
//!
//! Delays use tokio's clock, which tests can pause. Timestamps that are written into objects or compared with those of other
//! writers come from a [`Clock`], so that a test can set the time and make it jump.

use std::{fmt, sync::Arc};

use k8s_openapi::jiff::Timestamp;

/// A source of wall clock time. Clones return the same time.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

// --- Clock ---

impl Clock {
    /// The clock of the system.
    pub fn system() -> Self {
        Clock::new(Timestamp::now)
    }

    /// A clock that calls a function, for tests and simulations.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock { now: Arc::new(now) }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
