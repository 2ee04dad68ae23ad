//! The task of an informer: it lists, watches, and restarts after errors.

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
    event_handlers::InformerCommand,
    health::{InformerHealth, increment},
    list_watch::{ListWatch, ListWatchError, ListWatchStart, WatchEvent},
    shared_informer::UntypedInformerCore,
    store_updater::StoreUpdater,
};
use crate::{Backoff, object::Object};

/// Returns random numbers from 0 to 1.
pub(super) type JitterSource = Arc<dyn Fn() -> f64 + Send + Sync>;

/// What a [`Reflector`] drives: the source, the store and the handlers of an informer. The trait hides the type of the objects,
/// so that the reflector is compiled once and not for each of them.
pub(super) trait ReflectorTarget: Send {
    fn settings(&self) -> ReflectorSettings;

    fn core(&self) -> UntypedInformerCore<'_>;

    /// Where the next list or watch starts, after the previous one ended with `error` or without one.
    fn next_start(&mut self, error: Option<&ListWatchError>) -> ListWatchStart;

    /// Starts a list or watch.
    fn open(&mut self, start: ListWatchStart);

    /// Aborts the list or watch.
    fn close(&mut self);

    /// Whether a list is in progress or still to be done.
    fn is_listing(&self) -> bool;

    /// Sends every object to the handlers again.
    fn resync(&mut self);

    /// Handles the next command or watch event.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<ReflectorEvent>;
}

/// What [`ReflectorTarget::poll_next`] has handled.
pub(super) enum ReflectorEvent {
    /// The last handle and registration are dropped: the informer ends.
    AllHandlesDropped,
    /// A command, such as a new event handler.
    CommandHandled,
    /// A watch event. The flag is set if it shows that the connection works.
    WatchEventApplied(bool),
    /// The list or watch ended, with an error or without one.
    StreamEnded(Option<ListWatchError>),
}

pub(super) struct ReflectorSettings {
    pub(super) resync: Option<Duration>,
    pub(super) list_timeout: Duration,
    pub(super) backoff: Backoff,
}

/// The [`ReflectorTarget`] for objects of type `T` from the source `S`.
pub(super) struct TypedReflectorTarget<T, S> {
    updater: StoreUpdater<T>,
    source: S,
    stream: Option<BoxStream<'static, Result<WatchEvent<T>, ListWatchError>>>,
    commands: mpsc::UnboundedReceiver<InformerCommand<T>>,
}

/// Lists and watches until the last handle of the informer is dropped.
// upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go ListAndWatchWithContext
pub(super) struct Reflector {
    target: Box<dyn ReflectorTarget>,
    settings: ReflectorSettings,
    jitter: JitterSource,
}

/// The last handle of the informer was dropped.
struct AllHandlesDropped;

/// How a list or watch ended.
struct StreamEnd {
    error: Option<ListWatchError>,
    /// The time since the first event that showed that the connection works.
    healthy_for: Duration,
}

/// A watch that ends sooner counts as failed even without an error. Otherwise a proxy that closes every watch at once would cause
/// a busy loop.
// upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go handleAnyWatch
const VERY_SHORT_WATCH: Duration = Duration::from_secs(1);

// --- Reflector ---

impl Reflector {
    pub(super) fn new(target: Box<dyn ReflectorTarget>, jitter: JitterSource) -> Self {
        Reflector {
            settings: target.settings(),
            target,
            jitter,
        }
    }

    /// Runs until the last handle of the informer is dropped.
    pub(super) async fn run(mut self) {
        let _: Result<(), AllHandlesDropped> = self.list_and_watch().await;
    }

    async fn list_and_watch(&mut self) -> Result<(), AllHandlesDropped> {
        let mut resync = self.settings.resync.map(resync_interval);
        let mut start = self.target.next_start(None);
        let mut failures = 0_u32;
        let mut last_delay = Duration::ZERO;
        let mut failing_since = None;
        loop {
            let was_list = matches!(start, ListWatchStart::List { .. });
            self.target.open(start);
            let end = self.process_stream(&mut resync).await?;
            self.target.close();
            // The backoff is reset only by a stream that was healthy for longer than the last delay. A server that accepts
            // watches and drops them soon after must not be retried at full speed.
            if end.healthy_for >= VERY_SHORT_WATCH.max(last_delay) {
                failures = 0;
            }
            let error = match end.error {
                None if self.target.is_listing() => Some(ListWatchError::Failed(
                    "the list ended before it was complete".to_owned(),
                )),
                // A paged list ends where the watch starts.
                None if was_list => None,
                None if end.healthy_for >= VERY_SHORT_WATCH => None,
                None => Some(ListWatchError::Failed(
                    "very short watch: it ended within a second".to_owned(),
                )),
                error => error,
            };
            start = self.target.next_start(error.as_ref());
            let Some(error) = error else {
                failing_since = None;
                continue;
            };
            failures = failures.saturating_add(1);
            if failures == 1 {
                failing_since = None;
            }
            last_delay = self.retry_delay(failures, &error);
            let since = *failing_since.get_or_insert_with(Instant::now);
            self.report_failure(&error, since, last_delay);
            self.wait(last_delay, &mut resync).await?;
        }
    }

