//! Creation and validation of the tables.

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, mysql::MySqlConnection};
use tokio::time::timeout;

use super::{
    failure::{MysqlFailure, is_missing_table, is_unknown_database, timed_out, unavailable},
    options::MysqlOptions,
};
use crate::{
    OpenError, Revision,
    format::{self, MigrationPlan},
};

/// Migration steps between formats; none yet, because the tables below are format 1.
#[derive(Debug, PartialEq, Eq)]
enum MigrationStep {}

const STEPS: &[MigrationStep] = &[];

/// The message for a server that does not respond.
const NO_ANSWER: &str = "no answer in time; check that the server runs and is not overloaded";

/// Every commit since the last compaction, and before it those that still hold a live value: here,
/// and only here, is the value. Between `k3_store.compacted` and `k3_store.revision` no number is
/// missing.
const LOG: &str = "CREATE TABLE IF NOT EXISTS k3_log (
    revision BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    name VARBINARY(768) NOT NULL,
    kind TINYINT UNSIGNED NOT NULL COMMENT '0 deleted, 1 created, 2 updated',
    previous BIGINT UNSIGNED NOT NULL COMMENT 'the commit whose value this one replaced; 0 for none',
    nonce BIGINT UNSIGNED NOT NULL COMMENT 'the group this was committed with',
    expires_ms BIGINT UNSIGNED NULL COMMENT 'milliseconds since 1970, by this server',
    ttl_ms BIGINT UNSIGNED NULL,
    value MEDIUMBLOB NOT NULL,
    KEY by_name (name, revision)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC";

/// For each key its newest commit. A deleted key stays until its deletion is compacted, because a
/// read at an older revision must find it. Binary names: the order is that of bytes, and a space at
/// the end counts.
const NAMES: &str = "CREATE TABLE IF NOT EXISTS k3_names (
    name VARBINARY(768) NOT NULL PRIMARY KEY,
    revision BIGINT UNSIGNED NOT NULL,
    deleted TINYINT UNSIGNED NOT NULL,
    expires_ms BIGINT UNSIGNED NULL,
    KEY by_expiry (expires_ms)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC";

/// How far compaction has deleted rows. Apart from `k3_store`, so that its lock does not stop writers.
const SWEEP: &str = "CREATE TABLE IF NOT EXISTS k3_sweep (
    id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    revision BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB";

/// One row: where the store stands. A caller that wants a revision locks it, so commits happen one after the
/// other, in the order of their revisions.
const STORE: &str = "CREATE TABLE IF NOT EXISTS k3_store (
    id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    format INT UNSIGNED NOT NULL,
    revision BIGINT UNSIGNED NOT NULL COMMENT 'the newest commit',
    compacted BIGINT UNSIGNED NOT NULL COMMENT 'the oldest state that can be read',
    importing BIGINT UNSIGNED NULL COMMENT 'the unfinished import, if there is one'
) ENGINE = InnoDB";

/// Makes the database and its tables where they are missing, and refuses those of a newer program.
pub(super) async fn prepare(options: &MysqlOptions) -> Result<(), OpenError> {
    let patience = options.connect_timeout + options.request_timeout;
    timeout(patience, create(options))
        .await
        .map_err(|_| OpenError::Store(timed_out()))?
}

async fn create(options: &MysqlOptions) -> Result<(), OpenError> {
    let location = options.location();
    let store_error = |error| OpenError::Store(MysqlFailure::of(error, &location).into_error());
    let mut connection = timeout(options.connect_timeout, connect(options))
        .await
        .map_err(|_| OpenError::Store(unavailable(format!("{location}: {NO_ANSWER}"))))?
        .map_err(store_error)?;
    let mut found = stored_format(&mut connection).await.map_err(store_error)?;
    if format::plan_migration(&location, found, STEPS)? != MigrationPlan::Current {
        lock(&mut connection, options).await?;
        // The previous holder of the lock may have created everything.
        found = stored_format(&mut connection).await.map_err(store_error)?;
    }
    match format::plan_migration(&location, found, STEPS)? {
        MigrationPlan::Fresh => create_tables(&mut connection).await.map_err(store_error)?,
        MigrationPlan::Current => {}
        MigrationPlan::Migrate { from, steps } => {
            tracing::info!(from, "the tables are of an older format");
            match steps[0] {}
        }
    }
    warn_of_lossy_server(&mut connection).await.map_err(store_error)?;
    // The lock belongs to the connection and ends with it.
    connection.close().await.map_err(store_error)
}

/// Connects to the database, after making it if it is missing. It is tried first because the account
/// may be allowed to use the database but not to make one.
async fn connect(options: &MysqlOptions) -> Result<MySqlConnection, sqlx::Error> {
    let target = options.server().database(&options.database);
    match target.connect().await {
        Err(error) if is_unknown_database(&error) => {}
        answer => return answer,
    }
    let mut connection = options.server().connect().await?;
    let create = format!("CREATE DATABASE IF NOT EXISTS `{}`", options.database);
    connection.execute(AssertSqlSafe(create)).await?;
    connection.close().await?;
    target.connect().await
}

/// The format of the tables, or `None` where they are not complete.
async fn stored_format(connection: &mut MySqlConnection) -> Result<Option<u32>, sqlx::Error> {
    let found = sqlx::query_scalar("SELECT format FROM k3_store WHERE id = 1")
        .fetch_optional(connection)
        .await;
    match found {
        Err(error) if is_missing_table(&error) => Ok(None),
        found => found,
    }
}

/// Keeps other processes from changing the tables until the connection ends.
async fn lock(connection: &mut MySqlConnection, options: &MysqlOptions) -> Result<(), OpenError> {
    let patience = options.request_timeout.as_secs().max(1);
    // Names of locks are shared by all databases of a server and have at most 64 characters.
    let got: Option<i64> =
        sqlx::query_scalar("SELECT CAST(GET_LOCK(CONCAT('k3.', MD5(DATABASE())), ?) AS SIGNED)")
            .bind(patience)
            .fetch_one(connection)
            .await
            .map_err(|error| OpenError::Store(MysqlFailure::of(error, &options.location()).into_error()))?;
    if got == Some(1) {
        return Ok(());
    }
    Err(OpenError::Store(unavailable(
        "another process is preparing the tables",
    )))
}

/// Makes what is missing. The row of `k3_store` arrives last: where it is, everything is.
async fn create_tables(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    for table in [LOG, NAMES, SWEEP, STORE] {
        connection.execute(table).await?;
    }
    let first = Revision::FIRST.get();
    sqlx::query("INSERT IGNORE INTO k3_sweep (id, revision) VALUES (1, ?)")
        .bind(first)
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT IGNORE INTO k3_store (id, format, revision, compacted) VALUES (1, ?, ?, ?)")
        .bind(format::newest(STEPS))
        .bind(first)
        .bind(first)
        .execute(connection)
        .await?;
    Ok(())
}

/// Warns the operator if the server may lose acknowledged writes.
async fn warn_of_lossy_server(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let flush: String = sqlx::query_scalar("SELECT CAST(@@innodb_flush_log_at_trx_commit AS CHAR)")
        .fetch_one(connection)
        .await?;
    if flush != "1" {
        tracing::warn!(
            "the database has innodb_flush_log_at_trx_commit = {flush}: a crash of the server may lose \
             writes it has acknowledged; set it to 1"
        );
    }
    Ok(())
}
