//! The mark of compactors, in two rows of `k3_sweep`.
//!
//! Not in a table of its own: older programs on the same database know nothing of it and need not, and an account
//! that may not create tables can continue with those there are.

use sqlx::{Row as _, mysql::MySqlRow};

use super::{connection::Connection, failure::MysqlFailure, pool::ConnectionPool};
use crate::{HistoryMark, Revision, StoreError};

/// The ids of the rows: what the store stood at, and when. Row 1 is how far compaction has deleted commits.
const REVISION: u8 = 2;
const TIME: u8 = 3;

const READ: &str = "SELECT id, revision FROM k3_sweep WHERE id IN (2, 3)";
const LOCK: &str = "SELECT id, revision FROM k3_sweep WHERE id IN (1, 2, 3) FOR UPDATE";

/// The mark, if there is one.
pub(super) async fn read(pool: &ConnectionPool) -> Result<Option<HistoryMark>, StoreError> {
    let rows = pool.rows(|| sqlx::query(READ)).await?;
    parse(&rows).map_err(|error| StoreError::Corrupt(format!("k3_sweep cannot be read: {error}")))
}

/// Replaces the mark if it still is `expected`.
pub(super) async fn replace(
    pool: &ConnectionPool,
    expected: Option<HistoryMark>,
    mark: HistoryMark,
) -> Result<bool, StoreError> {
    pool.persist(async || {
        let mut lease = pool.lease().await?;
        let replaced = replace_once(&mut lease.connection, expected, mark).await?;
        lease.release();
        Ok(replaced)
    })
    .await
}

/// Row 1 is always there, so that two processes that write the first mark wait for each other. A mark that was
/// written although the answer was lost is found and counts as written.
async fn replace_once(
    connection: &mut Connection,
    expected: Option<HistoryMark>,
    mark: HistoryMark,
) -> Result<bool, MysqlFailure> {
    connection.begin().await?;
    let rows = connection.rows(sqlx::query(LOCK)).await?;
    let found = parse(&rows).map_err(|error| connection.misread(error))?;
    if found != expected {
        connection.roll_back().await?;
        return Ok(found == Some(mark));
    }
    let write = sqlx::query("REPLACE INTO k3_sweep (id, revision) VALUES (?, ?), (?, ?)")
        .bind(REVISION)
        .bind(mark.revision.get())
        .bind(TIME)
        .bind(mark.time_ms);
    connection.run(write).await?;
    connection.commit().await?;
    Ok(true)
}

fn parse(rows: &[MySqlRow]) -> Result<Option<HistoryMark>, sqlx::Error> {
    let mut revision = None;
    let mut time_ms = None;
    for row in rows {
        let id: u8 = row.try_get(0)?;
        let number: u64 = row.try_get(1)?;
        match id {
            REVISION => revision = Some(Revision::new(number)),
            TIME => time_ms = Some(number),
            _ => {}
        }
    }
    Ok(revision
        .zip(time_ms)
        .map(|(revision, time_ms)| HistoryMark { revision, time_ms }))
}
