//! The time of day.
//!
//! Waiting is tokio's business, and tests pause its clock. What is written into objects, and compared with what others
//! wrote, comes from here, so that a test can say what time it is and make the clock jump.

use std::{fmt, sync::Arc};

use k8s_openapi::jiff::Timestamp;

/// Tells the time of day. Clones tell the same.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

// --- Clock ---

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Clock::new(Timestamp::now)
    }

    /// A clock that a test, or a simulation, drives.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock { now: Arc::new(now) }
    }

    /// The time of day.
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
