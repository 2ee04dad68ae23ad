//! Reads, each one statement: where the store stands and the rows are from one snapshot.
//!
//! That is what makes compaction safe to run beside them. It moves `k3_store.compacted` before it
//! deletes anything, so a statement that sees a row missing sees the new mark too.

use sqlx::{Row as _, mysql::MySqlRow};

use super::{
    connection::Statement,
    failure::MysqlFailure,
    pool::ConnectionPool,
    row::{LOG, LogRow, REST, StoreHead, head_columns, log_columns},
};
use crate::{Entry, Event, Key, Prefix, ReadError, Revision, StoreError, WatchError};

/// Events read by one statement.
const EVENTS: usize = 256;
/// Revisions searched by one statement for the events of a prefix.
const WINDOW: u64 = 5_000;
/// Above every key: no byte of UTF-8 is this high.
const END: u8 = 0xff;

const HEAD: &str = concat!("SELECT ", head_columns!(), " FROM k3_store s WHERE s.id = 1");

const GET: &str = concat!(
    "SELECT ",
    head_columns!(),
    ", ",
    log_columns!(),
    ", n.revision FROM k3_store s
    LEFT JOIN k3_names n ON n.name = ? AND n.deleted = 0
    LEFT JOIN k3_log l ON l.revision = n.revision
    WHERE s.id = 1"
);

/// Commits of a prefix in order. The index over names would have to read all of its history.
const PAST: &str = concat!(
    "SELECT ",
    head_columns!(),
    ", ",
    log_columns!(),
    " FROM k3_store s
    LEFT JOIN (
        SELECT h.revision FROM k3_log h FORCE INDEX (PRIMARY)
        WHERE h.revision > ? AND h.revision <= ? AND h.name >= ? AND h.name < ?
        ORDER BY h.revision LIMIT ?
    ) p ON TRUE
    LEFT JOIN k3_log l ON l.revision = p.revision
    WHERE s.id = 1"
);

/// All commits from a revision on, in order.
const TAIL: &str = concat!(
    "SELECT ",
    head_columns!(),
    ", ",
    log_columns!(),
    " FROM k3_store s
    LEFT JOIN (
        SELECT h.revision FROM k3_log h WHERE h.revision >= ? ORDER BY h.revision LIMIT ?
    ) p ON TRUE
    LEFT JOIN k3_log l ON l.revision = p.revision
    WHERE s.id = 1"
);

/// The statement that reads the current revision.
pub(super) fn head_statement() -> Statement<'static> {
    sqlx::query(HEAD)
}

/// Reads the head of the store.
pub(super) async fn head(pool: &ConnectionPool) -> Result<StoreHead, StoreError> {
    let rows = pool.rows(head_statement).await?;
    head_of(&rows)?.open()
}

/// Reads the head of the store without retries.
pub(super) async fn head_once(pool: &ConnectionPool) -> Result<StoreHead, MysqlFailure> {
    let rows = pool.rows_once(head_statement()).await?;
    head_of(&rows)
        .and_then(StoreHead::open)
        .map_err(MysqlFailure::Permanent)
}

pub(super) async fn get(pool: &ConnectionPool, key: &Key) -> Result<Option<Entry>, ReadError> {
    let rows = pool.rows(|| sqlx::query(GET).bind(key.as_bytes())).await?;
    head_of(&rows)?.open()?;
    let row = rows.first().expect("the head is a row");
    let newest: Option<u64> = row.try_get(REST).map_err(odd)?;
    match (newest, LogRow::of(row, LOG).map_err(odd)?) {
        (None, _) => Ok(None),
        (Some(_), Some(logged)) => Ok(logged.into_entry()),
        (Some(revision), None) => Err(lost(revision).into()),
    }
}

/// Up to `limit` events under a prefix above `after` and not above `upto`, and how far they reach.
pub(super) async fn past(
    pool: &ConnectionPool,
    prefix: &Prefix,
    after: Revision,
    upto: Revision,
    limit: usize,
) -> Result<(Vec<Event>, Revision), WatchError> {
    let (start, end) = bounds(prefix, None);
    let limit = EVENTS.min(limit);
    let mut searched = after;
    loop {
        let until = upto.min(Revision::new(searched.get().saturating_add(WINDOW)));
        let rows = pool
            .rows(|| {
                sqlx::query(PAST)
                    .bind(searched.get())
                    .bind(until.get())
                    .bind(&start[..])
                    .bind(&end[..])
                    .bind(limit as u64)
            })
            .await?;
        let head = head_of(&rows)?.open()?;
        if searched < head.compacted {
            return Err(WatchError::Compacted {
                after,
                oldest: head.compacted,
            });
        }
        let events: Vec<_> = logged(&rows)?.into_iter().map(LogRow::into_event).collect();
        match events.last() {
            Some(last) if events.len() == limit => {
                let reached = last.revision;
                return Ok((events, reached));
            }
            Some(_) => return Ok((events, until)),
            None if until >= upto => return Ok((events, upto)),
            None => searched = until,
        }
    }
}

/// Asks for all commits from `first` on. Not more than [`TAIL_ROWS`].
pub(super) fn tail_statement(first: Revision) -> Statement<'static> {
    sqlx::query(TAIL).bind(first.get()).bind(TAIL_ROWS as u64)
}

/// How many commits the statement of [`tail_statement`] returns at most.
pub(super) const TAIL_ROWS: usize = EVENTS;

/// The head in the answer of any statement here.
pub(super) fn head_of(rows: &[MySqlRow]) -> Result<StoreHead, StoreError> {
    let row = rows
        .first()
        .ok_or_else(|| StoreError::Corrupt("the row of k3_store is missing".to_owned()))?;
    StoreHead::of(row).map_err(odd)
}

/// The commits in an answer, in the order of their revisions.
pub(super) fn logged(rows: &[MySqlRow]) -> Result<Vec<LogRow>, StoreError> {
    let mut commits = Vec::with_capacity(rows.len());
    for row in rows {
        commits.extend(LogRow::of(row, LOG).map_err(odd)?);
    }
    commits.sort_unstable_by_key(|commit| commit.revision);
    Ok(commits)
}

/// The names under a prefix and behind a key: from the first, which belongs to them, to the last,
/// which does not.
pub(super) fn bounds(prefix: &Prefix, after: Option<&Key>) -> (Vec<u8>, Vec<u8>) {
    let first = prefix.as_bytes().to_vec();
    let start = match after {
        Some(after) if **after >= **prefix => behind(after.as_bytes()),
        _ => first,
    };
    let mut end = prefix.as_bytes().to_vec();
    end.push(END);
    (start, end)
}

/// The first name that could follow this one.
pub(super) fn behind(name: &[u8]) -> Vec<u8> {
    [name, b"\0"].concat()
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` calls")]
pub(super) fn odd(error: sqlx::Error) -> StoreError {
    StoreError::Corrupt(format!("the database answers with odd rows: {error}"))
}

pub(super) fn lost(revision: u64) -> StoreError {
    StoreError::Corrupt(format!(
        "commit {revision} holds a live value and is not in k3_log"
    ))
}
