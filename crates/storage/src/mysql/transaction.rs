//! The statements of a group's transaction.

use std::collections::{BTreeSet, HashMap};

use sqlx::{AssertSqlSafe, Row as _};

use super::{
    commit_plan::{CommitPlan, KeyState, PlannedCommit},
    connection::{Connection, Statement},
    failure::MysqlFailure,
    reads::{head_of, logged},
    row::{LogRow, StoreHead, expiry_columns, head_columns, key, log_columns},
    statement::{arguments, padded, pieces, row_bytes, tuples},
};
use crate::{Entry, Key, Revision, Write};

const LOCK: &str = concat!(
    "SELECT ",
    head_columns!(),
    " FROM k3_store s WHERE s.id = 1 FOR UPDATE"
);

/// A group whose rows are written and only wait for `COMMIT`.
pub(super) struct StagedGroup {
    pub(super) plan: CommitPlan,
    /// What writes of the group are in conflict with, by revision.
    pub(super) obstacles: HashMap<Revision, Entry>,
    pub(super) now_ms: u64,
    pub(super) nonce: u64,
}

/// The outcome of a group whose `COMMIT` got no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupOutcome {
    Committed,
    RolledBack,
    /// Unknown: the rows with the group's revisions were compacted.
    Forgotten,
}

/// Locks the counter: a caller that commits next waits until this transaction has ended.
pub(super) async fn lock(connection: &mut Connection) -> Result<StoreHead, MysqlFailure> {
    let rows = connection.rows(sqlx::query(LOCK)).await?;
    head_of(&rows).map_err(MysqlFailure::Permanent)
}

/// Runs the statements of a group, without `COMMIT`.
pub(super) async fn stage(
    connection: &mut Connection,
    writes: impl Iterator<Item = &Write> + Clone + Send,
    nonce: u64,
) -> Result<StagedGroup, MysqlFailure> {
    let head = lock(connection).await?.open().map_err(MysqlFailure::Permanent)?;
    let keys: BTreeSet<&Key> = writes.clone().map(|write| &write.key).collect();
    let known = known(connection, &keys.into_iter().collect::<Vec<_>>()).await?;
    let plan = CommitPlan::new(writes, known, head.revision, head.now_ms, nonce);
    let obstacles = entries(connection, &plan.obstacles()).await?;
    if !plan.commits.is_empty() {
        insert_log(connection, &plan.commits).await?;
        upsert_names(connection, &plan.last_per_key()).await?;
        let advance = sqlx::query("UPDATE k3_store SET revision = ? WHERE id = 1").bind(plan.newest().get());
        connection.run(advance).await?;
    }
    Ok(StagedGroup {
        plan,
        obstacles,
        now_ms: head.now_ms,
        nonce,
    })
}

/// Determines the outcome of a group whose `COMMIT` got no response. Takes the lock of the counter, and so waits until the
/// transaction of the group has ended.
pub(super) async fn group_outcome(
    connection: &mut Connection,
    group: &StagedGroup,
) -> Result<GroupOutcome, MysqlFailure> {
    let (Some(first), newest) = (group.plan.commits.first(), group.plan.newest()) else {
        return Ok(GroupOutcome::RolledBack);
    };
    let first = first.logged.revision;
    let head = lock(connection).await?;
    let statement = sqlx::query("SELECT nonce FROM k3_log WHERE revision BETWEEN ? AND ? LIMIT 1")
        .bind(first.get())
        .bind(newest.get());
    let rows = connection.rows(statement).await?;
    connection.roll_back().await?;
    // The revisions of the group belong to the group, or to a later one if it failed.
    match rows.first() {
        Some(row) => {
            let nonce: u64 = row.try_get(0).map_err(|error| connection.misread(error))?;
            Ok(if nonce == group.nonce {
                GroupOutcome::Committed
            } else {
                GroupOutcome::RolledBack
            })
        }
        None if head.revision < first => Ok(GroupOutcome::RolledBack),
        None => Ok(GroupOutcome::Forgotten),
    }
}

