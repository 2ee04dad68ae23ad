//! Connections, set up so that every statement means the same on every server.

use std::{sync::Arc, time::Duration};

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Executor as _, MySql,
    mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlRow},
    query::Query,
};
use tokio::time::{Instant, timeout};

use super::{
    failure::{MysqlFailure, timed_out, unavailable},
    options::MysqlOptions,
};

/// The least `max_allowed_packet` a server may have: a group's longest list of keys fits with ease.
const MIN_PACKET: usize = 256 * 1024;

/// How long a connection may rest before it is not worth trying any more: servers close those that do
/// nothing, some after a minute.
const REST: Duration = Duration::from_secs(30);

/// Set before anything is locked. A process that stops in the middle of a transaction, or whose machine vanishes,
/// holds its locks until the server gives its session up: after hours by default. So the server gives up a session
/// that is silent for a second, or that takes longer for the rest of a packet. Both MySQL and MariaDB do so by
/// themselves; no other process has to find out who holds a lock, or needs the right to end it.
const LIMIT_SILENCE: &str =
    "SET SESSION wait_timeout = 1, SESSION net_read_timeout = 2, SESSION net_write_timeout = 2";

/// Set when nothing is locked any more, so that the session can rest for longer than [`REST`].
const ALLOW_SILENCE: &str = "SET SESSION wait_timeout = 60, SESSION net_read_timeout = DEFAULT, \
     SESSION net_write_timeout = DEFAULT";

/// A statement with its arguments.
pub(super) type Statement<'q> = Query<'q, MySql, MySqlArguments>;

/// Makes connections.
pub(super) struct ConnectionFactory {
    pub(super) options: MysqlOptions,
    target: MySqlConnectOptions,
    /// How the server is called in messages.
    pub(super) location: String,
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionRole {
    /// Each statement is a transaction of its own, unless one is begun.
    Reader,
    /// Every statement is part of a transaction, which ends by `COMMIT` or with the connection.
    Writer,
}

/// An open connection.
///
/// A caller that fails, or is dropped, in the middle of something drops the connection with it: the server
/// then rolls back, and no caller can receive the answer to another caller's query.
pub(super) struct Connection {
    inner: MySqlConnection,
    location: Arc<str>,
    /// The server refuses packets that are longer.
    pub(super) max_packet: usize,
    /// When it was last known to work.
    used: Instant,
    silence: ServerSilence,
}

/// How long the server lets a session be silent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerSilence {
    /// As long as sessions may that hold no locks.
    Allowed,
    /// For a second.
    Limited,
    /// Unknown, because the server did not answer when it was changed.
    Unknown,
}

// --- ConnectionFactory ---

impl ConnectionFactory {
    pub(super) fn new(options: MysqlOptions) -> Self {
        let location = options.location();
        Self {
            target: options.server().database(&options.database),
            options,
            location,
        }
    }

    /// Opens a connection to the database and sets it up.
    pub(super) async fn connect(&self, role: ConnectionRole) -> Result<Connection, MysqlFailure> {
        timeout(self.options.connect_timeout, self.establish(role))
            .await
            .map_err(|_| MysqlFailure::Transient(timed_out()))?
    }

    async fn establish(&self, role: ConnectionRole) -> Result<Connection, MysqlFailure> {
        let failure = |error| MysqlFailure::of(error, &self.location);
        let mut inner = self.target.connect().await.map_err(failure)?;
        inner
            .execute(AssertSqlSafe(self.session(role)))
            .await
            .map_err(failure)?;
        let max_packet: u64 = sqlx::query_scalar("SELECT CAST(@@max_allowed_packet AS UNSIGNED)")
            .fetch_one(&mut inner)
            .await
            .map_err(failure)?;
        let max_packet = usize::try_from(max_packet).unwrap_or(usize::MAX);
        if max_packet < MIN_PACKET {
            return Err(MysqlFailure::Permanent(unavailable(format!(
                "max_allowed_packet of the server is {max_packet}, it must be at least {MIN_PACKET}"
            ))));
        }
        Ok(Connection {
            inner,
            location: self.location.as_str().into(),
            max_packet,
            used: Instant::now(),
            silence: ServerSilence::Allowed,
        })
    }

