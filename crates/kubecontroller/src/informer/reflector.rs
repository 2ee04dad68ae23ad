//! The task of an informer: it lists, watches, and begins again.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::{StreamExt, stream::BoxStream};
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, sleep_until},
};

use super::{
    apply::State,
    health::{InformerHealth, count},
    informer::Vitals,
    list_watch::{ListWatch, ListWatchError, ListWatchStart, WatchEvent},
    subscribers::Command,
};
use crate::{object::Object, workqueue::ExponentialBackoff};

/// A number from 0 to 1.
pub(super) type Random = Arc<dyn Fn() -> f64 + Send + Sync>;

/// What is reflected. It hides the type of the objects, so that a reflector is compiled once, not for each of them.
pub(super) trait Reflected: Send {
    fn settings(&self) -> Settings;

    fn vitals(&self) -> Vitals<'_>;

    /// Where the source has to begin, after some trouble or none.
    fn start(&mut self, trouble: Option<&ListWatchError>) -> ListWatchStart;

    /// Begins to listen to the source.
    fn open(&mut self, start: ListWatchStart);

    /// Listens no more.
    fn close(&mut self);

    /// Whether a list has to be completed.
    fn is_listing(&self) -> bool;

    /// Tells of every object again.
    fn resync(&mut self);

    /// Takes the next of what it is asked and what it hears.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next>;
}

/// What was taken.
pub(super) enum Next {
    /// Nobody is interested any more.
    Over,
    /// Something that it was asked.
    Asked,
    /// Something that it heard; true if that is a sign of health.
    Heard(bool),
    /// What it listened to has ended.
    Ended(Option<ListWatchError>),
}

/// What a reflector goes by.
pub(super) struct Settings {
    pub(super) resync: Option<Duration>,
    pub(super) list_timeout: Duration,
    pub(super) backoff: ExponentialBackoff,
}

/// The objects of a source.
pub(super) struct Reflection<T, S> {
    state: State<T>,
    source: S,
    stream: Option<BoxStream<'static, Result<WatchEvent<T>, ListWatchError>>>,
    commands: mpsc::UnboundedReceiver<Command<T>>,
}

/// The task of an informer.
pub(super) struct Reflector {
    reflected: Box<dyn Reflected>,
    settings: Settings,
    random: Random,
}

/// Nobody is interested any more.
struct Stopped;

/// How a stream ended.
struct End {
    trouble: Option<ListWatchError>,
    /// How long it was healthy.
    lived: Duration,
}

/// A watch that ends sooner than this has failed, even if it says nothing.
const SHORT: Duration = Duration::from_secs(1);

// --- Reflector ---

impl Reflector {
    pub(super) fn new(reflected: Box<dyn Reflected>, random: Random) -> Self {
        Reflector {
            settings: reflected.settings(),
            reflected,
            random,
        }
    }

    /// Runs until the last handle is gone.
    pub(super) async fn run(mut self) {
        // That nobody is interested any more is how it ends.
        let _: Result<(), Stopped> = self.reflect().await;
    }