    /// Handles events and commands until the list or watch ends.
    async fn process_stream(
        &mut self,
        resync: &mut Option<Interval>,
    ) -> Result<StreamEnd, AllHandlesDropped> {
        let list_timeout = self.settings.list_timeout;
        let mut last_event = Instant::now();
        let mut healthy_since: Option<Instant> = None;
        let error = loop {
            let is_listing = self.target.is_listing();
            tokio::select! {
                biased;
                () = next_resync(resync) => self.target.resync(),
                event = next_event(&mut *self.target) => match event {
                    ReflectorEvent::AllHandlesDropped => return Err(AllHandlesDropped),
                    ReflectorEvent::CommandHandled => {}
                    ReflectorEvent::WatchEventApplied(is_healthy) => {
                        last_event = Instant::now();
                        if is_healthy {
                            healthy_since.get_or_insert(last_event);
                        }
                    }
                    ReflectorEvent::StreamEnded(error) => break error,
                },
                () = sleep_until(last_event + list_timeout), if is_listing => {
                    break Some(ListWatchError::Failed(format!("the list made no progress for {list_timeout:?}")));
                }
            }
        };
        Ok(StreamEnd {
            error,
            healthy_for: healthy_since.map_or(Duration::ZERO, |since| since.elapsed()),
        })
    }

    /// Waits for the backoff. Commands and resyncs are handled meanwhile: the store can be read while the server is down.
    async fn wait(
        &mut self,
        delay: Duration,
        resync: &mut Option<Interval>,
    ) -> Result<(), AllHandlesDropped> {
        let end = sleep(delay);
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                () = next_resync(resync) => self.target.resync(),
                event = next_event(&mut *self.target) => {
                    if let ReflectorEvent::AllHandlesDropped = event {
                        return Err(AllHandlesDropped);
                    }
                }
                () = &mut end => return Ok(()),
            }
        }
    }

    fn retry_delay(&self, failures: u32, error: &ListWatchError) -> Duration {
        let backoff = self.settings.backoff;
        let longest = backoff.after(failures);
        let delay = longest / 2 + (longest / 2).mul_f64((self.jitter)().clamp(0.0, 1.0));
        match error {
            // An expired version is normal after an interruption, and a relist fixes it: no reason to wait the first time.
            ListWatchError::Expired(_) if failures == 1 => Duration::ZERO,
            ListWatchError::Rejected {
                retry_after: Some(retry_after),
                ..
            } => delay.max(*retry_after),
            ListWatchError::TooManyObjects { .. } => backoff.max,
            ListWatchError::Ended => Duration::MAX,
            _ => delay,
        }
    }

    fn report_failure(&self, error: &ListWatchError, since: Instant, retry_in: Duration) {
        let core = self.target.core();
        increment(&core.counters.failures);
        core.metrics.failed();
        if retry_in.is_zero() {
            tracing::debug!(informer = core.name, %error, "relisting");
            return;
        }
        tracing::warn!(informer = core.name, %error, ?retry_in, "list or watch failed");
        core.metrics.synced(false);
        core.progress.send_modify(|progress| {
            progress.health = InformerHealth::Failing {
                since,
                error: error.to_string(),
                retry_in,
            };
        });
    }
}

// --- TypedReflectorTarget ---

impl<T: Object, S: ListWatch<T>> TypedReflectorTarget<T, S> {
    pub(super) fn new(
        updater: StoreUpdater<T>,
        source: S,
        commands: mpsc::UnboundedReceiver<InformerCommand<T>>,
    ) -> Self {
        TypedReflectorTarget {
            updater,
            source,
            stream: None,
            commands,
        }
    }
}

impl<T: Object, S: ListWatch<T>> ReflectorTarget for TypedReflectorTarget<T, S> {
    fn settings(&self) -> ReflectorSettings {
        let options = &self.updater.core.options;
        ReflectorSettings {
            resync: options.resync_period(),
            list_timeout: options.list_timeout,
            backoff: options.backoff,
        }
    }

    fn core(&self) -> UntypedInformerCore<'_> {
        let core = &self.updater.core;
        UntypedInformerCore {
            name: &core.name,
            progress: &core.progress,
            counters: &core.counters,
            metrics: &core.metrics,
        }
    }

    fn next_start(&mut self, error: Option<&ListWatchError>) -> ListWatchStart {
        self.updater.next_start(error)
    }

    fn open(&mut self, start: ListWatchStart) {
        self.stream = Some(self.source.open(start));
    }

    fn close(&mut self) {
        self.stream = None;
    }

    fn is_listing(&self) -> bool {
        self.updater.is_listing()
    }

    fn resync(&mut self) {
        self.updater.resync();
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<ReflectorEvent> {
        // Commands first: a handler that was added before an event must receive that event once, not as part of the initial
        // objects and again as a change.
        if let Poll::Ready(command) = self.commands.poll_recv(context) {
            return Poll::Ready(match command {
                Some(command) => {
                    self.updater.run_command(command);
                    ReflectorEvent::CommandHandled
                }
                None => ReflectorEvent::AllHandlesDropped,
            });
        }
        let Some(stream) = &mut self.stream else {
            return Poll::Pending;
        };
        let event = ready!(stream.poll_next_unpin(context)).transpose();
        let applied = event.and_then(|event| event.map(|event| self.updater.apply(event)).transpose());
        Poll::Ready(match applied {
            Ok(Some(is_healthy)) => ReflectorEvent::WatchEventApplied(is_healthy),
            Ok(None) => ReflectorEvent::StreamEnded(None),
            Err(error) => ReflectorEvent::StreamEnded(Some(error)),
        })
    }
}

async fn next_event(target: &mut dyn ReflectorTarget) -> ReflectorEvent {
    poll_fn(|context| target.poll_next(context)).await
}

fn resync_interval(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn next_resync(resync: &mut Option<Interval>) {
    match resync {
        Some(resync) => _ = resync.tick().await,
        None => std::future::pending().await,
    }
}
