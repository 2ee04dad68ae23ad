//! Polls the log and publishes the commits of other processes to the watchers of this process.
//!
//! Guarantees: events are published exactly once and in order; watches end if history is missing. It polls often while another
//! process writes, and at most twice a second otherwise.

use std::{sync::Arc, time::Duration};

use k3_task::Backoff;
use tokio::{task::JoinHandle, time::timeout};

use super::{
    commit_publisher::{CommitPublisher, PublishResult, PublishedPosition},
    connection::{Connection, ConnectionFactory, ConnectionRole},
    expiries,
    failure::{MysqlFailure, timed_out},
    reads::{TAIL_ROWS, head_of, logged, tail_statement},
    row::{LogRow, StoreHead},
    transaction::lock,
};

/// Poll interval while another process writes: its commits must arrive within 100 ms.
const BUSY: Duration = Duration::from_millis(40);
/// Poll interval while no process writes: at most two queries a second, and a commit must arrive within 600 ms.
const IDLE: Duration = Duration::from_millis(510);
/// Delay after a failure; it doubles with each.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(2));

/// The polling task. Stops when it is dropped.
pub(super) struct LogFollower(JoinHandle<()>);

struct FollowerTask {
    connector: Arc<ConnectionFactory>,
    publisher: Arc<CommitPublisher>,
    connection: Option<Connection>,
    /// An import was seen under way: what follows it did not arrive by events.
    import_seen: bool,
}

/// The result of a poll of the log.
#[derive(Debug, PartialEq, Eq)]
enum LogCheck {
    /// The commits that follow what was published, if any.
    Following,
    /// Some of those were compacted.
    Behind,
    /// The log is not the one that was published: the server returned from a crash without commits that
    /// it had shown but not yet made durable, or from an old backup.
    Rewound,
}

/// Whether to poll again immediately.
enum LogObservation {
    More,
    Wait,
}

// --- LogFollower ---

impl LogFollower {
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept, and aborts the task on drop"
    )]
    pub(super) fn start(connector: Arc<ConnectionFactory>, publisher: Arc<CommitPublisher>) -> Self {
        let task = FollowerTask {
            connector,
            publisher,
            connection: None,
            import_seen: false,
        };
        Self(tokio::spawn(task.run()))
    }
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// --- FollowerTask ---

