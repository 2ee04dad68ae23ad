//! Waiting for what has to come.

use std::{fmt, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};

/// What a look at the cluster found: what was waited for, or what was seen instead.
pub trait WaitCondition {
    /// What was waited for.
    type Output;
    /// What was waited for, or words for what was seen.
    fn check(self) -> Result<Self::Output, String>;
}

impl<T> WaitCondition for Option<T> {
    type Output = T;
    fn check(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

impl<T, E: fmt::Debug> WaitCondition for Result<T, E> {
    type Output = T;
    fn check(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:?}"))
    }
}

impl WaitCondition for bool {
    type Output = ();
    fn check(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("false".to_owned()) }
    }
}

/// Looks again and again until there is something (`Some`, `Ok` or `true`), and returns it. Gives up after a minute, which
/// is long: a test that must see something waits for it, and only a broken one waits in vain. With a paused clock the
/// minute passes at once when nothing else happens.
///
/// # Panics
/// After a minute, with what was last seen.
pub async fn eventually<L: WaitCondition, F: Future<Output = L>>(look: impl FnMut() -> F) -> L::Output {
    eventually_within(Duration::from_mins(1), look).await
}

/// As [`eventually`], with a limit of one's own.
///
/// # Panics
/// After the limit, with what was last seen.
pub async fn eventually_within<L: WaitCondition, F: Future<Output = L>>(
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> L::Output {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    let mut last = "nothing, for the first look did not end".to_owned();
    loop {
        if let Ok(seen) = timeout_at(end, look()).await {
            match seen.check() {
                Ok(found) => return found,
                Err(words) => last = words,
            }
        }
        assert!(
            Instant::now() < end,
            "waited {limit:?} in vain; last seen: {last}"
        );
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
