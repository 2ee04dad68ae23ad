//! The etcd store: a session, the shared watch, and the operations.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    BACKEND, commit,
    connection::{EtcdConnection, RetryPolicy},
    event_publisher::EventPublisher,
    failure::{self, EtcdFailure, EtcdRejection},
    history_mark, import,
    lease::LeaseGrants,
    messages::{CompactionRequest, EmptyResponse, StatusRequest, StatusResponse, TxnResponse, method},
    options::EtcdOptions,
    progress_notifier::{ProgressNotifier, WatchProgress},
    read,
    recent_events::RecentEvents,
    replay::HistoryReplay,
    session::EtcdSession,
    state,
};
use crate::{
    CommitError, Entry, HistoryMark, Import, ImportError, Key, OpenError, Page, Prefix, Range, ReadError,
    Revision, Store, StoreError, StoreHealth, WatchError, WatchStream, Write,
    feed::{EventFeed, FeedWatch},
};

/// A store in etcd. Several processes may have it open.
///
/// An entry's expiry is kept by etcd itself, by a lease: it is exact to about two seconds, and counts
/// again when etcd elects another leader.
pub struct EtcdStore {
    session: Arc<EtcdSession>,
    watch_sender: Arc<WatchSender>,
    progress: Arc<WatchProgress>,
    leases: Arc<LeaseGrants>,
    event_publisher: EventPublisher,
    progress_notifier: ProgressNotifier,
}

/// Publishes events to the watches of this process.
pub(super) struct WatchSender {
    pub(super) feed: Arc<EventFeed>,
    /// Never behind the feed.
    recent: Mutex<RecentEvents>,
}

// --- EtcdStore ---

impl EtcdStore {
    /// Connects to etcd and initializes the store if it does not exist.
    pub async fn open(options: EtcdOptions) -> Result<Arc<Self>, OpenError> {
        let (endpoints, keys) = options.check()?;
        let connection = EtcdConnection::new(endpoints, &options);
        let location = format!("etcd ({}) under {}", options.endpoints.join(", "), keys.prefix());
        find_member(&connection, &options)
            .await
            .map_err(|failure| refused(failure, &location))?;
        let founded: Result<TxnResponse, EtcdFailure> = connection
            .call(
                method::TXN,
                state::founding(&keys),
                RetryPolicy::Harmless,
                connection.deadline(),
            )
            .await;
        let answer = founded.map_err(|failure| refused(failure, &location))?;
        let position = answer.revision();
        let state = state::check(answer, &location)?;

        let session = Arc::new(EtcdSession::new(connection, keys, location, state));
        let watch_sender = Arc::new(WatchSender::new(state.revision(position)));
        let progress = Arc::new(WatchProgress::new(position));
        Ok(Arc::new(Self {
            event_publisher: EventPublisher::start(
                Arc::clone(&session),
                Arc::clone(&watch_sender),
                Arc::clone(&progress),
                state,
                position,
            ),
            progress_notifier: ProgressNotifier::start(Arc::clone(&session), Arc::clone(&progress)),
            session,
            watch_sender,
            progress,
            leases: Arc::new(LeaseGrants::new()),
        }))
    }

    fn end(&self) {
        self.session.close();
        self.event_publisher.stop();
        self.progress_notifier.stop();
        self.watch_sender.feed.close();
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        // Watches may outlive the handle. Without the publisher they would wait forever.
        self.end();
    }
}