/// Appends commits to the log.
pub(super) async fn insert_log(
    connection: &mut Connection,
    commits: &[PlannedCommit],
) -> Result<(), MysqlFailure> {
    let sizes: Vec<_> = commits
        .iter()
        .map(|commit| row_bytes(&commit.logged.key, &commit.logged.value))
        .collect();
    for piece in pieces(&sizes, connection.max_packet) {
        connection.run(log_statement(&commits[piece])).await?;
    }
    Ok(())
}

/// Records the newest commit of each key. Not more than [`super::statement::MAX_ROWS`].
pub(super) async fn upsert_names(
    connection: &mut Connection,
    newest: &[&LogRow],
) -> Result<(), MysqlFailure> {
    let rows = padded(newest);
    let sql = format!(
        "INSERT INTO k3_names (name, revision, deleted, expires_ms) VALUES {} \
         ON DUPLICATE KEY UPDATE revision = VALUES(revision), deleted = VALUES(deleted), \
         expires_ms = VALUES(expires_ms)",
        tuples(rows.len(), 4)
    );
    let mut statement = sqlx::query(AssertSqlSafe(sql));
    for logged in rows {
        let (expires_ms, _) = expiry_columns(logged.expiry);
        statement = statement
            .bind(logged.key.as_bytes())
            .bind(logged.revision.get())
            .bind(u8::from(logged.kind == super::row::Kind::Deleted))
            .bind(expires_ms);
    }
    connection.run(statement).await?;
    Ok(())
}

fn log_statement(commits: &[PlannedCommit]) -> Statement<'_> {
    let sql = format!(
        "INSERT INTO k3_log (revision, name, kind, previous, nonce, expires_ms, ttl_ms, value) VALUES {}",
        tuples(commits.len(), 8)
    );
    let mut statement = sqlx::query(AssertSqlSafe(sql));
    for PlannedCommit { logged, previous } in commits {
        let (expires_ms, ttl_ms) = expiry_columns(logged.expiry);
        statement = statement
            .bind(logged.revision.get())
            .bind(logged.key.as_bytes())
            .bind(logged.kind.code())
            .bind(previous.map_or(0, Revision::get))
            .bind(logged.nonce)
            .bind(expires_ms)
            .bind(ttl_ms)
            .bind(&logged.value[..]);
    }
    statement
}

/// The states of keys. Read after the counter was locked, so no process changes them before this
/// transaction ends.
async fn known(connection: &mut Connection, keys: &[&Key]) -> Result<HashMap<Key, KeyState>, MysqlFailure> {
    let names = padded(keys);
    let sql = format!(
        "SELECT name, revision FROM k3_names WHERE name IN ({}) AND deleted = 0",
        arguments(names.len())
    );
    let statement = names.fold(sqlx::query(AssertSqlSafe(sql)), |statement, key| {
        statement.bind(key.as_bytes())
    });
    let mut known = HashMap::new();
    for row in connection.rows(statement).await? {
        let state = row
            .try_get(0)
            .and_then(key)
            .and_then(|name| Ok((name, KeyState::Live(Revision::new(row.try_get(1)?)))));
        let (name, state) = state.map_err(|error| connection.misread(error))?;
        known.insert(name, state);
    }
    Ok(known)
}

/// The entries that these commits left.
async fn entries(
    connection: &mut Connection,
    revisions: &[Revision],
) -> Result<HashMap<Revision, Entry>, MysqlFailure> {
    if revisions.is_empty() {
        return Ok(HashMap::new());
    }
    let wanted = padded(revisions);
    let sql = format!(
        concat!(
            "SELECT ",
            head_columns!(),
            ", ",
            log_columns!(),
            " FROM k3_store s JOIN k3_log l ON l.revision IN ({}) WHERE s.id = 1"
        ),
        arguments(wanted.len())
    );
    let statement = wanted.fold(sqlx::query(AssertSqlSafe(sql)), |statement, revision| {
        statement.bind(revision.get())
    });
    let rows = connection.rows(statement).await?;
    let found = logged(&rows).map_err(MysqlFailure::Permanent)?;
    Ok(found
        .into_iter()
        .filter_map(LogRow::into_entry)
        .map(|entry| (entry.revision, entry))
        .collect())
}
