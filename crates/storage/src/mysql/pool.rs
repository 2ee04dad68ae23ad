//! Connections shared by reads and by the background work.
//!
//! The driver's pool is not used: it cannot limit the idle connections, asks the server whether a
//! connection works before each use, and takes back connections on which a dropped future left a
//! transaction or an answer behind.

use std::{sync::Arc, time::Duration};

use k3_task::{Backoff, BackoffDelays};
use parking_lot::{Mutex, MutexGuard};
use sqlx::mysql::MySqlRow;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout, timeout_at},
};

use super::{
    connection::{Connection, ConnectionFactory, ConnectionRole, Statement},
    failure::{MysqlFailure, timed_out},
    options::OWN_CONNECTIONS,
};
use crate::StoreError;

/// The wait before a second attempt. Doubles with each.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_millis(500));

/// A pool with a maximum number of open and of idle connections.
pub(super) struct ConnectionPool {
    connector: Arc<ConnectionFactory>,
    /// One for each connection that may be open.
    permits: Semaphore,
    /// Idle connections, the one used last at the end. Not more than `max_idle_conns`.
    idle: Mutex<Vec<Connection>>,
}

/// A connection in use. Dropping it closes it; [`PooledConnection::release`] keeps it for the next.
pub(super) struct PooledConnection<'a> {
    pub(super) connection: Connection,
    pool: &'a ConnectionPool,
    _permit: SemaphorePermit<'a>,
}

/// The schedule of retries of temporary errors.
pub(super) struct RetryTimer {
    deadline: Instant,
    delays: BackoffDelays,
}

// --- ConnectionPool ---

impl ConnectionPool {
    pub(super) fn new(connector: Arc<ConnectionFactory>) -> Self {
        Self {
            permits: Semaphore::new(connector.options.max_open_conns - OWN_CONNECTIONS),
            idle: Mutex::default(),
            connector,
        }
    }

    /// The rows of a statement that changes nothing, within the request time-out.
    pub(super) async fn rows<'q>(
        &self,
        statement: impl Fn() -> Statement<'q>,
    ) -> Result<Vec<MySqlRow>, StoreError> {
        self.persist(|| self.rows_once(statement())).await
    }

    /// Runs an idempotent operation until it succeeds, fails permanently, or the request timeout has passed.
    pub(super) async fn persist<T, A>(&self, attempt: impl Fn() -> A) -> Result<T, StoreError>
    where
        A: Future<Output = Result<T, MysqlFailure>>,
    {
        let mut attempts = RetryTimer::until(Instant::now() + self.connector.options.request_timeout);
        loop {
            match timeout_at(attempts.deadline, attempt()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failure)) => attempts.again(failure).await?,
                Err(_) => return Err(timed_out()),
            }
        }
    }

    /// Runs an operation once, within the request timeout.
    pub(super) async fn once<T>(
        &self,
        attempt: impl Future<Output = Result<T, MysqlFailure>>,
    ) -> Result<T, StoreError> {
        match timeout(self.connector.options.request_timeout, attempt).await {
            Ok(done) => done.map_err(MysqlFailure::into_error),
            Err(_) => Err(timed_out()),
        }
    }

    /// The rows of a statement, or what failed with the first attempt.
    pub(super) async fn rows_once(&self, statement: Statement<'_>) -> Result<Vec<MySqlRow>, MysqlFailure> {
        let mut lease = self.lease().await?;
        let rows = lease.connection.rows(statement).await?;
        lease.release();
        Ok(rows)
    }

    /// Waits for a connection.
    pub(super) async fn lease(&self) -> Result<PooledConnection<'_>, MysqlFailure> {
        let permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| MysqlFailure::Permanent(StoreError::Closed))?;
        let rested = self.lock().pop().filter(|connection| !connection.is_stale());
        let connection = match rested {
            Some(connection) => connection,
            None => self.connector.connect(ConnectionRole::Reader).await?,
        };
        Ok(PooledConnection {
            connection,
            pool: self,
            _permit: permit,
        })
    }

    /// Prevents new connections and closes idle ones.
    pub(super) fn close(&self) {
        self.permits.close();
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock()
    }
}

// --- PooledConnection ---

impl PooledConnection<'_> {
    /// Returns the connection to the pool, without an open transaction or a pending response.
    pub(super) fn release(self) {
        let mut idle = self.pool.lock();
        if idle.len() < self.pool.connector.options.max_idle_conns && !self.pool.permits.is_closed() {
            idle.push(self.connection);
        }
    }
}

// --- RetryTimer ---

impl RetryTimer {
    pub(super) fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            delays: BACKOFF.delays(),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Waits for the next attempt; returns the error if there is none.
    pub(super) async fn again(&mut self, failure: MysqlFailure) -> Result<(), StoreError> {
        let error = match failure {
            MysqlFailure::Transient(error) => error,
            MysqlFailure::Permanent(error) => return Err(error),
        };
        let delay = self.delays.next_delay();
        let next = Instant::now() + delay;
        if next >= self.deadline {
            return Err(error);
        }
        tracing::debug!(%error, "a statement failed, will try again in {delay:?}");
        tokio::time::sleep_until(next).await;
        Ok(())
    }
}
