//! Finds the entries that will expire, where they were not learned from events.

use sqlx::{Row as _, mysql::MySqlRow};

use super::{commit_publisher::CommitPublisher, connection::Connection, failure::MysqlFailure, row};
use crate::{Expiry, Key, Revision};

const EXPIRING: &str = "
    SELECT n.name, n.revision, l.expires_ms, l.ttl_ms,
        CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS UNSIGNED)
    FROM k3_names n JOIN k3_log l ON l.revision = n.revision
    WHERE n.expires_ms IS NOT NULL";

/// Records the deadlines of all entries that have one. Deadlines of entries that were removed may stay:
/// to delete such an entry is in conflict with what is there, and changes nothing.
pub(super) async fn load(
    connection: &mut Connection,
    publisher: &CommitPublisher,
) -> Result<(), MysqlFailure> {
    for row in connection.rows(sqlx::query(EXPIRING)).await? {
        let (key, revision, expiry, now_ms) = read(&row).map_err(|error| connection.misread(error))?;
        publisher.expect(&key, revision, expiry, now_ms);
    }
    Ok(())
}

fn read(row: &MySqlRow) -> Result<(Key, Revision, Option<Expiry>, u64), sqlx::Error> {
    Ok((
        row::key(row.try_get(0)?)?,
        Revision::new(row.try_get(1)?),
        row::expiry(row.try_get(2)?, row.try_get(3)?),
        row.try_get(4)?,
    ))
}