    async fn reflect(&mut self) -> Result<(), Stopped> {
        let mut resync = self.settings.resync.map(ticks);
        let mut start = self.reflected.start(None);
        let (mut failures, mut waited) = (0_u32, Duration::ZERO);
        let mut since = None;
        loop {
            let was_list = matches!(start, ListWatchStart::List { .. });
            self.reflected.open(start);
            let end = self.follow(&mut resync).await?;
            self.reflected.close();
            if end.lived >= SHORT.max(waited) {
                failures = 0;
            }
            let trouble = match end.trouble {
                None if self.reflected.is_listing() => Some(ListWatchError::Broken(
                    "the list ended before it was complete".to_owned(),
                )),
                // The watch begins.
                None if was_list => None,
                None if end.lived >= SHORT => None,
                None => Some(ListWatchError::Broken("the watch ended at once".to_owned())),
                trouble => trouble,
            };
            start = self.reflected.start(trouble.as_ref());
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

    /// Takes what it hears, and does what it is asked, until the source has nothing more to tell.
    async fn follow(&mut self, resync: &mut Option<Interval>) -> Result<End, Stopped> {
        let list_timeout = self.settings.list_timeout;
        let mut heard = Instant::now();
        let mut healthy: Option<Instant> = None;
        let trouble = loop {
            let is_listing = self.reflected.is_listing();
            tokio::select! {
                biased;
                () = tick(resync) => self.reflected.resync(),
                next = next(&mut *self.reflected) => match next {
                    Next::Over => return Err(Stopped),
                    Next::Asked => {}
                    Next::Heard(is_healthy) => {
                        heard = Instant::now();
                        if is_healthy {
                            healthy.get_or_insert(heard);
                        }
                    }
                    Next::Ended(trouble) => break trouble,
                },
                () = sleep_until(heard + list_timeout), if is_listing => {
                    break Some(ListWatchError::Broken(format!("the list brings nothing for {list_timeout:?}")));
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
                () = tick(resync) => self.reflected.resync(),
                next = next(&mut *self.reflected) => {
                    if let Next::Over = next {
                        return Err(Stopped);
                    }
                }
                () = &mut end => return Ok(()),
            }
        }
    }

    fn wait_after(&self, failures: u32, trouble: &ListWatchError) -> Duration {
        let backoff = self.settings.backoff;
        let most = backoff.after(failures);
        let wait = most / 2 + (most / 2).mul_f64((self.random)().clamp(0.0, 1.0));
        match trouble {
            // That happens to everybody who was away for a while; a list helps.
            ListWatchError::Expired(_) if failures == 1 => Duration::ZERO,
            ListWatchError::Refused {
                retry_after: Some(asked),
                ..
            } => wait.max(*asked),
            ListWatchError::Full { .. } => backoff.max,
            ListWatchError::Over => Duration::MAX,
            _ => wait,
        }
    }

    fn report(&self, trouble: &ListWatchError, since: Instant, retry_in: Duration) {
        let core = self.reflected.vitals();
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

// --- Reflection ---

impl<T: Object, S: ListWatch<T>> Reflection<T, S> {
    pub(super) fn new(state: State<T>, source: S, commands: mpsc::UnboundedReceiver<Command<T>>) -> Self {
        Reflection {
            state,
            source,
            stream: None,
            commands,
        }
    }
}

impl<T: Object, S: ListWatch<T>> Reflected for Reflection<T, S> {
    fn settings(&self) -> Settings {
        let options = &self.state.core.options;
        Settings {
            resync: options.resync_period(),
            list_timeout: options.list_timeout,
            backoff: options.backoff,
        }
    }

    fn vitals(&self) -> Vitals<'_> {
        let core = &self.state.core;
        Vitals {
            name: &core.name,
            progress: &core.progress,
            counts: &core.counts,
            metrics: &core.metrics,
        }
    }

    fn start(&mut self, trouble: Option<&ListWatchError>) -> ListWatchStart {
        self.state.start(trouble)
    }

    fn open(&mut self, start: ListWatchStart) {
        self.stream = Some(self.source.open(start));
    }

    fn close(&mut self) {
        self.stream = None;
    }

    fn is_listing(&self) -> bool {
        self.state.is_listing()
    }

    fn resync(&mut self) {
        self.state.resync();
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if let Poll::Ready(command) = self.commands.poll_recv(context) {
            return Poll::Ready(match command {
                Some(command) => {
                    self.state.obey(command);
                    Next::Asked
                }
                None => Next::Over,
            });
        }
        let Some(stream) = &mut self.stream else {
            return Poll::Pending;
        };
        let event = ready!(stream.poll_next_unpin(context)).transpose();
        let applied = event.and_then(|event| event.map(|event| self.state.apply(event)).transpose());
        Poll::Ready(match applied {
            Ok(Some(is_healthy)) => Next::Heard(is_healthy),
            Ok(None) => Next::Ended(None),
            Err(trouble) => Next::Ended(Some(trouble)),
        })
    }
}

async fn next(reflected: &mut dyn Reflected) -> Next {
    poll_fn(|context| reflected.poll_next(context)).await
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
