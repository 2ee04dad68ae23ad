//! Ranges, in chunks that are all of one revision.

use sqlx::{Row as _, mysql::MySqlRow};

use super::{
    connection::{Connection, Statement},
    failure::MysqlFailure,
    pool::ConnectionPool,
    reads::{behind, bounds, head_of, lost, odd},
    row::{LOG, LogRow, REST, StoreHead, head_columns, log_columns},
};
use crate::{Entry, Page, Prefix, Range, ReadError, Revision, StoreError};

/// Entries read by one statement: a long list must not keep an old snapshot open.
const CHUNK: usize = 500;

/// Names in order, and for each the newest commit up to a revision: its last one, or, if that is too
/// new, the one that the index over names finds, reading backwards from the newest. Values are joined after the limit was applied. Not
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

/// A range that is being read.
struct RangeScan {
    /// The revision to read at, once it is known.
    at: Option<Revision>,
    /// The first name that was not looked at.
    start: Vec<u8>,
    /// The first name that does not belong to the range.
    end: Vec<u8>,
    /// How many entries to return at most.
    wanted: usize,
    entries: Vec<Entry>,
}

/// A row of a page: a name, and what it held.
struct StoredValue {
    name: Vec<u8>,
    /// `None` when the key did not exist at the time.
    logged: Option<LogRow>,
}

/// Reads a page.
pub(super) async fn range(pool: &ConnectionPool, prefix: &Prefix, page: &Page) -> Result<Range, ReadError> {
    let mut scan = RangeScan::new(prefix, page);
    loop {
        let rows = pool.rows(|| scan.statement()).await?;
        match scan.take(&rows) {
            Ok(Some(range)) => return Ok(range),
            Ok(None) => {}
            // Compacted between two chunks. A caller that requested the newest state gets one, even if that
            // is compacted as fast as it is read.
            Err(ReadError::Compacted { .. }) if page.at.is_none() => {
                return pool.persist(|| range_at_once(pool, prefix, page)).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads a page in one snapshot of the database, in which nothing is deleted.
async fn range_at_once(
    pool: &ConnectionPool,
    prefix: &Prefix,
    page: &Page,
) -> Result<Result<Range, ReadError>, MysqlFailure> {
    let mut lease = pool.lease().await?;
    let connection = &mut lease.connection;
    connection
        .plain("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        .await?;
    connection
        .plain("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        .await?;
    let range = read_chunks(connection, RangeScan::new(prefix, page)).await?;
    connection.plain("COMMIT").await?;
    lease.release();
    Ok(range)
}

async fn read_chunks(
    connection: &mut Connection,
    mut scan: RangeScan,
) -> Result<Result<Range, ReadError>, MysqlFailure> {
    loop {
        let rows = connection.rows(scan.statement()).await?;
        if let Some(range) = scan.take(&rows).transpose() {
            return Ok(range);
        }
    }
}

// --- RangeScan ---

impl RangeScan {
    fn new(prefix: &Prefix, page: &Page) -> Self {
        let (start, end) = bounds(prefix, page.after.as_ref());
        Self {
            at: page.at,
            start,
            end,
            wanted: if page.limit == 0 { usize::MAX } else { page.limit },
            entries: Vec::new(),
        }
    }

    /// Asks for the next chunk.
    fn statement<'q>(&self) -> Statement<'q> {
        let at = self.at.map_or(u64::MAX, Revision::get);
        sqlx::query(PAGE)
            .bind(at)
            .bind(at)
            .bind(self.start.clone())
            .bind(self.end.clone())
            .bind(at)
            .bind(self.chunk() as u64)
    }

    /// How many names to look at next: one more than is wanted, which reports whether more follow.
    fn chunk(&self) -> usize {
        CHUNK.min((self.wanted - self.entries.len()).saturating_add(1))
    }

    /// Takes the answer to the statement, and returns the range if that was its end.
    fn take(&mut self, rows: &[MySqlRow]) -> Result<Option<Range>, ReadError> {
        let head = head_of(rows)?.open()?;
        let revision = readable(self.at.unwrap_or(head.revision), &head)?;
        self.at = Some(revision);
        let names = held(rows)?;
        let last = names.len() < self.chunk();
        if let Some(last) = names.last() {
            self.start = behind(&last.name);
        }
        for entry in names.into_iter().filter_map(|held| held.logged?.into_entry()) {
            if self.entries.len() == self.wanted {
                return Ok(Some(Range {
                    more: true,
                    ..self.end(revision)
                }));
            }
            self.entries.push(entry);
        }
        Ok(last.then(|| self.end(revision)))
    }

    /// The range without more entries.
    fn end(&mut self, revision: Revision) -> Range {
        Range {
            entries: std::mem::take(&mut self.entries),
            revision,
            more: false,
        }
    }
}

/// Checks that a revision can be read.
fn readable(requested: Revision, head: &StoreHead) -> Result<Revision, ReadError> {
    if requested > head.revision {
        return Err(ReadError::Future {
            requested,
            current: head.revision,
        });
    }
    if requested < head.compacted {
        return Err(ReadError::Compacted {
            requested,
            oldest: head.compacted,
        });
    }
    Ok(requested)
}

/// The names of a page in order.
fn held(rows: &[MySqlRow]) -> Result<Vec<StoredValue>, StoreError> {
    let mut names = Vec::with_capacity(rows.len());
    for row in rows {
        let name: Option<Vec<u8>> = row.try_get(REST).map_err(odd)?;
        let Some(name) = name else { continue };
        let newest: Option<u64> = row.try_get(REST + 1).map_err(odd)?;
        let logged = LogRow::of(row, LOG).map_err(odd)?;
        if let (Some(revision), None) = (newest, &logged) {
            return Err(lost(revision));
        }
        names.push(StoredValue { name, logged });
    }
    names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(names)
}