impl FollowerTask {
    async fn run(mut self) {
        let mut delays = BACKOFF.delays();
        loop {
            let limit = self.connector.options.request_timeout;
            let looked = timeout(limit, self.look())
                .await
                .unwrap_or_else(|_| Err(MysqlFailure::Transient(timed_out())));
            match looked {
                Ok(LogObservation::More) => delays.reset(),
                Ok(LogObservation::Wait) => {
                    delays.reset();
                    let interval = if self.publisher.busy() { BUSY } else { IDLE };
                    tokio::select! {
                        () = tokio::time::sleep(interval) => {}
                        () = self.publisher.poked() => {}
                    }
                }
                Err(failure) => {
                    let error = failure.into_error();
                    let delay = delays.next_delay();
                    tracing::warn!(%error, "cannot follow the log, will try again in {delay:?}");
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }

    /// Polls the log once. The connection is kept on success.
    async fn look(&mut self) -> Result<LogObservation, MysqlFailure> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connector.connect(ConnectionRole::Reader).await?,
        };
        let published = self.publisher.published();
        let rows = connection.rows(tail_statement(published.revision)).await?;
        let head = head_of(&rows).map_err(MysqlFailure::Permanent)?;
        let commits = logged(&rows).map_err(MysqlFailure::Permanent)?;
        let next = self.digest(&mut connection, published, &head, commits).await?;
        self.connection = Some(connection);
        Ok(next)
    }

    async fn digest(
        &mut self,
        connection: &mut Connection,
        published: PublishedPosition,
        head: &StoreHead,
        commits: Vec<LogRow>,
    ) -> Result<LogObservation, MysqlFailure> {
        if head.importing.is_some() {
            self.import_seen = true;
            return Ok(LogObservation::Wait);
        }
        let finding = if self.import_seen {
            LogCheck::Behind
        } else {
            LogCheck::of(published, head, &commits)
        };
        match finding {
            LogCheck::Following => {
                let more = commits.len() == TAIL_ROWS;
                let publish = self.publisher.publish(commits, head.now_ms);
                debug_assert_eq!(
                    publish,
                    PublishResult::Published,
                    "the commits follow the published ones"
                );
                Ok(if more {
                    LogObservation::More
                } else {
                    LogObservation::Wait
                })
            }
            LogCheck::Behind => {
                // Entries that expire may be among what was missed.
                expiries::load(connection, &self.publisher).await?;
                self.publisher.jump(head.compacted);
                self.import_seen = false;
                Ok(LogObservation::More)
            }
            LogCheck::Rewound => {
                tracing::error!(
                    published = %published.revision,
                    found = %head.revision,
                    "the database lost published commits; restarting all watches"
                );
                leave_history(connection, published).await?;
                Ok(LogObservation::More)
            }
        }
    }
}

/// Moves the store above everything that was ever published and forgets the history: watchers, here and in
/// every other process, must read again, and no revision that was seen arrives again with other content.
async fn leave_history(
    connection: &mut Connection,
    published: PublishedPosition,
) -> Result<(), MysqlFailure> {
    connection.begin().await?;
    let head = lock(connection).await?;
    let above = head.revision.max(published.revision).next().get();
    let statement = sqlx::query("UPDATE k3_store SET revision = ?, compacted = ? WHERE id = 1");
    connection.run(statement.bind(above).bind(above)).await?;
    connection.commit().await
}

// --- LogCheck ---

impl LogCheck {
    /// The meaning of what the log holds from the commit on that was published last. All of it is from
    /// one snapshot.
    fn of(published: PublishedPosition, head: &StoreHead, commits: &[LogRow]) -> Self {
        if head.compacted > published.revision {
            return Self::Behind;
        }
        if head.revision < published.revision {
            return Self::Rewound;
        }
        let (last, new) = match commits.split_first() {
            Some((first, rest)) if first.revision == published.revision => (Some(first), rest),
            _ => (None, commits),
        };
        let same = match last {
            Some(last) => published.nonce.is_none_or(|nonce| nonce == last.nonce),
            None => head.compacted == published.revision,
        };
        let whole = new
            .iter()
            .zip(published.revision.get() + 1..)
            .all(|(commit, expected)| commit.revision.get() == expected);
        let reached = new.last().map_or(published.revision, |last| last.revision);
        let complete = commits.len() == TAIL_ROWS || reached == head.revision;
        if same && whole && complete {
            Self::Following
        } else {
            Self::Rewound
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Revision, mysql::row::Kind};

    fn published(revision: u64, nonce: u64) -> PublishedPosition {
        PublishedPosition {
            revision: Revision::new(revision),
            nonce: Some(nonce),
        }
    }

    fn finding(published: PublishedPosition, head: (u64, u64), commits: &[(u64, u64)]) -> LogCheck {
        let head = StoreHead {
            revision: Revision::new(head.1),
            compacted: Revision::new(head.0),
            importing: None,
            now_ms: 0,
        };
        let commits: Vec<_> = commits
            .iter()
            .map(|&(revision, nonce)| LogRow {
                revision: Revision::new(revision),
                key: Key::try_new("/a").unwrap(),
                kind: Kind::Created,
                nonce,
                expiry: None,
                value: bytes::Bytes::new(),
            })
            .collect();
        LogCheck::of(published, &head, &commits)
    }

    #[test]
    fn commits_that_follow_are_reported() {
        assert_eq!(finding(published(5, 1), (2, 5), &[(5, 1)]), LogCheck::Following);
        assert_eq!(
            finding(published(5, 1), (2, 7), &[(5, 1), (6, 2), (7, 2)]),
            LogCheck::Following
        );
    }

    #[test]
    fn the_commit_reported_last_may_be_compacted() {
        assert_eq!(finding(published(5, 1), (5, 6), &[(6, 2)]), LogCheck::Following);
        assert_eq!(finding(published(5, 1), (6, 7), &[(7, 2)]), LogCheck::Behind);
    }

    #[test]
    fn detects_lost_commits() {
        // The last commit is missing.
        assert_eq!(finding(published(5, 1), (2, 4), &[]), LogCheck::Rewound);
        // It was removed, and another has taken its number.
        assert_eq!(
            finding(published(5, 1), (2, 6), &[(5, 8), (6, 9)]),
            LogCheck::Rewound
        );
        // There is a hole.
        assert_eq!(
            finding(published(5, 1), (2, 7), &[(5, 1), (7, 2)]),
            LogCheck::Rewound
        );
        assert_eq!(
            finding(published(5, 1), (2, 7), &[(5, 1), (6, 2)]),
            LogCheck::Rewound
        );
        assert_eq!(finding(published(5, 1), (2, 6), &[(6, 2)]), LogCheck::Rewound);
    }
}
