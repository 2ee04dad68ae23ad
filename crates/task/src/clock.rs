//! The wall clock.
//!
//! Delays use tokio's clock, which tests can pause. Timestamps that are written into objects or compared with those of other
//! writers come from a [`Clock`], so that a test can set the time and make it jump.

use std::{fmt, sync::Arc, time::SystemTime};

use jiff::Timestamp;

/// A source of wall clock time. Clones return the same time.
#[derive(Clone, Default)]
pub struct Clock {
    /// `None` for the clock of the system.
    now: Option<Arc<dyn Fn() -> Timestamp + Send + Sync>>,
}

// --- Clock ---

impl Clock {
    /// The clock of the system.
    pub const fn system() -> Self {
        Clock { now: None }
    }

    /// A clock that calls a function, for tests and simulations.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock {
            now: Some(Arc::new(now)),
        }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.now {
            Some(now) => now(),
            None => Timestamp::now(),
        }
    }

    /// The current time, as the standard library represents it.
    pub fn system_time(&self) -> SystemTime {
        self.now().into()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicI64, Ordering},
        time::{Duration, UNIX_EPOCH},
    };

    use super::*;

    #[test]
    fn clones_return_the_same_time() {
        let seconds = Arc::new(AtomicI64::new(7));
        let source = Arc::clone(&seconds);
        let clock = Clock::new(move || Timestamp::from_second(source.load(Ordering::Relaxed)).unwrap());
        let other = clock.clone();
        assert_eq!(other.system_time(), UNIX_EPOCH + Duration::from_secs(7));
        seconds.store(3, Ordering::Relaxed);
        assert_eq!(clock.now(), other.now());
        assert_eq!(other.system_time(), UNIX_EPOCH + Duration::from_secs(3));
    }

    #[test]
    fn system_clock_does_not_run_backwards_by_years() {
        let year_2026 = Timestamp::from_second(1_767_225_600).unwrap();
        assert!(Clock::system().now() >= year_2026);
    }
}
