//! The task of an informer: it lists, watches, and begins again.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::BoxStream};
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, sleep_until},
};

use super::{
    apply::State,
    health::{InformerHealth, count},
    source::{Event, Source, Trouble},
    subscribers::Command,
};
use crate::object::Object;

/// A number from 0 to 1.
pub(super) type Random = Arc<dyn Fn() -> f64 + Send + Sync>;

/// The task of an informer.
pub(super) struct Reflector<T, S> {
    pub(super) state: State<T>,
    pub(super) source: S,
    pub(super) commands: mpsc::UnboundedReceiver<Command<T>>,
    pub(super) random: Random,
}

/// Nobody is interested any more.
struct Stopped;

/// How a stream ended.
struct End {
    trouble: Option<Trouble>,
    /// How long it was healthy.
    lived: Duration,
}

/// A watch that ends sooner than this has failed, even if it says nothing.
const SHORT: Duration = Duration::from_secs(1);

// --- Reflector ---

impl<T: Object, S: Source<T>> Reflector<T, S> {
    /// Runs until the last handle is gone.
    pub(super) async fn run(mut self) {
        // That nobody is interested any more is how it ends.
        let _: Result<(), Stopped> = self.reflect().await;
    }

    async fn reflect(&mut self) -> Result<(), Stopped> {
        let mut resync = self.state.core.options.resync_period().map(ticks);
        let mut start = self.state.start(None);
        let (mut failures, mut waited) = (0_u32, Duration::ZERO);
        let mut since = None;
        loop {
            let was_list = matches!(start, super::source::Start::List { .. });
            let stream = self.source.open(start);
            let end = self.follow(stream, &mut resync).await?;
            if end.lived >= SHORT.max(waited) {
                failures = 0;
            }
            let trouble = match end.trouble {
                None if self.state.is_listing() => Some(Trouble::Broken(
                    "the list ended before it was complete".to_owned(),
                )),
                // The watch begins.
                None if was_list => None,
                None if end.lived >= SHORT => None,
                None => Some(Trouble::Broken("the watch ended at once".to_owned())),
                trouble => trouble,
            };
            start = self.state.start(trouble.as_ref());
            let Some(trouble) = trouble else {
                since = None;
                continue;
            };
            failures = failures.saturating_add(1);
            if failures == 1 {
                since = None;
            }
            waited = self.wait_after(failures, &trouble);
            let since = *since.get_or_insert_with(Instant::now);
            self.report(&trouble, since, waited);
            self.pause(waited, &mut resync).await?;
        }
    }

    /// Takes what a stream tells, and does what it is asked, until the stream ends.
    async fn follow(
        &mut self,
        mut stream: BoxStream<'static, Result<Event<T>, Trouble>>,
        resync: &mut Option<Interval>,
    ) -> Result<End, Stopped> {
        let list_timeout = self.state.core.options.list_timeout;
        let mut heard = Instant::now();
        let mut healthy: Option<Instant> = None;
        let trouble = loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => self.state.obey(command.ok_or(Stopped)?),
                () = tick(resync) => self.state.resync(),
                event = stream.next() => {
                    heard = Instant::now();
                    match event.map(|event| event.and_then(|event| self.state.apply(event))) {
                        Some(Ok(true)) => _ = healthy.get_or_insert(heard),
                        Some(Ok(false)) => {}
                        Some(Err(trouble)) => break Some(trouble),
                        None => break None,
                    }
                }
                () = sleep_until(heard + list_timeout), if self.state.is_listing() => {
                    break Some(Trouble::Broken(format!("the list brings nothing for {list_timeout:?}")));
                }
            }
        };
        Ok(End {
            trouble,
            lived: healthy.map_or(Duration::ZERO, |healthy| healthy.elapsed()),
        })
    }

    /// Waits, and does what it is asked meanwhile.
    async fn pause(&mut self, wait: Duration, resync: &mut Option<Interval>) -> Result<(), Stopped> {
        let end = sleep(wait);
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => self.state.obey(command.ok_or(Stopped)?),
                () = tick(resync) => self.state.resync(),
                () = &mut end => return Ok(()),
            }
        }
    }

    fn wait_after(&self, failures: u32, trouble: &Trouble) -> Duration {
        let backoff = self.state.core.options.backoff;
        let most = backoff.after(failures);
        let wait = most / 2 + (most / 2).mul_f64((self.random)().clamp(0.0, 1.0));
        match trouble {
            // That happens to everybody who was away for a while; a list helps.
            Trouble::Expired(_) if failures == 1 => Duration::ZERO,
            Trouble::Refused {
                retry_after: Some(asked),
                ..
            } => wait.max(*asked),
            Trouble::Full { .. } => backoff.max,
            Trouble::Over => Duration::MAX,
            _ => wait,
        }
    }

    fn report(&self, trouble: &Trouble, since: Instant, retry_in: Duration) {
        let core = &self.state.core;
        count(&core.counts.failures);
        core.metrics.failed();
        if retry_in.is_zero() {
            tracing::debug!(informer = core.name, %trouble, "the objects are listed again");
            return;
        }
        tracing::warn!(informer = core.name, %trouble, ?retry_in, "the watch is interrupted");
        core.metrics.synced(false);
        core.progress.send_modify(|progress| {
            progress.health = InformerHealth::Broken {
                since,
                error: trouble.to_string(),
                retry_in,
            };
        });
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn tick(resync: &mut Option<Interval>) {
    match resync {
        Some(resync) => _ = resync.tick().await,
        None => std::future::pending().await,
    }
}