    /// The statements that set up a session.
    ///
    /// READ COMMITTED: every statement sees what was committed when it began, in all tables alike. A
    /// read is one statement, and so a snapshot that includes every acknowledged write. The statements
    /// of a writer follow it has locked the counter, and so see the commit before theirs. Nothing
    /// locks gaps between keys, over which writers and compaction would deadlock.
    ///
    /// Strict mode: a value that does not fit is an error, not cut.
    fn session(&self, role: ConnectionRole) -> String {
        let lock_wait = self.options.request_timeout.as_secs().max(1);
        let common = format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
             innodb_lock_wait_timeout = {lock_wait}"
        );
        match role {
            ConnectionRole::Reader => common,
            ConnectionRole::Writer => format!("{common}, autocommit = 0; {ALLOW_SILENCE}"),
        }
    }
}

// --- Connection ---

impl Connection {
    /// Runs a statement and returns its rows.
    pub(super) async fn rows(&mut self, statement: Statement<'_>) -> Result<Vec<MySqlRow>, MysqlFailure> {
        let rows = statement.fetch_all(&mut self.inner).await;
        self.checked(rows)
    }

    /// Runs a statement and returns how many rows it found or changed.
    pub(super) async fn run(&mut self, statement: Statement<'_>) -> Result<u64, MysqlFailure> {
        let done = statement.execute(&mut self.inner).await;
        Ok(self.checked(done)?.rows_affected())
    }

    /// Runs a statement that has no arguments and no answer.
    pub(super) async fn plain(&mut self, sql: &'static str) -> Result<(), MysqlFailure> {
        let done = self.inner.execute(sql).await;
        self.checked(done).map(drop)
    }

    /// Begins a transaction that locks rows. It ends by [`Connection::commit`] or [`Connection::roll_back`], or
    /// with the connection.
    pub(super) async fn begin(&mut self) -> Result<(), MysqlFailure> {
        self.limit_silence().await?;
        self.plain("START TRANSACTION").await
    }

    /// Ends a transaction.
    pub(super) async fn commit(&mut self) -> Result<(), MysqlFailure> {
        self.plain("COMMIT").await?;
        self.allow_silence().await;
        Ok(())
    }

    /// Takes a transaction back.
    pub(super) async fn roll_back(&mut self) -> Result<(), MysqlFailure> {
        self.plain("ROLLBACK").await?;
        self.allow_silence().await;
        Ok(())
    }

    /// From now on the server ends the session, and frees its locks, when it hears nothing for a second.
    pub(super) async fn limit_silence(&mut self) -> Result<(), MysqlFailure> {
        if self.silence != ServerSilence::Limited {
            self.plain(LIMIT_SILENCE).await?;
            self.silence = ServerSilence::Limited;
        }
        Ok(())
    }

    /// Lets the session rest, after a transaction has ended. A connection on which that fails is stale.
    pub(super) async fn allow_silence(&mut self) {
        if self.silence == ServerSilence::Limited {
            self.silence = ServerSilence::Unknown;
            if self.plain(ALLOW_SILENCE).await.is_ok() {
                self.silence = ServerSilence::Allowed;
            }
        }
    }

    /// Whether the server closes it soon if it is not used.
    pub(super) fn is_silence_limited(&self) -> bool {
        self.silence != ServerSilence::Allowed
    }

    /// Whether the server may have closed it because it was idle.
    pub(super) fn is_stale(&self) -> bool {
        self.silence == ServerSilence::Unknown || self.used.elapsed() > REST
    }

    /// The meaning of a failure to read a row this connection returned.
    pub(super) fn misread(&self, error: sqlx::Error) -> MysqlFailure {
        MysqlFailure::of(error, &self.location)
    }

    fn checked<T>(&mut self, result: Result<T, sqlx::Error>) -> Result<T, MysqlFailure> {
        self.used = Instant::now();
        result.map_err(|error| MysqlFailure::of(error, &self.location))
    }
}