/// Finds a responding member. The dial timeout also limits members that accept the connection but do not respond.
async fn find_member(connection: &EtcdConnection, options: &EtcdOptions) -> Result<(), EtcdFailure> {
    let members = u32::try_from(options.endpoints.len()).unwrap_or(u32::MAX);
    let deadline = Instant::now() + options.dial_timeout.saturating_mul(members);
    let answer: Result<StatusResponse, EtcdFailure> = connection
        .call(method::STATUS, StatusRequest {}, RetryPolicy::Harmless, deadline)
        .await;
    match answer {
        // A rejection is a response.
        Ok(_) | Err(EtcdFailure::Refused(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Reports a failed authentication as an invalid setting.
fn refused(failure: EtcdFailure, location: &str) -> OpenError {
    let setting = |setting, reason: &str| OpenError::InvalidSetting {
        setting,
        reason: reason.to_owned(),
    };
    match failure.rejection() {
        Some(EtcdRejection::LoginWrong) => {
            setting("login", "etcd does not know this user name with this password")
        }
        Some(EtcdRejection::LoginNeeded) => setting("login", "this etcd wants a user name and a password"),
        _ => failure.into_store_error(location).into(),
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError> {
        read::get(&self.session, key).await
    }

    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
        read::range(&self.session, prefix, page).await
    }

    async fn commit(&self, write: Write) -> Result<Revision, CommitError> {
        commit::commit(&self.session, &self.leases, write).await
    }

    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError> {
        read::prove(&self.session, after).await?;
        let replay = HistoryReplay::new(Arc::clone(&self.session), Arc::clone(&self.watch_sender));
        Ok(WatchStream::new(FeedWatch::new(
            Arc::new(replay),
            Arc::clone(&self.watch_sender.feed),
            prefix,
            after,
        )))
    }

    async fn compact(&self, upto: Revision) -> Result<(), StoreError> {
        let explain = |failure| self.session.store_error(failure);
        let (state, newest) = self.session.newest().await.map_err(explain)?;
        if upto < state.floor() {
            return Ok(());
        }
        let request = CompactionRequest {
            revision: state.etcd(upto).min(newest),
        };
        let answer: Result<EmptyResponse, EtcdFailure> = self
            .session
            .connection
            .call(
                method::COMPACT,
                request,
                RetryPolicy::Harmless,
                self.session.deadline(),
            )
            .await;
        match answer {
            Ok(EmptyResponse {}) => Ok(()),
            // Compacted by another process or by etcd's auto-compaction.
            Err(failure) if failure.rejection() == Some(EtcdRejection::Compacted) => Ok(()),
            Err(failure) => Err(explain(failure)),
        }
    }

    async fn history_mark(&self) -> Result<Option<HistoryMark>, StoreError> {
        history_mark::read(&self.session).await
    }

    async fn replace_history_mark(
        &self,
        expected: Option<HistoryMark>,
        mark: HistoryMark,
    ) -> Result<bool, StoreError> {
        history_mark::replace(&self.session, expected, mark).await
    }

    async fn current_revision(&self) -> Result<Revision, StoreError> {
        let (state, etcd) = self
            .session
            .newest()
            .await
            .map_err(|failure| self.session.store_error(failure))?;
        self.progress.ask(etcd);
        // The publisher announces revisions that it reaches after the request; this covers those that it reached before.
        if self.progress.reached() >= etcd {
            self.watch_sender.feed.announce();
        }
        Ok(state.revision(etcd))
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        let explain = |failure| self.session.store_error(failure);
        let (state, etcd) = self.session.newest().await.map_err(explain)?;
        let status: StatusResponse = self
            .session
            .connection
            .call(
                method::STATUS,
                StatusRequest {},
                RetryPolicy::Harmless,
                self.session.deadline(),
            )
            .await
            .map_err(explain)?;
        for alarm in &status.errors {
            if alarm.contains("NOSPACE") {
                return Err(failure::full(&self.session.location));
            }
            if alarm.contains("CORRUPT") {
                return Err(StoreError::Corrupt(format!("etcd raised an alarm: {alarm}")));
            }
        }
        Ok(StoreHealth {
            backend: BACKEND,
            revision: state.revision(etcd),
        })
    }

    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError> {
        import::begin(Arc::clone(&self.session), Arc::clone(&self.leases), source).await
    }

    async fn discard(&self) -> Result<(), ImportError> {
        import::discard(&self.session).await
    }

    async fn close(&self) {
        self.end();
    }
}

// --- WatchSender ---

impl WatchSender {
    fn new(at: Revision) -> Self {
        Self {
            feed: Arc::new(EventFeed::new(at)),
            recent: Mutex::new(RecentEvents::new(at)),
        }
    }

    /// Continues at a revision that no events lead to, such as after an import.
    pub(super) fn jump(&self, to: Revision) {
        *self.recent() = RecentEvents::new(to);
        self.feed.jump(to);
    }

    pub(super) fn recent(&self) -> MutexGuard<'_, RecentEvents> {
        self.recent.lock()
    }
}
