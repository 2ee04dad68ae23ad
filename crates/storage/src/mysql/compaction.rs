//! Compaction: it first raises the compacted revision, then deletes rows in small transactions.
//!
//! `k3_store.compacted` is the promise what cannot be read any more, `k3_sweep.revision` how far the
//! rows were removed. A crash leaves the second behind the first, and the next compaction continues there.
//! Several processes may sweep at once: each piece is done by the one that has the lock.

use sqlx::{AssertSqlSafe, Row as _, mysql::MySqlRow};

use super::{
    connection::Connection,
    failure::MysqlFailure,
    pool::ConnectionPool,
    reads,
    row::Kind,
    statement::{arguments, padded},
};
use crate::{Revision, StoreError};

/// Commits looked at in one transaction: writers of the same rows wait no longer than this takes.
const PIECE: u64 = 256;

/// Never lowers the mark: another process may have set it higher.
const MARK: &str = "UPDATE k3_store SET compacted = GREATEST(compacted, LEAST(?, revision))
    WHERE id = 1 AND importing IS NULL";

const LOCK: &str = "SELECT revision FROM k3_sweep WHERE id = 1 FOR UPDATE";

const COMMITS: &str = "SELECT revision, name, kind, previous FROM k3_log
    WHERE revision > ? AND revision <= ? ORDER BY revision LIMIT ?";

/// The rows that one step deletes.
#[derive(Default)]
struct GarbageRows {
    /// Commits that no state which can be read still shows.
    commits: Vec<u64>,
    /// Keys that were deleted.
    names: Vec<Vec<u8>>,
    /// The last commit looked at, if there were more than fit in a piece.
    last: Option<Revision>,
}

/// Compacts states before `upto`, and deletes the rows that only they need.
pub(super) async fn compact(pool: &ConnectionPool, upto: Revision) -> Result<(), StoreError> {
    let target = pool.persist(|| mark(pool, upto)).await?;
    loop {
        let swept = pool.persist(|| sweep(pool, target)).await?;
        if swept >= target {
            return Ok(());
        }
    }
}

/// Reports that states before `upto` cannot be read, and returns up to where they can not.
async fn mark(pool: &ConnectionPool, upto: Revision) -> Result<Revision, MysqlFailure> {
    let mut lease = pool.lease().await?;
    lease.connection.run(sqlx::query(MARK).bind(upto.get())).await?;
    lease.release();
    Ok(reads::head_once(pool).await?.compacted)
}

/// Deletes the next piece and returns how far the rows were removed.
async fn sweep(pool: &ConnectionPool, target: Revision) -> Result<Revision, MysqlFailure> {
    let mut lease = pool.lease().await?;
    let swept = sweep_piece(&mut lease.connection, target).await?;
    lease.release();
    Ok(swept)
}

async fn sweep_piece(connection: &mut Connection, target: Revision) -> Result<Revision, MysqlFailure> {
    connection.begin().await?;
    let rows = connection.rows(sqlx::query(LOCK)).await?;
    let row = rows.first().ok_or_else(|| {
        MysqlFailure::Permanent(StoreError::Corrupt("the row of k3_sweep is missing".to_owned()))
    })?;
    let swept: u64 = row.try_get(0).map_err(|error| connection.misread(error))?;
    if swept >= target.get() {
        connection.roll_back().await?;
        return Ok(Revision::new(swept));
    }
    let commits = sqlx::query(COMMITS).bind(swept).bind(target.get()).bind(PIECE);
    let rows = connection.rows(commits).await?;
    let waste = GarbageRows::of(&rows).map_err(|error| connection.misread(error))?;
    delete_commits(connection, &waste.commits).await?;
    delete_names(connection, &waste.names, target).await?;
    let reached = waste.last.unwrap_or(target);
    let advance = sqlx::query("UPDATE k3_sweep SET revision = ? WHERE id = 1").bind(reached.get());
    connection.run(advance).await?;
    connection.commit().await?;
    Ok(reached)
}

async fn delete_commits(connection: &mut Connection, commits: &[u64]) -> Result<(), MysqlFailure> {
    if commits.is_empty() {
        return Ok(());
    }
    let commits = padded(commits);
    let sql = format!(
        "DELETE FROM k3_log WHERE revision IN ({})",
        arguments(commits.len())
    );
    let statement = commits.fold(sqlx::query(AssertSqlSafe(sql)), |statement, commit| {
        statement.bind(*commit)
    });
    connection.run(statement).await?;
    Ok(())
}

/// Deletes the names of keys that do not exist, unless they were created and deleted again since.
async fn delete_names(
    connection: &mut Connection,
    names: &[Vec<u8>],
    target: Revision,
) -> Result<(), MysqlFailure> {
    if names.is_empty() {
        return Ok(());
    }
    let names = padded(names);
    let sql = format!(
        "DELETE FROM k3_names WHERE name IN ({}) AND deleted = 1 AND revision <= ?",
        arguments(names.len())
    );
    let statement = names.fold(sqlx::query(AssertSqlSafe(sql)), |statement, name| {
        statement.bind(&name[..])
    });
    connection.run(statement.bind(target.get())).await?;
    Ok(())
}

// --- GarbageRows ---

impl GarbageRows {
    /// What these commits make superfluous: the values they replaced, and deletions themselves.
    fn of(rows: &[MySqlRow]) -> Result<Self, sqlx::Error> {
        let mut waste = Self::default();
        for row in rows {
            let revision: u64 = row.try_get(0)?;
            let previous: u64 = row.try_get(3)?;
            if previous != 0 {
                waste.commits.push(previous);
            }
            if Kind::of(row.try_get(2)?)? == Kind::Deleted {
                waste.commits.push(revision);
                waste.names.push(row.try_get(1)?);
            }
        }
        if rows.len() as u64 == PIECE {
            waste.last = rows
                .last()
                .map(|row| row.try_get(0))
                .transpose()?
                .map(Revision::new);
        }
        waste.commits.sort_unstable();
        Ok(waste)
    }
}
