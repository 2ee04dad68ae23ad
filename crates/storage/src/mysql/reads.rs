//! Reads, each one statement: where the store stands and the rows come from one snapshot.
//!
//! That is what makes compaction safe to run beside them. It moves `k3_store.compacted` before it
//! deletes anything, so a statement that sees a row missing sees the new mark too.

use sqlx::{Row as _, mysql::MySqlRow};

use super::{
    connection::Statement,
    failure::Failure,
    pool::Pool,
    row::{Head, LOG, Logged, REST, head_columns, log_columns},
};
use crate::{Entry, Event, Key, Page, Prefix, Range, ReadError, Revision, StoreError, WatchError};

/// Entries read by one statement: a long list must not keep an old snapshot open.
const CHUNK: usize = 500;
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

/// Names in order, and for each the newest commit up to a revision: its last one, or, if that is too
/// new, the one that the index over names finds, going back from the newest. Values are joined after the limit was applied. Not
/// sorted at the end: the server would sort the values with the names.
const PAGE: &str = concat!(
    "SELECT ",
    head_columns!(),
    ", ",
    log_columns!(),
    ", p.name, p.revision FROM k3_store s
    LEFT JOIN (
        SELECT n.name, IF(n.revision <= ?, n.revision, (
            SELECT h.revision FROM k3_log h WHERE h.name = n.name AND h.revision <= ?
            ORDER BY h.revision DESC LIMIT 1
        )) AS revision
        FROM k3_names n
        WHERE n.name >= ? AND n.name < ? AND (n.deleted = 0 OR n.revision > ?)
        ORDER BY n.name LIMIT ?
    ) p ON TRUE
    LEFT JOIN k3_log l ON l.revision = p.revision
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

/// A row of a page: a name, and what it held.
struct Held {
    name: Vec<u8>,
    /// `None` when the key did not exist at the time.
    logged: Option<Logged>,
}

/// Asks where the store stands.
pub(super) fn head_statement() -> Statement<'static> {
    sqlx::query(HEAD)
}

/// Where the store stands.
pub(super) async fn head(pool: &Pool) -> Result<Head, StoreError> {
    let rows = pool.rows(head_statement).await?;
    head_of(&rows)?.open()
}

/// Where the store stands, asked once.
pub(super) async fn head_once(pool: &Pool) -> Result<Head, Failure> {
    let rows = pool.rows_once(head_statement()).await?;
    head_of(&rows).and_then(Head::open).map_err(Failure::Lasting)
}

pub(super) async fn get(pool: &Pool, key: &Key) -> Result<Option<Entry>, ReadError> {
    let rows = pool.rows(|| sqlx::query(GET).bind(key.as_bytes())).await?;
    head_of(&rows)?.open()?;
    let row = rows.first().expect("the head is a row");
    let newest: Option<u64> = row.try_get(REST).map_err(odd)?;
    match (newest, Logged::of(row, LOG).map_err(odd)?) {
        (None, _) => Ok(None),
        (Some(_), Some(logged)) => Ok(logged.into_entry()),
        (Some(revision), None) => Err(lost(revision).into()),
    }
}

pub(super) async fn range(pool: &Pool, prefix: &Prefix, page: &Page) -> Result<Range, ReadError> {
    let wanted = if page.limit == 0 { usize::MAX } else { page.limit };
    let (mut start, end) = bounds(prefix, page.after.as_ref());
    let mut at = page.at;
    let mut entries = Vec::new();
    loop {
        // One more than is wanted tells whether more follow.
        let limit = CHUNK.min((wanted - entries.len()).saturating_add(1));
        let rows = pool.rows(|| page_statement(at, &start, &end, limit)).await?;
        let head = head_of(&rows)?.open()?;
        let revision = readable(at.unwrap_or(head.revision), &head)?;
        at = Some(revision);
        let names = held(&rows)?;
        let scanned = names.len();
        if let Some(last) = names.last() {
            start = behind(&last.name);
        }
        for entry in names.into_iter().filter_map(|held| held.logged?.into_entry()) {
            if entries.len() == wanted {
                return Ok(Range {
                    entries,
                    revision,
                    more: true,
                });
            }
            entries.push(entry);
        }
        if scanned < limit {
            return Ok(Range {
                entries,
                revision,
                more: false,
            });
        }
    }
}

/// Up to `limit` events under a prefix above `after` and not above `upto`, and how far they reach.
pub(super) async fn past(
    pool: &Pool,
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
        let events: Vec<_> = logged(&rows)?.into_iter().map(Logged::into_event).collect();
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
pub(super) fn head_of(rows: &[MySqlRow]) -> Result<Head, StoreError> {
    let row = rows
        .first()
        .ok_or_else(|| StoreError::Corrupt("the row of k3_store is missing".to_owned()))?;
    Head::of(row).map_err(odd)
}

/// The commits in an answer, in the order of their revisions.
pub(super) fn logged(rows: &[MySqlRow]) -> Result<Vec<Logged>, StoreError> {
    let mut commits = Vec::with_capacity(rows.len());
    for row in rows {
        commits.extend(Logged::of(row, LOG).map_err(odd)?);
    }
    commits.sort_unstable_by_key(|commit| commit.revision);
    Ok(commits)
}

/// Checks that a revision can be read.
fn readable(asked: Revision, head: &Head) -> Result<Revision, ReadError> {
    if asked > head.revision {
        return Err(ReadError::Future {
            asked,
            current: head.revision,
        });
    }
    if asked < head.compacted {
        return Err(ReadError::Compacted {
            asked,
            oldest: head.compacted,
        });
    }
    Ok(asked)
}

fn page_statement<'q>(at: Option<Revision>, start: &[u8], end: &[u8], limit: usize) -> Statement<'q> {
    let at = at.map_or(u64::MAX, Revision::get);
    sqlx::query(PAGE)
        .bind(at)
        .bind(at)
        .bind(start.to_vec())
        .bind(end.to_vec())
        .bind(at)
        .bind(limit as u64)
}

/// The names of a page in order.
fn held(rows: &[MySqlRow]) -> Result<Vec<Held>, StoreError> {
    let mut names = Vec::with_capacity(rows.len());
    for row in rows {
        let name: Option<Vec<u8>> = row.try_get(REST).map_err(odd)?;
        let Some(name) = name else { continue };
        let newest: Option<u64> = row.try_get(REST + 1).map_err(odd)?;
        let logged = Logged::of(row, LOG).map_err(odd)?;
        if let (Some(revision), None) = (newest, &logged) {
            return Err(lost(revision));
        }
        names.push(Held { name, logged });
    }
    names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(names)
}

/// The names under a prefix and behind a key: from the first, which belongs to them, to the last,
/// which does not.
fn bounds(prefix: &Prefix, after: Option<&Key>) -> (Vec<u8>, Vec<u8>) {
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
fn behind(name: &[u8]) -> Vec<u8> {
    [name, b"\0"].concat()
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` calls")]
fn odd(error: sqlx::Error) -> StoreError {
    StoreError::Corrupt(format!("the database answers with odd rows: {error}"))
}

fn lost(revision: u64) -> StoreError {
    StoreError::Corrupt(format!(
        "commit {revision} holds a live value and is not in k3_log"
    ))
}
